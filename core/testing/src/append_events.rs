//! Appends given events to the log, without the decision of a command.

use std::collections::{HashMap, hash_map::Entry};

use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

use linkledger_core::{
    clock::{Clock as _, SystemClock, new_uuid},
    envelope::{Metadata, NewEvent},
    event::Event,
    id::{AccountId, EventId, LinkId},
    link::{ExistingLink, LinkEvent, LinkState},
    shard::{Position, Shard},
};
use linkledger_event_store::{accounts, append, transaction::PoolTransaction};

/// Appends events of one account, each at the end of the event's stream, and returns the positions.
///
/// The row of the account gets the new balance and version, and no other change.
pub async fn append_events(
    pool: &PgPool,
    account_id: AccountId,
    events: &[Event],
) -> Vec<Position> {
    let mut tx = PoolTransaction::begin(pool)
        .await
        .expect("a transaction begins");
    let mut accounts = accounts::lock_in_tx(&mut tx, &[account_id])
        .await
        .expect("the account is locked");
    let credits = accounts.get_mut(&account_id).expect("the account exists");
    let mut links = HashMap::new();
    let mut new_events = Vec::with_capacity(events.len());
    let now = SystemClock.now();
    for event in events {
        let (version, link) = match event {
            Event::Link(link_event) => {
                let link = match links.entry(link_event.link_id()) {
                    Entry::Occupied(entry) => entry.into_mut(),
                    Entry::Vacant(entry) => {
                        entry.insert(read_link(&mut tx, account_id, link_event.link_id()).await)
                    }
                };
                let after = link_after(link.take(), link_event, now);
                version_and_state(link.insert(after))
            }
            Event::Account(_) => {
                *credits = credits.pass();
                (credits.version, None)
            }
            Event::Credits(credits_event) => {
                *credits = credits.apply(credits_event);
                (credits.version, None)
            }
        };
        new_events.push(new_event(account_id, version, event, link, now));
    }
    let new_events: Vec<&NewEvent> = new_events.iter().collect();
    let appended = append::append_in_tx(&mut tx, &new_events, &accounts)
        .await
        .expect("events are appended");
    tx.commit().await.expect("the events are committed");
    appended.iter().map(|event| event.position).collect()
}

/// Returns the version of the link, and the state for the metadata of every event but the first.
fn version_and_state(link: &ExistingLink) -> (i64, Option<LinkState>) {
    let state = (link.version > 1).then(|| link.state.clone());
    (link.version, state)
}

/// Returns the link after one more event of its stream.
///
/// # Panics
/// If the first event does not create the link.
pub fn link_after(
    link: Option<ExistingLink>,
    event: &LinkEvent,
    recorded_at: OffsetDateTime,
) -> ExistingLink {
    match (link, event) {
        (Some(link), event) => link.apply(event),
        (None, LinkEvent::Created(created)) => ExistingLink::new(created, recorded_at),
        (None, event) => panic!("the first event of a link creates it: {event:?}"),
    }
}

fn new_event(
    account_id: AccountId,
    version: i64,
    event: &Event,
    link: Option<LinkState>,
    now: OffsetDateTime,
) -> NewEvent {
    NewEvent {
        event_id: EventId::from_uuid(new_uuid(now)),
        account_id,
        version,
        recorded_at: now,
        event: event.clone(),
        metadata: Metadata {
            link: link.map(Into::into),
            ..Metadata::default()
        },
        idempotency: None,
    }
}

async fn read_link(
    tx: &mut PgConnection,
    account_id: AccountId,
    link_id: LinkId,
) -> Option<ExistingLink> {
    let rows: Vec<(String, i16, String, OffsetDateTime)> = sqlx::query_as(
        "SELECT type, schema_version, payload::text, recorded_at FROM event_store.events
         WHERE shard = $1 AND stream_id = $2 ORDER BY version",
    )
    .bind(Shard::of(account_id).number())
    .bind(link_id.uuid())
    .fetch_all(tx)
    .await
    .expect("the stream is read");
    let events = rows
        .iter()
        .map(|(event_type, schema_version, payload, at)| {
            let event = Event::from_stored(event_type, *schema_version, payload);
            (event.expect("the event has a known type"), *at)
        });
    events.fold(None, |link, (event, at)| match event {
        Event::Link(event) => Some(link_after(link, &event, at)),
        Event::Account(_) | Event::Credits(_) => {
            panic!("the stream of a link has an event of another kind")
        }
    })
}
