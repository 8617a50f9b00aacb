//! Events for tests, and changes of every type.

use std::collections::BTreeSet;

use sqlx::PgPool;

use linkledger_core::{
    account::{AccountEvent, AccountResumed, AccountSuspended},
    credits::{CreditsAdjusted, CreditsEvent, CreditsGranted},
    event::{CATALOGUE, Event},
    id::AccountId,
    link::{
        Destination, DetailChanges, DisabledBy, LinkCreated, LinkDeleted, LinkDestinationChanged,
        LinkDetails, LinkDetailsChanged, LinkDisabled, LinkEnabled, LinkEvent,
    },
};

use super::append_links;

const ELSEWHERE: &str = "https://elsewhere.example/";

/// Changes of one link: each list ends with another type of event.
const LINK_CHANGES: &[fn(&LinkCreated) -> Vec<Event>] = &[
    |link| vec![destination_changed(link, ELSEWHERE)],
    |link| vec![details_changed(link, &LinkDetails::NONE)],
    |link| vec![disabled(link)],
    |link| vec![disabled(link), enabled(link)],
    |link| vec![disabled_by_owner(link)],
    |link| {
        vec![
            disabled_by_owner(link),
            disabled(link),
            enabled_beside_owner(link),
        ]
    },
    |link| vec![deleted(link)],
];

/// Changes of an account with the given balance. At the end the account is active.
fn account_changes(account_id: AccountId, balance: i64) -> [Event; 4] {
    [
        granted(account_id, 10, balance + 10),
        adjusted(account_id, -7, balance + 3),
        suspended(account_id, true),
        resumed(account_id),
    ]
}

/// Appends links whose slugs begin with `name`, and returns changes of every type for the caller to
/// append: every change of a link is the last event of a link of its own.
///
/// # Panics
/// Panics if the changes lack a type of the catalogue.
pub async fn every_change(pool: &PgPool, account_id: AccountId, name: &str) -> Vec<Event> {
    let numbers = 0..LINK_CHANGES.len();
    let slugs: Vec<String> = numbers.map(|it| format!("{name}-changed-{it}")).collect();
    let links: Vec<_> = slugs
        .iter()
        .map(|slug| (slug.as_str(), "https://example.com/"))
        .collect();
    let created = append_links(pool, account_id, &links).await;
    let balance = "SELECT balance FROM event_store.accounts WHERE account_id = $1";
    let balance: i64 = sqlx::query_scalar(balance)
        .bind(account_id.uuid())
        .fetch_one(pool)
        .await
        .expect("the account exists");
    let link_changes = LINK_CHANGES.iter().zip(&created);
    let changes: Vec<Event> = link_changes
        .flat_map(|(changes_of, created)| changes_of(&created.link))
        .chain(account_changes(account_id, balance))
        .collect();
    assert_every_type(&changes);
    changes
}

fn assert_every_type(changes: &[Event]) {
    let mut types: BTreeSet<&str> = changes.iter().map(Event::event_type).collect();
    // Appended by `append_links`.
    types.extend(["LinkCreated", "CreditsCharged"]);
    let catalogue = CATALOGUE.iter().map(|(event_type, _)| *event_type);
    assert_eq!(
        types,
        catalogue.collect(),
        "LINK_CHANGES or account_changes in core/testing/src/events.rs lack a type of event"
    );
}

/// Returns a change of a link's destination, from the first one.
pub fn destination_changed(link: &LinkCreated, destination_url: &str) -> Event {
    Event::Link(LinkEvent::DestinationChanged(LinkDestinationChanged {
        link_id: link.link_id,
        account_id: link.account_id,
        destination_url: Destination::stored(destination_url),
        previous_destination_url: link.destination_url.clone(),
    }))
}

/// Returns a change of a link's details, from the first ones.
///
/// # Panics
/// Panics if the link was created with these details.
pub fn details_changed(link: &LinkCreated, details: &LinkDetails) -> Event {
    let changes = DetailChanges::between(&link.details(), details);
    Event::Link(LinkEvent::DetailsChanged(LinkDetailsChanged {
        link_id: link.link_id,
        account_id: link.account_id,
        changes: changes.expect("other details"),
    }))
}

/// Returns the deletion of a link.
pub fn deleted(link: &LinkCreated) -> Event {
    Event::Link(LinkEvent::Deleted(LinkDeleted {
        link_id: link.link_id,
        account_id: link.account_id,
        slug: link.slug.clone(),
    }))
}

/// Returns the event of a link that an operator disabled.
pub fn disabled(link: &LinkCreated) -> Event {
    disabled_by(link, DisabledBy::Operator)
}

/// Returns the event of a link that its owner disabled.
pub fn disabled_by_owner(link: &LinkCreated) -> Event {
    disabled_by(link, DisabledBy::Owner)
}

fn disabled_by(link: &LinkCreated, by: DisabledBy) -> Event {
    Event::Link(LinkEvent::Disabled(LinkDisabled {
        link_id: link.link_id,
        account_id: link.account_id,
        reason: "test".to_owned(),
        by,
        disabled_by: by,
    }))
}

/// Returns the event of a link that an operator enabled.
pub fn enabled(link: &LinkCreated) -> Event {
    enabled_by_operator(link, None)
}

/// Returns the event of a link that an operator enabled, and that its owner keeps disabled.
pub fn enabled_beside_owner(link: &LinkCreated) -> Event {
    enabled_by_operator(link, Some(DisabledBy::Owner))
}

fn enabled_by_operator(link: &LinkCreated, disabled_by: Option<DisabledBy>) -> Event {
    Event::Link(LinkEvent::Enabled(LinkEnabled {
        link_id: link.link_id,
        account_id: link.account_id,
        reason: "test".to_owned(),
        by: DisabledBy::Operator,
        disabled_by,
    }))
}

/// Returns the suspension of an account.
pub fn suspended(account_id: AccountId, stop_redirects: bool) -> Event {
    Event::Account(AccountEvent::Suspended(AccountSuspended {
        account_id,
        reason: "test".to_owned(),
        stop_redirects,
    }))
}

/// Returns the end of an account's suspension.
pub fn resumed(account_id: AccountId) -> Event {
    Event::Account(AccountEvent::Resumed(AccountResumed {
        account_id,
        reason: "test".to_owned(),
        stop_redirects: false,
    }))
}

/// Returns a grant of credits.
pub fn granted(account_id: AccountId, amount: i64, balance_after: i64) -> Event {
    Event::Credits(CreditsEvent::Granted(CreditsGranted {
        account_id,
        amount,
        balance_after,
        reason: "test".to_owned(),
    }))
}

/// Returns a correction of an account's balance.
pub fn adjusted(account_id: AccountId, amount: i64, balance_after: i64) -> Event {
    Event::Credits(CreditsEvent::Adjusted(CreditsAdjusted {
        account_id,
        amount,
        balance_after,
        reason: "test".to_owned(),
    }))
}
