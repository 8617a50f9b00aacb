//! Contents of all read tables: as found, and as expected from the log.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use linkledger_core::{
    account::AccountEvent,
    cloud_event::PublishedEvent,
    credits::CreditsEvent,
    envelope::RecordedEvent,
    event::Event,
    id::{EntryId, LinkId},
    link::{ExistingLink, Expiry, Tags},
    projection::Projection,
    shard::Position,
};
use linkledger_projector::read_models::tables;
use linkledger_testing::link_after;
use serde_json::Value;
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

/// Row of `links`. All members of a link's state and its details are columns of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkRow {
    version: i64,
    created_at: OffsetDateTime,
    /// The other columns that are not null, except the key.
    members: Value,
}

/// Link, account, destination, state, expiry, destination after the expiry.
pub(crate) type RedirectRow = (
    Uuid,
    Uuid,
    String,
    String,
    Option<OffsetDateTime>,
    Option<String>,
);

/// Rows of one generation, by key.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Tables {
    pub(crate) links: BTreeMap<(Uuid, Uuid), LinkRow>,
    /// Account, tag, link.
    pub(crate) tags: BTreeSet<(Uuid, String, Uuid)>,
    pub(crate) redirects: BTreeMap<String, RedirectRow>,
    pub(crate) stopped_accounts: BTreeSet<Uuid>,
    pub(crate) balances: BTreeMap<Uuid, (i64, i64)>,
    entries: BTreeMap<(Uuid, i64), Entry>,
    /// Checkpoints by projection and shard, without those at 0.
    pub(crate) checkpoints: BTreeMap<(String, i16), Position>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    event_id: Uuid,
    kind: String,
    amount: i64,
    balance_after: i64,
    link_id: Option<Uuid>,
    description: Option<String>,
    refunds: Option<Uuid>,
    created_at: OffsetDateTime,
}

impl Tables {
    /// Returns the rows that the log expects, event by event. Rows of links follow from the state of
    /// the link as the payloads of its events come to.
    pub(crate) fn of_log(log: &[PublishedEvent]) -> Self {
        Self::of_log_but(log, |_| false)
    }

    /// Returns the rows that the log expects if these events are skipped, each of which hides itself only.
    pub(crate) fn of_log_but(
        log: &[PublishedEvent],
        is_skipped: impl Fn(&PublishedEvent) -> bool,
    ) -> Self {
        let mut tables = Self {
            checkpoints: checkpoints_of(log),
            ..Self::default()
        };
        let mut links: HashMap<Uuid, ExistingLink> = HashMap::new();
        for published in log {
            let (event, is_applied) = (&published.event, !is_skipped(published));
            match event.decode().unwrap() {
                Event::Link(happened) => {
                    let before = links.remove(&event.stream_id);
                    let link = link_after(before, &happened, event.recorded_at);
                    if is_applied {
                        tables.set_link(event, &link);
                    }
                    links.insert(event.stream_id, link);
                }
                _ if !is_applied => {}
                Event::Credits(happened) => tables.apply_credits(event, &happened),
                Event::Account(AccountEvent::Suspended(it)) if it.stop_redirects => {
                    tables.stopped_accounts.insert(it.account_id.uuid());
                }
                Event::Account(AccountEvent::Suspended(_) | AccountEvent::Resumed(_)) => {
                    tables.stopped_accounts.remove(&event.account_id.uuid());
                }
                Event::Account(AccountEvent::Created(_) | AccountEvent::Changed(_))
                | Event::ApiKey(_)
                | Event::Webhook(_)
                | Event::Observation(_) => {}
            }
        }
        tables
    }

    /// Returns the rows of the other projections.
    pub(crate) fn without_links(&self) -> Self {
        Self {
            links: BTreeMap::new(),
            tags: BTreeSet::new(),
            ..self.clone()
        }
    }

