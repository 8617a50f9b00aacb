//! Appends given events to the log, without the decision of a command.

use std::collections::HashMap;

use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

use linkledger_core::{
    account::{Account, AccountCreated, AccountEvent},
    api_key::{ApiKey, ApiKeyEvent, KeyState},
    clock::{Clock as _, SystemClock, new_uuid},
    credits::{Credits, LowBalanceAt},
    envelope::{Metadata, NewEvent},
    event::Event,
    id::{AccountId, EventId, LinkId},
    link::{ExistingLink, LinkEvent, LinkState},
    shard::{Position, Shard},
    webhook::{Webhook, WebhookEvent},
};
use linkledger_event_store::{
    accounts,
    api_keys::{self, KeySecret},
    append,
    log::feed::FeedPlace,
    transaction::PoolTransaction,
    webhooks::{cursors::ShardPlace, rows},
};

/// Creates an account with this id and name by its first event, without credits. Unlike with
/// [`account`](super::account), `log verify` finds nothing.
pub async fn created_account(pool: &PgPool, account_id: AccountId, name: &str) {
    let now = SystemClock.now();
    let created = AccountCreated {
        account_id,
        name: name.to_owned(),
        external_id: None,
        low_balance_at: LowBalanceAt::NONE,
    };
    let account = Account::new(&created, now);
    let event = Event::Account(AccountEvent::Created(created));
    let credits = Credits::default().pass();
    let metadata = metadata_with(&account, credits.balance);
    let event = new_event(account_id, (credits.version, now), &event, metadata);
    let mut tx = begin(pool).await;
    accounts::create_in_tx(&mut tx, &account, None)
        .await
        .expect("the account is new");
    let accounts = HashMap::from([(account_id, credits)]);
    append::append_in_tx(&mut tx, &[&event], &accounts)
        .await
        .expect("the event is appended");
    tx.commit().await.expect("the account is committed");
}

/// Appends events of one account, each at the end of the event's stream, and returns the positions.
///
/// The rows of the account and its API keys follow the events. The secret of an issued key is thrown away.
pub async fn append_events(
    pool: &PgPool,
    account_id: AccountId,
    events: &[Event],
) -> Vec<Position> {
    let mut tx = begin(pool).await;
    let mut accounts = accounts::lock_in_tx(&mut tx, &[account_id])
        .await
        .expect("the account is locked");
    let credits = accounts.get_mut(&account_id).expect("the account exists");
    let account = accounts::get_in_tx(&mut tx, account_id).await;
    let mut streams = Streams {
        account: account.expect("the account is read"),
        credits: *credits,
        links: HashMap::new(),
        now: SystemClock.now(),
    };
    let mut new_events = Vec::with_capacity(events.len());
    for event in events {
        new_events.push(streams.next(&mut tx, event).await);
    }
    *credits = streams.credits;
    let new_events: Vec<&NewEvent> = new_events.iter().collect();
    let appended = append::append_in_tx(&mut tx, &new_events, &accounts)
        .await
        .expect("events are appended");
    tx.commit().await.expect("the events are committed");
    appended.iter().map(|event| event.position).collect()
}

/// Takes the log back to a position of the account's shard, as a restore does. All later events of the shard must be of
/// the account's own stream.
pub async fn forget_events_after(pool: &PgPool, account_id: AccountId, position: Position) {
    let shard = Shard::of(account_id).number();
    let mut tx = begin(pool).await;
    // A trigger forbids the deletion otherwise.
    sqlx::query("SET LOCAL session_replication_role = replica")
        .execute(&mut *tx)
        .await
        .expect("triggers are off");
    let deletion = sqlx::query("DELETE FROM event_store.events WHERE shard = $1 AND position > $2")
        .bind(shard)
        .bind(position)
        .execute(&mut *tx)
        .await
        .expect("events are deleted");
    let deleted = i64::try_from(deletion.rows_affected()).expect("few events");
    sqlx::query("UPDATE event_store.log_shards SET head = $2 WHERE shard = $1")
        .bind(shard)
        .bind(position)
        .execute(&mut *tx)
        .await
        .expect("the head is moved");
    sqlx::query("UPDATE event_store.accounts SET version = version - $2 WHERE account_id = $1")
        .bind(account_id.uuid())
        .bind(deleted)
        .execute(&mut *tx)
        .await
        .expect("the account is taken back");
    tx.commit().await.expect("the log is taken back");
}

async fn begin(pool: &PgPool) -> PoolTransaction {
    let tx = PoolTransaction::begin(pool).await;
    tx.expect("a transaction begins")
}

/// Streams of an account and its links, after the events so far.
struct Streams {
    account: Account,
    credits: Credits,
    links: HashMap<LinkId, ExistingLink>,
    /// Time of all events.
    now: OffsetDateTime,
}

