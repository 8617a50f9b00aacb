//! Events for tests, and changes of every type.

use std::collections::BTreeSet;

use sqlx::PgPool;

use linkledger_core::{
    account::{Account, AccountChangeRequest, AccountEvent, AccountResumed, AccountSuspended},
    api_key::{ApiKeyEvent, ApiKeyIssued, KeyChangeRequest, KeyState, Scope},
    change::ValueUpdate,
    clock::{Clock as _, SystemClock, new_uuid},
    credits::{Credits, CreditsAdjusted, CreditsCharged, CreditsEvent, CreditsGranted},
    event::{CATALOGUE, Event},
    id::{AccountId, EntryId, KeyId, WebhookId},
    link::{
        Destination, DetailChanges, DisabledBy, Expiry, LinkCreated, LinkDeleted,
        LinkDestinationChanged, LinkDetails, LinkDetailsChanged, LinkDisabled, LinkEnabled,
        LinkEvent,
    },
    observation::{LinkClicks, LinkExpired, LinkFirstClicked, LinksClicked, ObservationEvent},
    shard::{Position, Shard},
    webhook::{
        DisabledReason, SecretVersion, Webhook, WebhookChangeRequest, WebhookCreated,
        WebhookDeleted, WebhookEvent, WebhookFailing, WebhookUrl,
    },
};
use linkledger_event_store::{
    accounts::{self, ListedAccount},
    log,
};

use super::{append_events, append_links};

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

/// Changes of an account, from its row. At the end the account is active. `charge` and `grant` are entries of its
/// ledger to reverse.
fn account_changes(
    account: &ListedAccount,
    charge: (EntryId, &CreditsCharged),
    grant: (EntryId, &CreditsGranted),
) -> Vec<Event> {
    let (account_id, balance) = (account.account.account_id, account.balance);
    let [first, second] = [(); 2].map(|()| KeyId::from_uuid(new_uuid(SystemClock.now())));
    let keys = key_changes(account_id, first, second);
    let own = [
        granted(account_id, 10, balance + 10),
        adjusted(account_id, -7, balance + 3),
        refunded(charge, balance + 3),
        revoked(grant, balance + 3 + charge.1.amount),
        renamed(&account.account, "renamed"),
        suspended(account_id, true),
        resumed(account_id),
    ];
    let webhooks = webhook_changes(account_id);
    own.into_iter().chain(keys).chain(webhooks).collect()
}

/// Issues, changes, rotates and revokes keys.
fn key_changes(account_id: AccountId, key_id: KeyId, new_key_id: KeyId) -> Vec<Event> {
    let now = SystemClock.now();
    let issued = ApiKeyIssued {
        account_id,
        key_id,
        name: "test".to_owned(),
        scopes: Scope::names(&Scope::ALL),
        expires_at: Some(Expiry::at(now + time::Duration::days(30))),
    };
    let key = KeyState::new(&issued, now);
    let other = KeyChangeRequest {
        scopes: Some(Scope::names(&[Scope::LinksRead])),
        expires_at: ValueUpdate::Remove,
        ..KeyChangeRequest::default()
    };
    let changed = key.decide_change(&other).expect("another scope");
    let key = key.apply(&ApiKeyEvent::Changed(changed.clone()));
    let (new, rotated) = key.decide_rotate(new_key_id, now);
    let revoked = KeyState::new(&new, now).decide_revoke(now);
    let events = [
        ApiKeyEvent::Issued(issued),
        ApiKeyEvent::Changed(changed),
        ApiKeyEvent::Issued(new),
        ApiKeyEvent::Rotated(rotated),
        ApiKeyEvent::Revoked(revoked.expect("a valid key")),
    ];
    events.map(Event::ApiKey).into()
}

/// Creates two webhooks, changes, rotates and disables one of them after a notice, and deletes the other.
fn webhook_changes(account_id: AccountId) -> Vec<Event> {
    let now = SystemClock.now();
    let [kept, dropped] = [(); 2].map(|()| WebhookCreated {
        account_id,
        webhook_id: WebhookId::from_uuid(new_uuid(now)),
        url: WebhookUrl::stored("https://hooks.example/"),
        types: vec!["link.created".to_owned()],
        description: Some("test".to_owned()),
        in_order: false,
        all_accounts: false,
        secret: SecretVersion {
            master_key_id: "test".to_owned(),
            generation: 1,
        },
    });
    let webhook = Webhook::new(&kept, now);
    let other = WebhookChangeRequest {
        types: Some(Vec::new()),
        description: ValueUpdate::Remove,
        in_order: Some(true),
        ..WebhookChangeRequest::default()
    };
    let changed = webhook.decide_change(&other).expect("other types");
    let rotated = webhook.decide_rotate("test", now);
    let failing = WebhookFailing {
        account_id,
        webhook_id: kept.webhook_id,
        failing_since: now - time::Duration::days(1),
        hours: 24,
    };
    let disabled = webhook.decide_disable(DisabledReason::Unreachable);
    let deleted = WebhookDeleted {
        account_id,
        webhook_id: dropped.webhook_id,
    };
    let events = [
        WebhookEvent::Created(kept),
        WebhookEvent::Changed(changed),
        WebhookEvent::SecretRotated(rotated),
        WebhookEvent::Failing(failing),
        WebhookEvent::Disabled(disabled.expect("an enabled webhook")),
        WebhookEvent::Created(dropped),
        WebhookEvent::Deleted(deleted),
    ];
    events.map(Event::Webhook).into()
}