    /// Sets the rows of a link to its state after the event.
    fn set_link(&mut self, recorded: &RecordedEvent, link: &ExistingLink) {
        let (link_id, account) = (recorded.stream_id, recorded.account_id.uuid());
        let disabled_by = link.state.disabled_by();
        let state = match (link.state.deleted, disabled_by) {
            (true, _) => "deleted",
            (false, Some(_)) => "disabled",
            (false, None) => "active",
        };
        let details = &link.state.details;
        let redirect = (
            link_id,
            account,
            link.state.destination_url.as_str().to_owned(),
            state.to_owned(),
            details.expires_at.map(Expiry::instant),
            details.expired_url.as_deref().map(str::to_owned),
        );
        self.redirects
            .insert(link.state.slug.to_lowercase(), redirect);
        let key = (account, link_id);
        self.links.remove(&key);
        self.tags.retain(|(.., tagged)| *tagged != link_id);
        if !link.state.deleted {
            let tags = details.tags.iter().flat_map(Tags::as_slice);
            let tags = tags.map(|tag| (account, tag.clone(), link_id));
            self.tags.extend(tags);
            let mut members = serde_json::to_value(&link.state).unwrap();
            let columns = members.as_object_mut().unwrap();
            for name in ["created_at", "disabled_by_operator", "disabled_by_owner"] {
                columns.remove(name);
            }
            if let Some(details) = columns.remove("details") {
                columns.extend(details.as_object().unwrap().clone());
            }
            if let Some(role) = disabled_by {
                members["disabled_by"] = role.name().into();
            }
            let row = LinkRow {
                version: recorded.version,
                created_at: link.state.created_at,
                members,
            };
            self.links.insert(key, row);
        }
    }

    fn apply_credits(&mut self, recorded: &RecordedEvent, event: &CreditsEvent) {
        let account = recorded.account_id.uuid();
        let balance_after = event.balance_after();
        let (kind, amount) = match event {
            CreditsEvent::Granted(it) => ("grant", it.amount),
            CreditsEvent::Adjusted(it) => ("adjustment", it.amount),
            CreditsEvent::Charged(it) => ("charge", -it.amount),
            CreditsEvent::Refunded(it) => ("refund", it.amount),
            CreditsEvent::Revoked(it) => ("revocation", -it.amount),
        };
        let payload: Value = serde_json::from_str(&recorded.payload).unwrap();
        let id = |name: &str| payload[name].as_str();
        let link_id = id("link_id").map(|it| it.parse::<LinkId>().unwrap().uuid());
        let refunds = id("refunds").map(|it| it.parse::<EntryId>().unwrap().uuid());
        self.balances
            .insert(account, (balance_after, recorded.version));
        let entry = Entry {
            event_id: recorded.event_id.uuid(),
            kind: kind.to_owned(),
            amount,
            balance_after,
            link_id,
            description: payload["description"].as_str().map(str::to_owned),
            refunds,
            created_at: recorded.recorded_at,
        };
        self.entries.insert((account, recorded.version), entry);
    }

    /// Reads the first generation.
    pub(crate) async fn read(pool: &PgPool) -> Self {
        Self::read_generation(pool, 1).await
    }

    /// Reads a generation.
    pub(crate) async fn read_generation(pool: &PgPool, generation: i32) -> Self {
        Self {
            links: read_links(pool, generation).await,
            tags: read_tags(pool, generation).await,
            redirects: read_redirects(pool, generation).await,
            stopped_accounts: read_stopped_accounts(pool, generation).await,
            balances: read_balances(pool, generation).await,
            entries: read_entries(pool, generation).await,
            checkpoints: read_checkpoints(pool, generation).await,
        }
    }
}

/// Returns the names of the read tables of all projections.
pub(crate) fn read_tables() -> impl Iterator<Item = &'static str> {
    let tables = Projection::ALL.into_iter().flat_map(tables);
    tables.map(|table| table.name)
}

