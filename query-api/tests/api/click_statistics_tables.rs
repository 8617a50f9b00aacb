//! Writes rows into the tables of clicks, in place of the projector.

use linkledger_clicks::{Dimension, dimension_counts::DimensionCounts, sketch::VisitorSketch};
use linkledger_core::{
    commands::CreateResult,
    event::Event,
    id::{AccountId, LinkId},
    link::{LinkDeleted, LinkEvent},
};
use linkledger_testing as testing;
use sqlx::{AssertSqlSafe, PgPool};
use time::{Date, OffsetDateTime};

const TABLES: [&str; 6] = [
    "link_15min",
    "link_days",
    "link_values",
    "account_15min",
    "account_days",
    "account_values",
];

/// Statistics of one row.
#[derive(Clone, Copy, Default)]
pub(crate) struct Row<'a> {
    pub(crate) clicks: i64,
    pub(crate) bots: i64,
    pub(crate) visitors: &'a [u64],
}

/// Creates one partition of each table, for rows of any time.
pub(crate) async fn create_partitions(pool: &PgPool) {
    for table in TABLES {
        let create = format!("CREATE TABLE clicks.{table}_any PARTITION OF clicks.{table} DEFAULT");
        let created = sqlx::raw_sql(AssertSqlSafe(create)).execute(pool).await;
        created.unwrap();
    }
}

/// Returns the stored form of a set of visitors; `None` for no visitors.
fn sketch(visitors: &[u64]) -> Option<Vec<u8>> {
    let mut sketch = VisitorSketch::default();
    for visitor in visitors {
        sketch.insert(*visitor);
    }
    (!visitors.is_empty()).then(|| sketch.to_bytes())
}

/// Inserts a slot of a link and of its account.
pub(crate) async fn insert_slot(
    pool: &PgPool,
    account_id: AccountId,
    link_id: LinkId,
    slot: OffsetDateTime,
    row: Row<'_>,
) {
    sqlx::query(
        "WITH of_account AS (
             INSERT INTO clicks.account_15min VALUES ($1, $3, 7, $4, $5)
             ON CONFLICT (account_id, slot_start, partition) DO UPDATE
             SET clicks = account_15min.clicks + excluded.clicks,
                 bots = account_15min.bots + excluded.bots
         )
         INSERT INTO clicks.link_15min VALUES ($1, $2, $3, $4, $5)",
    )
    .bind(account_id.uuid())
    .bind(link_id.uuid())
    .bind(slot)
    .bind(row.clicks)
    .bind(row.bots)
    .execute(pool)
    .await
    .unwrap();
}

/// Inserts a UTC day of a link.
pub(crate) async fn insert_link_day(
    pool: &PgPool,
    account_id: AccountId,
    link_id: LinkId,
    day: Date,
    row: Row<'_>,
) {
    sqlx::query("INSERT INTO clicks.link_days VALUES ($1, $2, $3, $4, $5, $6)")
        .bind(account_id.uuid())
        .bind(link_id.uuid())
        .bind(day)
        .bind(row.clicks)
        .bind(row.bots)
        .bind(sketch(row.visitors))
        .execute(pool)
        .await
        .unwrap();
}

/// Inserts a UTC day of an account, of one partition of the topic.
pub(crate) async fn insert_account_day(
    pool: &PgPool,
    account_id: AccountId,
    day: Date,
    partition: i16,
    row: Row<'_>,
) {
    sqlx::query("INSERT INTO clicks.account_days VALUES ($1, $2, $3, $4, $5, $6)")
        .bind(account_id.uuid())
        .bind(day)
        .bind(partition)
        .bind(row.clicks)
        .bind(row.bots)
        .bind(sketch(row.visitors))
        .execute(pool)
        .await
        .unwrap();
}

/// Inserts a value of a link on a UTC day.
pub(crate) async fn insert_link_value(
    pool: &PgPool,
    (account_id, link_id): (AccountId, LinkId),
    day: Date,
    value: (Dimension, &str),
    row: Row<'_>,
) {
    let columns = "link_values (account_id, link_id, day";
    let key = format!("'{}', '{}', '{day}'", account_id.uuid(), link_id.uuid());
    insert_value(pool, columns, &key, value, row).await;
}

/// Inserts a value of an account on a UTC day, of one partition of the topic.
pub(crate) async fn insert_account_value(
    pool: &PgPool,
    (account_id, partition): (AccountId, i16),
    day: Date,
    value: (Dimension, &str),
    row: Row<'_>,
) {
    let columns = "account_values (account_id, partition, day";
    let key = format!("'{}', {partition}, '{day}'", account_id.uuid());
    insert_value(pool, columns, &key, value, row).await;
}

/// Inserts a value into the row with this key, beside the values that are there.
async fn insert_value(
    pool: &PgPool,
    columns: &str,
    key: &str,
    (dimension, value): (Dimension, &str),
    row: Row<'_>,
) {
    let (table, key_columns) = columns.split_once(" (").unwrap();
    let dimension = dimension.name();
    let insert = format!(
        "INSERT INTO clicks.{columns}, country, referrer_host, browser, os, device)
         VALUES ({key}, $1, $1, $1, $1, $1) ON CONFLICT DO NOTHING"
    );
    sqlx::query(AssertSqlSafe(insert))
        .bind(DimensionCounts::default().to_bytes())
        .execute(pool)
        .await
        .unwrap();
    let of_key = format!("WHERE ({key_columns}) = ({key})");
    let select = format!("SELECT {dimension} FROM clicks.{table} {of_key}");
    let select = sqlx::query_scalar(AssertSqlSafe(select)).fetch_one(pool);
    let stored: Vec<u8> = select.await.unwrap();
    let mut counts = DimensionCounts::from_bytes(&stored).unwrap();
    let count = counts.count_mut(value);
    count.clicks += row.clicks.cast_unsigned();
    count.visitors = sketch(row.visitors).unwrap_or_default();
    let update = format!("UPDATE clicks.{table} SET {dimension} = $1 {of_key}");
    sqlx::query(AssertSqlSafe(update))
        .bind(counts.to_bytes())
        .execute(pool)
        .await
        .unwrap();
}

/// Appends the deletion of the link to the event store.
pub(crate) async fn delete(pool: &PgPool, link: &CreateResult) {
    let deleted = LinkDeleted {
        link_id: link.link.link_id,
        account_id: link.link.account_id,
        slug: link.link.slug.clone(),
    };
    let event = Event::Link(LinkEvent::Deleted(deleted));
    testing::append_events(pool, link.link.account_id, &[event]).await;
}
