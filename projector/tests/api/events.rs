//! Events as the tests need them.

use linkledger_core::{
    account::{AccountEvent, AccountResumed, AccountSuspended},
    credits::{CreditsAdjusted, CreditsEvent},
    event::Event,
    id::AccountId,
    link::{
        LinkCreated, LinkDeleted, LinkDestinationChanged, LinkDisabled, LinkEnabled, LinkEvent,
    },
};

pub(crate) fn destination_changed(link: &LinkCreated, destination_url: &str) -> Event {
    Event::Link(LinkEvent::DestinationChanged(LinkDestinationChanged {
        link_id: link.link_id,
        account_id: link.account_id,
        destination_url: destination_url.to_owned(),
        previous_destination_url: link.destination_url.clone(),
    }))
}

pub(crate) fn deleted(link: &LinkCreated) -> Event {
    Event::Link(LinkEvent::Deleted(LinkDeleted {
        link_id: link.link_id,
        account_id: link.account_id,
        slug: link.slug.clone(),
    }))
}

pub(crate) fn disabled(link: &LinkCreated) -> Event {
    Event::Link(LinkEvent::Disabled(LinkDisabled {
        link_id: link.link_id,
        account_id: link.account_id,
        reason: "test".to_owned(),
    }))
}

pub(crate) fn enabled(link: &LinkCreated) -> Event {
    Event::Link(LinkEvent::Enabled(LinkEnabled {
        link_id: link.link_id,
        account_id: link.account_id,
        reason: "test".to_owned(),
    }))
}

pub(crate) fn suspended(account_id: AccountId, stop_redirects: bool) -> Event {
    Event::Account(AccountEvent::Suspended(AccountSuspended {
        account_id,
        reason: "test".to_owned(),
        stop_redirects,
    }))
}

pub(crate) fn resumed(account_id: AccountId) -> Event {
    Event::Account(AccountEvent::Resumed(AccountResumed {
        account_id,
        reason: "test".to_owned(),
        stop_redirects: false,
    }))
}

pub(crate) fn adjusted(account_id: AccountId, amount: i64, balance_after: i64) -> Event {
    Event::Credits(CreditsEvent::Adjusted(CreditsAdjusted {
        account_id,
        amount,
        balance_after,
        reason: "test".to_owned(),
    }))
}
