//! Makes events undecodable, and reads the accounts that are parked for them.

use linkledger_core::{
    cloud_event::PublishedEvent,
    id::AccountId,
    shard::{Position, Shard},
};
use linkledger_event_store::transaction::PoolTransaction;
use linkledger_projector::{pipeline::parking::listing, read_models::Projection};
use sqlx::{AssertSqlSafe, PgPool};

use crate::tables::{Tables, checkpoints_of};

/// Changes a stored event, as if it had been written like that.
pub(crate) async fn rewrite(pool: &PgPool, shard: Shard, position: Position, change: &str) {
    let mut tx = PoolTransaction::begin(pool).await.unwrap();
    // A trigger forbids the update otherwise.
    sqlx::query("SET LOCAL session_replication_role = replica")
        .execute(&mut *tx)
        .await
        .unwrap();
    let statement =
        format!("UPDATE event_store.events SET {change} WHERE shard = $1 AND position = $2");
    let done = sqlx::query(AssertSqlSafe(statement))
        .bind(shard.number())
        .bind(position)
        .execute(&mut *tx)
        .await
        .unwrap();
    assert_eq!(done.rows_affected(), 1);
    tx.commit().await.unwrap();
}

/// Gives an event a type that only a later release knows; [`restore`] plays that release.
pub(crate) async fn paint(pool: &PgPool, event: &PublishedEvent) {
    let (shard, position) = (event.event.shard, event.event.position);
    rewrite(pool, shard, position, "type = 'LinkPainted'").await;
}

/// Restores the stored event.
pub(crate) async fn restore(pool: &PgPool, event: &PublishedEvent) {
    let event = &event.event;
    let (event_type, version, payload) = (&event.event_type, event.schema_version, &event.payload);
    let change =
        format!("type = '{event_type}', schema_version = {version}, payload = '{payload}'");
    rewrite(pool, event.shard, event.position, &change).await;
}

/// Returns the tables without the events of an account from a position on. The checkpoints are past
/// these events all the same.
pub(crate) fn tables_without(
    log: &[PublishedEvent],
    account_id: AccountId,
    from: Position,
) -> Tables {
    let others: Vec<_> = log
        .iter()
        .filter(|it| {
            let event = &it.event;
            event.account_id != account_id || event.position < from
        })
        .cloned()
        .collect();
    let mut tables = Tables::of_log(&others);
    tables.checkpoints = checkpoints_of(log);
    tables
}

/// Returns projection, position, reason, detail and number of waiting events, by projection.
pub(crate) async fn parkings(
    pool: &PgPool,
    account_id: AccountId,
) -> Vec<(Projection, Position, &'static str, String, i64)> {
    let listed = listing::list(pool, Some(account_id), 100).await.unwrap();
    let parkings = listed.into_iter().map(|it| {
        let cause = it.parking.cause;
        (
            it.parking.account.projection,
            cause.position,
            cause.poison.reason.name(),
            cause.poison.detail,
            it.waiting,
        )
    });
    parkings.collect()
}
