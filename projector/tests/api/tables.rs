//! The contents of all read tables: as they are, and as the log wants them.

use std::collections::BTreeMap;

use linkledger_core::{
    cloud_event::PublishedEvent, credits::CreditsEvent, event::Event, link::LinkEvent,
    shard::Position,
};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

/// Slug, destination, version, creation.
type LinkRow = (String, String, i64, OffsetDateTime);

/// Rows by their keys; generation 1 throughout.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Tables {
    links: BTreeMap<(Uuid, Uuid), LinkRow>,
    redirects: BTreeMap<String, (Uuid, Uuid, String)>,
    balances: BTreeMap<Uuid, (i64, i64)>,
    entries: BTreeMap<(Uuid, i64), Entry>,
    /// By projection and shard; those at 0 left out.
    pub(crate) checkpoints: BTreeMap<(String, i16), Position>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    event_id: Uuid,
    kind: String,
    amount: i64,
    balance_after: i64,
    link_id: Option<Uuid>,
    created_at: OffsetDateTime,
}

impl Tables {
    /// What the log wants, event by event.
    pub(crate) fn of_log(log: &[PublishedEvent]) -> Self {
        let mut tables = Self::default();
        for PublishedEvent { event, .. } in log {
            for projection in ["credits", "links", "redirects"] {
                let key = (projection.to_owned(), event.shard.number());
                tables.checkpoints.insert(key, event.position);
            }
            let account = event.account_id.uuid();
            let (kind, amount, balance_after, link_id) = match event.decode().unwrap() {
                Event::Link(LinkEvent::Created(created)) => {
                    let (link, url) = (created.link_id.uuid(), created.destination_url);
                    let folded = created.slug.to_lowercase();
                    tables
                        .redirects
                        .insert(folded, (link, account, url.clone()));
                    let row = (created.slug, url, event.version, event.recorded_at);
                    tables.links.insert((account, link), row);
                    continue;
                }
                Event::Credits(CreditsEvent::Granted(it)) => {
                    ("grant", it.amount, it.balance_after, None)
                }
                Event::Credits(CreditsEvent::Charged(it)) => (
                    "charge",
                    -it.amount,
                    it.balance_after,
                    Some(it.link_id.uuid()),
                ),
            };
            tables
                .balances
                .insert(account, (balance_after, event.version));
            let entry = Entry {
                event_id: event.event_id.uuid(),
                kind: kind.to_owned(),
                amount,
                balance_after,
                link_id,
                created_at: event.recorded_at,
            };
            tables.entries.insert((account, event.version), entry);
        }
        tables
    }

    /// What is there.
    pub(crate) async fn read(pool: &PgPool) -> Self {
        Self {
            links: read_links(pool).await,
            redirects: read_redirects(pool).await,
            balances: read_balances(pool).await,
            entries: read_entries(pool).await,
            checkpoints: read_checkpoints(pool).await,
        }
    }
}

async fn read_links(pool: &PgPool) -> BTreeMap<(Uuid, Uuid), LinkRow> {
    let rows = sqlx::query!(
        "
        SELECT account_id, link_id, slug, destination_url, version, created_at
        FROM read_model.links WHERE generation = 1
        "
    );
    let rows = rows.fetch_all(pool).await.unwrap();
    rows.into_iter()
        .map(|it| {
            let key = (it.account_id, it.link_id);
            (
                key,
                (it.slug, it.destination_url, it.version, it.created_at),
            )
        })
        .collect()
}

async fn read_redirects(pool: &PgPool) -> BTreeMap<String, (Uuid, Uuid, String)> {
    let rows = sqlx::query!(
        "
        SELECT slug_folded, link_id, account_id, destination_url
        FROM read_model.redirects WHERE generation = 1
        "
    );
    let rows = rows.fetch_all(pool).await.unwrap();
    rows.into_iter()
        .map(|it| {
            (
                it.slug_folded,
                (it.link_id, it.account_id, it.destination_url),
            )
        })
        .collect()
}

async fn read_balances(pool: &PgPool) -> BTreeMap<Uuid, (i64, i64)> {
    let rows = sqlx::query!(
        "SELECT account_id, balance, version FROM read_model.credit_balances WHERE generation = 1"
    );
    let rows = rows.fetch_all(pool).await.unwrap();
    rows.into_iter()
        .map(|it| (it.account_id, (it.balance, it.version)))
        .collect()
}

async fn read_entries(pool: &PgPool) -> BTreeMap<(Uuid, i64), Entry> {
    let rows = sqlx::query!(
        "
        SELECT account_id, version, entry_id, type, amount, balance_after, link_id, created_at
        FROM read_model.credit_entries WHERE generation = 1
        "
    );
    let rows = rows.fetch_all(pool).await.unwrap();
    rows.into_iter()
        .map(|it| {
            let entry = Entry {
                event_id: it.entry_id,
                kind: it.r#type,
                amount: it.amount,
                balance_after: it.balance_after,
                link_id: it.link_id,
                created_at: it.created_at,
            };
            ((it.account_id, it.version), entry)
        })
        .collect()
}

async fn read_checkpoints(pool: &PgPool) -> BTreeMap<(String, i16), Position> {
    let rows = sqlx::query!(
        "
        SELECT projection, shard, position
        FROM read_model.checkpoints WHERE generation = 1 AND position > 0
        "
    );
    let rows = rows.fetch_all(pool).await.unwrap();
    rows.into_iter()
        .map(|it| ((it.projection, it.shard), it.position))
        .collect()
}