/// Appends links whose slugs begin with `name` and a grant, and returns changes of every type for the caller to
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
    let charge = entry_at(pool, account_id, created[0].position).await;
    let account = row(pool, account_id).await;
    let grant = granted(account_id, 5, account.balance + 5);
    let position = append_events(pool, account_id, &[grant]).await[0];
    let (grant_id, CreditsEvent::Granted(grant)) = entry_at(pool, account_id, position).await
    else {
        panic!("the grant is the last event");
    };
    let account = row(pool, account_id).await;
    let own = account_changes(&account, (charge.0, &created[0].charge), (grant_id, &grant));
    let link_changes = LINK_CHANGES.iter().zip(&created);
    let changes: Vec<Event> = link_changes
        .flat_map(|(changes_of, created)| changes_of(&created.link))
        .chain(observations(&created[0].link))
        .chain(own)
        .collect();
    assert_every_type(&changes);
    changes
}

async fn row(pool: &PgPool, account_id: AccountId) -> ListedAccount {
    let account = accounts::get(pool, account_id).await;
    let account = account.expect("the account is read");
    account.expect("the account exists")
}

/// Returns the entry of the ledger at a position of the account's shard.
async fn entry_at(
    pool: &PgPool,
    account_id: AccountId,
    position: Position,
) -> (EntryId, CreditsEvent) {
    let events = log::read_at(pool, Shard::of(account_id), &[position]).await;
    let event = events.expect("the log is read").remove(0);
    let entry_id = EntryId::from_uuid(event.event_id.uuid());
    match event.decode() {
        Ok(Event::Credits(event)) => (entry_id, event),
        event => panic!("an entry of the ledger is wanted: {event:?}"),
    }
}

fn assert_every_type(changes: &[Event]) {
    let mut types: BTreeSet<&str> = changes.iter().map(Event::event_type).collect();
    // Appended by `append_links`, and by `created_account`.
    types.extend(["LinkCreated", "CreditsCharged", "AccountCreated"]);
    let catalogue = CATALOGUE.iter().map(|(event_type, _)| *event_type);
    assert_eq!(
        types,
        catalogue.collect(),
        "LINK_CHANGES, observations, account_changes, key_changes or webhook_changes in core/testing/src/events.rs lack a \
         type of event"
    );
}

/// Returns one observation of each type.
fn observations(link: &LinkCreated) -> [Event; 3] {
    let minute = SystemClock.now().replace_second(0).expect("a second");
    let clicked = LinksClicked {
        account_id: link.account_id,
        minute: minute.replace_nanosecond(0).expect("a nanosecond"),
        links: vec![LinkClicks {
            link_id: link.link_id,
            clicks: 2,
            bots: 1,
        }],
    };
    [
        first_clicked(link),
        Event::Observation(ObservationEvent::LinksClicked(clicked)),
        expired(link),
    ]
}

/// Returns the expiry of a link, from its first details.
///
/// # Panics
/// Panics if the link was created without an expiry.
pub fn expired(link: &LinkCreated) -> Event {
    Event::Observation(ObservationEvent::LinkExpired(LinkExpired {
        account_id: link.account_id,
        link_id: link.link_id,
        expires_at: link.expires_at.expect("an expiry").instant(),
    }))
}

/// Returns the first click of a link, made at this moment.
pub fn first_clicked(link: &LinkCreated) -> Event {
    Event::Observation(ObservationEvent::LinkFirstClicked(LinkFirstClicked {
        account_id: link.account_id,
        link_id: link.link_id,
        clicked_at: SystemClock.now(),
    }))
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

/// Returns a change of an account's name.
///
/// # Panics
/// Panics if the account has this name.
pub fn renamed(account: &Account, name: &str) -> Event {
    let request = AccountChangeRequest {
        name: Some(name.to_owned()),
        ..AccountChangeRequest::default()
    };
    let changed = account.decide_change(&request).expect("another name");
    Event::Account(AccountEvent::Changed(changed))
}

/// Returns a refund of a charge. `balance` is the balance before.
///
/// # Panics
/// Panics if the balance would overflow.
pub fn refunded((entry, charge): (EntryId, &CreditsCharged), balance: i64) -> Event {
    let refunded = credits_of(balance).decide_refund(charge.account_id, charge, entry, "test");
    Event::Credits(CreditsEvent::Refunded(refunded.expect("a small balance")))
}

/// Returns a revocation of a grant. `balance` is the balance before.
pub fn revoked((entry, grant): (EntryId, &CreditsGranted), balance: i64) -> Event {
    let revoked = credits_of(balance).decide_revoke(grant.account_id, grant, entry, "test");
    Event::Credits(CreditsEvent::Revoked(revoked))
}

fn credits_of(balance: i64) -> Credits {
    Credits {
        balance,
        version: 0,
        ..Credits::default()
    }
}

/// Returns a grant of credits.
pub fn granted(account_id: AccountId, amount: i64, balance_after: i64) -> Event {
    Event::Credits(CreditsEvent::Granted(CreditsGranted {
        account_id,
        amount,
        balance_after,
        reason: "test".to_owned(),
        reference: None,
        description: None,
    }))
}

/// Returns a correction of an account's balance.
pub fn adjusted(account_id: AccountId, amount: i64, balance_after: i64) -> Event {
    Event::Credits(CreditsEvent::Adjusted(CreditsAdjusted {
        account_id,
        amount,
        balance_after,
        reason: "test".to_owned(),
        reference: None,
        description: None,
    }))
}