/// Returns the checkpoints after all events.
pub(crate) fn checkpoints_of(log: &[PublishedEvent]) -> BTreeMap<(String, i16), Position> {
    let mut checkpoints = BTreeMap::new();
    for PublishedEvent { event, .. } in log {
        for projection in Projection::ALL {
            let key = (projection.to_string(), event.shard.number());
            checkpoints.insert(key, event.position);
        }
    }
    checkpoints
}

async fn read_links(pool: &PgPool, generation: i32) -> BTreeMap<(Uuid, Uuid), LinkRow> {
    let rows: Vec<(Uuid, Uuid, i64, OffsetDateTime, String)> = sqlx::query_as(
        "
        SELECT account_id, link_id, version, created_at,
               jsonb_strip_nulls(
                   to_jsonb(l) - '{generation,account_id,link_id,version,created_at}'::text[]
                   || jsonb_build_object('expires_at', to_char(
                          expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'
                      ))
               )::text
        FROM read_model.links AS l WHERE generation = $1
        ",
    )
    .bind(generation)
    .fetch_all(pool)
    .await
    .unwrap();
    rows.into_iter()
        .map(|(account_id, link_id, version, created_at, members)| {
            let row = LinkRow {
                version,
                created_at,
                members: serde_json::from_str(&members).unwrap(),
            };
            ((account_id, link_id), row)
        })
        .collect()
}

async fn read_tags(pool: &PgPool, generation: i32) -> BTreeSet<(Uuid, String, Uuid)> {
    let rows = sqlx::query_as(
        "SELECT account_id, tag, link_id FROM read_model.link_tags WHERE generation = $1",
    );
    let rows = rows.bind(generation).fetch_all(pool).await.unwrap();
    rows.into_iter().collect()
}

async fn read_redirects(pool: &PgPool, generation: i32) -> BTreeMap<String, RedirectRow> {
    let rows = sqlx::query!(
        "
        SELECT slug_key, link_id, account_id, destination_url, state, expires_at, expired_url
        FROM read_model.redirects WHERE generation = $1
        ",
        generation
    );
    let rows = rows.fetch_all(pool).await.unwrap();
    rows.into_iter()
        .map(|it| {
            (
                it.slug_key,
                (
                    it.link_id,
                    it.account_id,
                    it.destination_url,
                    it.state,
                    it.expires_at,
                    it.expired_url,
                ),
            )
        })
        .collect()
}

async fn read_stopped_accounts(pool: &PgPool, generation: i32) -> BTreeSet<Uuid> {
    let rows = sqlx::query_scalar!(
        "SELECT account_id FROM read_model.stopped_accounts WHERE generation = $1",
        generation
    );
    rows.fetch_all(pool).await.unwrap().into_iter().collect()
}

async fn read_balances(pool: &PgPool, generation: i32) -> BTreeMap<Uuid, (i64, i64)> {
    let rows = sqlx::query!(
        "SELECT account_id, balance, version FROM read_model.credit_balances WHERE generation = $1",
        generation
    );
    let rows = rows.fetch_all(pool).await.unwrap();
    rows.into_iter()
        .map(|it| (it.account_id, (it.balance, it.version)))
        .collect()
}

async fn read_entries(pool: &PgPool, generation: i32) -> BTreeMap<(Uuid, i64), Entry> {
    let rows = sqlx::query!(
        "
        SELECT account_id, version, entry_id, type, amount, balance_after, link_id, description,
               refunds, created_at
        FROM read_model.credit_entries WHERE generation = $1
        ",
        generation
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
                description: it.description,
                refunds: it.refunds,
                created_at: it.created_at,
            };
            ((it.account_id, it.version), entry)
        })
        .collect()
}

async fn read_checkpoints(pool: &PgPool, generation: i32) -> BTreeMap<(String, i16), Position> {
    let rows = sqlx::query!(
        "
        SELECT projection, shard, position
        FROM read_model.checkpoints WHERE generation = $1 AND position > 0
        ",
        generation
    );
    let rows = rows.fetch_all(pool).await.unwrap();
    rows.into_iter()
        .map(|it| ((it.projection, it.shard), it.position))
        .collect()
}
