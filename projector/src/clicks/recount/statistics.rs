//! Statements of a recount on all tables of statistics.

use std::collections::BTreeMap;

use sqlx::PgConnection;
use time::Date;

/// Locks out other recounts until the transaction ends. Returns false if one is in progress.
pub(super) async fn try_lock_in_tx(tx: &mut PgConnection) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"SELECT pg_try_advisory_xact_lock(hashtext('linkledger recount')) AS "locked!""#
    )
    .fetch_one(tx)
    .await
}

/// Sets the plans of the next statements: scans of whole tables, or, as in every session, rows by key.
pub(super) async fn set_scans_in_tx(tx: &mut PgConnection, are_allowed: bool) -> sqlx::Result<()> {
    let setting = if are_allowed {
        "SET LOCAL enable_seqscan = on"
    } else {
        "SET LOCAL enable_seqscan = off"
    };
    sqlx::raw_sql(setting).execute(tx).await?;
    Ok(())
}

/// Returns the clicks since the first day, bots included, by partition of the topic.
pub(super) async fn clicks_by_partition(
    session: &mut PgConnection,
    from: Date,
) -> sqlx::Result<BTreeMap<i16, i64>> {
    let rows = sqlx::query!(
        r#"
        SELECT partition, sum(clicks + bots)::bigint AS "clicks!" FROM clicks.account_days
        WHERE day >= $1
        GROUP BY partition
        "#,
        from
    )
    .fetch_all(session)
    .await?;
    let rows = rows.into_iter();
    Ok(rows.map(|row| (row.partition, row.clicks)).collect())
}

/// Deletes the statistics since the first day.
pub(super) async fn delete_in_tx(tx: &mut PgConnection, from: Date) -> sqlx::Result<()> {
    sqlx::query!(
        "
        WITH link_15min AS (
            DELETE FROM clicks.link_15min WHERE slot_start >= $2
        ), link_days AS (
            DELETE FROM clicks.link_days WHERE day >= $1
        ), link_values AS (
            DELETE FROM clicks.link_values WHERE day >= $1
        ), account_15min AS (
            DELETE FROM clicks.account_15min WHERE slot_start >= $2
        ), account_days AS (
            DELETE FROM clicks.account_days WHERE day >= $1
        )
        DELETE FROM clicks.account_values WHERE day >= $1
        ",
        from,
        from.midnight().assume_utc()
    )
    .execute(tx)
    .await?;
    Ok(())
}
