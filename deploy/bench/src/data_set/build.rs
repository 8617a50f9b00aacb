//! Building a data set in an empty database.

use anyhow::Context as _;
use linkledger_command_api::sealing::EVENTS_PER_SEGMENT;
use linkledger_core::{
    api_key::{ApiKey, Scope},
    clock::{Clock as _, SystemClock, new_uuid, to_millisecond},
    id::{AccountId, KeyId},
    segment::Segment,
    shard::Shard,
};
use linkledger_event_store::{SessionKind, segments};
use sqlx::{PgPool, postgres::PgPoolOptions};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::DataSet;

/// All SQL that determines the rows of a data set.
pub(super) const STATEMENTS: [&str; 3] = [
    include_str!("accounts.sql"),
    include_str!("links.sql"),
    include_str!("ends.sql"),
];

/// Credits of each account before its links are charged, more than any load charges.
const CREDITS: i64 = 1_000_000_000;
/// Number of links that one statement makes, but at least one of each account; the rows of the statement fit into
/// memory.
const LINKS_PER_STATEMENT: u32 = 100_000;

/// Columns of the accounts, in the form of the parameters of the statements.
struct Accounts {
    ids: Vec<Uuid>,
    texts: Vec<String>,
    shards: Vec<i16>,
}

/// Fills an empty database.
pub(super) async fn build(url: &str, set: DataSet) -> anyhow::Result<()> {
    let options = linkledger_event_store::session_options(url, SessionKind::Migration)?;
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .connect_lazy_with(options.options([
            // Unsafe commits are fine, since a data set is used only when it is complete.
            ("synchronous_commit", "off"),
            ("work_mem", "256MB"),
            ("maintenance_work_mem", "256MB"),
            ("jit", "off"),
        ]));
    // The last round is before this instant.
    let age = Duration::milliseconds(i64::from(set.links_of_each) + 1);
    let created_at = to_millisecond(SystemClock.now() - age);
    let accounts = Accounts::create(set.accounts, created_at);
    accounts.insert(&pool, created_at).await?;
    let rounds_per_statement = (LINKS_PER_STATEMENT / set.accounts).max(1);
    let mut first = 0;
    while first < set.links_of_each {
        let end = set.links_of_each.min(first + rounds_per_statement);
        let rounds = (i64::from(first), i64::from(end - 1));
        let begin = created_at + Duration::MILLISECOND;
        insert_links(&pool, &accounts, rounds, begin).await?;
        first = end;
    }
    sqlx::query_file!("src/data_set/ends.sql", i64::from(set.links_of_each))
        .execute(&pool)
        .await
        .context("can't move heads and checkpoints")?;
    // As autovacuum would do later, but not during a measurement.
    sqlx::query("VACUUM (FREEZE, ANALYZE)")
        .execute(&pool)
        .await?;
    seal(&pool).await?;
    pool.close().await;
    Ok(())
}

impl Accounts {
    fn create(count: u32, now: OffsetDateTime) -> Self {
        let ids = (0..count).map(|_| AccountId::from_uuid(new_uuid(now)));
        let ids: Vec<AccountId> = ids.collect();
        Self {
            texts: ids.iter().map(ToString::to_string).collect(),
            shards: ids.iter().map(|id| Shard::of(*id).number()).collect(),
            ids: ids.iter().map(|id| id.uuid()).collect(),
        }
    }

    async fn insert(&self, pool: &PgPool, now: OffsetDateTime) -> anyhow::Result<()> {
        let keys: Vec<ApiKey> = self.ids.iter().map(|_| ApiKey::generate()).collect();
        let key_ids: Vec<Uuid> = keys.iter().map(|_| new_uuid(now)).collect();
        let key_texts = key_ids.iter().map(|id| KeyId::from_uuid(*id).to_string());
        let key_texts: Vec<String> = key_texts.collect();
        let secrets: Vec<String> = keys.iter().map(|key| key.reveal().to_owned()).collect();
        let hashes: Vec<Vec<u8>> = keys.iter().map(|key| key.sha256().to_vec()).collect();
        let scopes = Scope::ALL.map(|scope| scope.name().to_owned());
        sqlx::query_file!(
            "src/data_set/accounts.sql",
            &self.ids,
            &self.texts,
            &self.shards,
            &key_ids,
            &secrets,
            &hashes,
            &scopes,
            CREDITS,
            now,
            &key_texts
        )
        .execute(pool)
        .await
        .context("can't make the accounts")?;
        Ok(())
    }
}

async fn insert_links(
    pool: &PgPool,
    accounts: &Accounts,
    (first, last): (i64, i64),
    begin: OffsetDateTime,
) -> anyhow::Result<()> {
    sqlx::query_file!(
        "src/data_set/links.sql",
        &accounts.ids,
        &accounts.texts,
        &accounts.shards,
        first,
        last,
        CREDITS,
        begin
    )
    .execute(pool)
    .await
    .context("can't make the links")?;
    Ok(())
}

/// Seals the segments that have enough events, as command-api would do later.
async fn seal(pool: &PgPool) -> anyhow::Result<()> {
    let shards = segments::seal_states(pool).await?;
    let mut session = pool.acquire().await?;
    for (shard, state) in Shard::all().zip(&shards) {
        let mut last = state.last;
        loop {
            let place = Segment::next(last.as_ref(), shard, state.epoch, EVENTS_PER_SEGMENT);
            if state.head < place.last_position {
                break;
            }
            last = Some(segments::seal(&mut session, place, last.as_ref()).await?);
        }
    }
    Ok(())
}