impl Streams {
    /// Returns the event at the end of its stream, and writes its row.
    async fn next(&mut self, tx: &mut PgConnection, event: &Event) -> NewEvent {
        let (version, metadata) = match event {
            Event::Link(event) => {
                let after = self.link_after(tx, event).await;
                version_and_metadata(&after)
            }
            Event::Account(event) => {
                self.credits = self.credits.pass();
                self.account = self.account.clone().apply(event);
                accounts::update_in_tx(tx, &self.account)
                    .await
                    .expect("the account is written");
                let metadata = metadata_with(&self.account, self.credits.balance);
                (self.credits.version, metadata)
            }
            Event::ApiKey(event) => {
                self.credits = self.credits.pass();
                write_key(tx, event, self.now).await;
                (self.credits.version, Metadata::default())
            }
            Event::Webhook(event) => {
                self.credits = self.credits.pass();
                write_webhook(tx, event, self.now).await;
                (self.credits.version, Metadata::default())
            }
            Event::Observation(_) => {
                self.credits = self.credits.pass();
                (self.credits.version, Metadata::default())
            }
            Event::Credits(event) => {
                self.credits = self.credits.apply(event);
                (self.credits.version, Metadata::default())
            }
        };
        new_event(
            self.account.account_id,
            (version, self.now),
            event,
            metadata,
        )
    }

    async fn link_after(&mut self, tx: &mut PgConnection, event: &LinkEvent) -> ExistingLink {
        let link_id = event.link_id();
        let before = match self.links.remove(&link_id) {
            Some(link) => Some(link),
            None => read_link(tx, self.account.account_id, link_id).await,
        };
        let after = link_after(before, event, self.now);
        self.links.insert(link_id, after.clone());
        after
    }
}

async fn write_key(tx: &mut PgConnection, event: &ApiKeyEvent, now: OffsetDateTime) {
    let written = if let ApiKeyEvent::Issued(issued) = event {
        let key = KeyState::new(issued, now);
        api_keys::insert_in_tx(tx, &key, &KeySecret::of(&ApiKey::generate())).await
    } else {
        let key = api_keys::get_in_tx(tx, event.key_id()).await;
        let key = key.expect("the key is read").expect("the key exists");
        api_keys::update_in_tx(tx, &key.apply(event)).await
    };
    written.expect("the key is written");
}

/// Writes the row of a webhook. Only the webhooks of owners have events here.
async fn write_webhook(tx: &mut PgConnection, event: &WebhookEvent, now: OffsetDateTime) {
    let webhook_id = event.webhook_id();
    let written = match event {
        WebhookEvent::Created(created) => {
            // From the beginning of the feed: tests want messages about the events before too.
            let start = ShardPlace {
                shard: Shard::of(created.account_id),
                place: FeedPlace {
                    position: 0,
                    version: 0,
                },
            };
            rows::insert_in_tx(tx, &Webhook::new(created, now), &[start]).await
        }
        WebhookEvent::Deleted(_) => rows::delete_in_tx(tx, webhook_id).await,
        // No row of the webhook follows from it.
        WebhookEvent::Failing(_) => Ok(()),
        WebhookEvent::Changed(_) | WebhookEvent::SecretRotated(_) | WebhookEvent::Disabled(_) => {
            let webhook = rows::get_in_tx(tx, webhook_id).await;
            let webhook = webhook.expect("the webhook is read");
            let webhook = webhook.expect("the webhook exists");
            rows::update_in_tx(tx, &webhook.apply(event, now)).await
        }
    };
    written.expect("the webhook is written");
}

/// Returns the metadata of an event of the account itself, which leads to this account.
fn metadata_with(account: &Account, balance: i64) -> Metadata {
    Metadata {
        account: Some(account.after(balance)),
        ..Metadata::default()
    }
}

/// Returns the version of the link, and the metadata, with the state for every event but the first.
fn version_and_metadata(link: &ExistingLink) -> (i64, Metadata) {
    let state = (link.version > 1).then(|| LinkState::clone(&link.state));
    let metadata = Metadata {
        link: state.map(Into::into),
        ..Metadata::default()
    };
    (link.version, metadata)
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
    (version, now): (i64, OffsetDateTime),
    event: &Event,
    metadata: Metadata,
) -> NewEvent {
    NewEvent {
        event_id: EventId::from_uuid(new_uuid(now)),
        account_id,
        version,
        recorded_at: now,
        event: event.clone(),
        metadata,
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
        Event::Account(_)
        | Event::ApiKey(_)
        | Event::Webhook(_)
        | Event::Observation(_)
        | Event::Credits(_) => {
            panic!("the stream of a link has an event of another kind")
        }
    })
}
