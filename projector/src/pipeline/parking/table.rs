//! Tables `read_model.parked_accounts` and `read_model.parked_events`: the statements that park and
//! release accounts.

use std::collections::BTreeSet;

use linkledger_core::shard::Position;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::{ParkedAccount, Parking};
use crate::pipeline::decode::BatchEvent;

/// Returns the parked accounts among the accounts of the events, of all projections and generations.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn parked_among(
    pool: &PgPool,
    events: impl IntoIterator<Item = &BatchEvent>,
) -> sqlx::Result<BTreeSet<ParkedAccount>> {
    let account_ids = events
        .into_iter()
        .map(|event| event.recorded().account_id.uuid());
    let account_ids: BTreeSet<Uuid> = account_ids.collect();
    if account_ids.is_empty() {
        return Ok(BTreeSet::new());
    }
    let account_ids: Vec<Uuid> = account_ids.into_iter().collect();
    let rows = sqlx::query!(
        "
        SELECT projection, generation, shard, account_id FROM read_model.parked_accounts
        WHERE account_id = ANY($1)
        ",
        &account_ids
    )
    .fetch_all(pool)
    .await?;
    // Rows of a projection that only a later release knows are ignored.
    let accounts = rows.into_iter().filter_map(|row| {
        ParkedAccount::stored(&row.projection, row.generation, row.shard, row.account_id)
    });
    Ok(accounts.collect())
}

/// Parks the accounts of `parked`, and records the events of `waiting`. Returns false if an account
/// of `waiting` was released meanwhile; the transaction must not be committed then.
///
/// # Errors
/// Returns an error if the database fails, or refuses a row.
pub async fn park_in_tx(
    tx: &mut PgConnection,
    parked: &[Parking],
    waiting: &[(ParkedAccount, Position)],
) -> sqlx::Result<bool> {
    if waiting.is_empty() {
        return Ok(true);
    }
    insert_accounts_in_tx(tx, parked).await?;
    let inserted = insert_events_in_tx(tx, waiting).await?;
    Ok(inserted == waiting.len() as u64)
}

async fn insert_accounts_in_tx(tx: &mut PgConnection, parked: &[Parking]) -> sqlx::Result<()> {
    if parked.is_empty() {
        return Ok(());
    }
    let accounts = || parked.iter().map(|parking| &parking.account);
    let projections: Vec<&str> = accounts().map(|it| it.projection.name()).collect();
    let generations: Vec<i32> = accounts().map(|it| it.generation).collect();
    let shards: Vec<i16> = accounts().map(|it| it.shard.number()).collect();
    let account_ids: Vec<Uuid> = accounts().map(|it| it.account_id.uuid()).collect();
    let causes = || parked.iter().map(|parking| &parking.cause);
    let positions: Vec<Position> = causes().map(|it| it.position).collect();
    let event_types: Vec<&str> = causes().map(|it| it.event_type.as_str()).collect();
    let reasons: Vec<&str> = causes().map(|it| it.poison.reason.name()).collect();
    let details: Vec<&str> = causes().map(|it| it.poison.detail.as_str()).collect();
    // The account is parked already if an operator has set the projection back.
    sqlx::query!(
        "
        INSERT INTO read_model.parked_accounts
            (projection, generation, shard, account_id, position, event_type, reason, detail)
        SELECT * FROM unnest($1::text[], $2::integer[], $3::smallint[], $4::uuid[], $5::bigint[],
                             $6::text[], $7::text[], $8::text[])
        ON CONFLICT (account_id, projection, generation) DO NOTHING
        ",
        &projections as &[&str],
        &generations,
        &shards,
        &account_ids,
        &positions,
        &event_types as &[&str],
        &reasons as &[&str],
        &details as &[&str]
    )
    .execute(tx)
    .await?;
    Ok(())
}

async fn insert_events_in_tx(
    tx: &mut PgConnection,
    waiting: &[(ParkedAccount, Position)],
) -> sqlx::Result<u64> {
    let accounts = || waiting.iter().map(|(account, _)| account);
    let projections: Vec<&str> = accounts().map(|it| it.projection.name()).collect();
    let generations: Vec<i32> = accounts().map(|it| it.generation).collect();
    let shards: Vec<i16> = accounts().map(|it| it.shard.number()).collect();
    let account_ids: Vec<Uuid> = accounts().map(|it| it.account_id.uuid()).collect();
    let positions: Vec<Position> = waiting.iter().map(|(_, position)| *position).collect();
    let result = sqlx::query!(
        "
        INSERT INTO read_model.parked_events (projection, generation, shard, position, account_id)
        SELECT w.projection, w.generation, w.shard, w.position, w.account_id
        FROM unnest($1::text[], $2::integer[], $3::smallint[], $4::uuid[], $5::bigint[])
            AS w (projection, generation, shard, account_id, position)
        JOIN read_model.parked_accounts AS p USING (account_id, projection, generation)
        ON CONFLICT (projection, generation, shard, position) DO UPDATE
        SET account_id = excluded.account_id
        ",
        &projections as &[&str],
        &generations,
        &shards,
        &account_ids,
        &positions
    )
    .execute(tx)
    .await?;
    Ok(result.rows_affected())
}

/// Returns the positions of the first `limit` waiting events of an account.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn waiting(
    pool: &PgPool,
    account: ParkedAccount,
    limit: i64,
) -> sqlx::Result<Vec<Position>> {
    sqlx::query_scalar!(
        "
        SELECT position FROM read_model.parked_events
        WHERE account_id = $1 AND projection = $2 AND generation = $3
        ORDER BY position
        LIMIT $4
        ",
        account.account_id.uuid(),
        account.projection.name(),
        account.generation,
        limit
    )
    .fetch_all(pool)
    .await
}

/// Deletes the waiting events of an account up to a position, and returns their number.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn remove_events_in_tx(
    tx: &mut PgConnection,
    account: ParkedAccount,
    up_to: Position,
) -> sqlx::Result<u64> {
    let result = sqlx::query!(
        "
        DELETE FROM read_model.parked_events
        WHERE account_id = $1 AND projection = $2 AND generation = $3 AND position <= $4
        ",
        account.account_id.uuid(),
        account.projection.name(),
        account.generation,
        up_to
    )
    .execute(tx)
    .await?;
    Ok(result.rows_affected())
}

/// Ends the parking of an account, unless events of the account still wait. Returns true if none
/// waits.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn end_parking_in_tx(
    tx: &mut PgConnection,
    account: ParkedAccount,
) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"
        WITH waiting AS (
            SELECT EXISTS (
                SELECT FROM read_model.parked_events
                WHERE account_id = $1 AND projection = $2 AND generation = $3
            ) AS is_any
        ), ended AS (
            DELETE FROM read_model.parked_accounts
            WHERE account_id = $1 AND projection = $2 AND generation = $3
              AND NOT (SELECT is_any FROM waiting)
        )
        SELECT NOT is_any AS "is_ended!" FROM waiting
        "#,
        account.account_id.uuid(),
        account.projection.name(),
        account.generation
    )
    .fetch_one(tx)
    .await
}

/// Updates the event that the account is parked for. Returns false if the event is not the first
/// waiting event, because another session is releasing the account.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn update_cause_in_tx(tx: &mut PgConnection, parking: &Parking) -> sqlx::Result<bool> {
    let Parking { account, cause } = parking;
    let result = sqlx::query!(
        "
        UPDATE read_model.parked_accounts
        SET position = $4, event_type = $5, reason = $6, detail = $7
        WHERE account_id = $1 AND projection = $2 AND generation = $3
          AND $4 = (
              SELECT min(position) FROM read_model.parked_events
              WHERE account_id = $1 AND projection = $2 AND generation = $3
          )
        ",
        account.account_id.uuid(),
        account.projection.name(),
        account.generation,
        cause.position,
        cause.event_type,
        cause.poison.reason.name(),
        cause.poison.detail
    )
    .execute(tx)
    .await?;
    Ok(result.rows_affected() > 0)
}
