//! Reads parked accounts: one after the other, or as a list.

use linkledger_core::{
    id::AccountId,
    projection::Projection,
    shard::{Position, Shard},
    timestamp,
};
use serde::Serialize;
use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{ParkedAccount, Parking, ParkingCause};
use crate::pipeline::{
    checkpoint::Role,
    poison::{Poison, PoisonReason},
};

/// Returns the parked account after `after` in the order of the keys, or the first account of the
/// shard. Considers generations with the given role only.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn next_after(
    pool: &PgPool,
    role: Role,
    shard: Shard,
    after: Option<ParkedAccount>,
) -> sqlx::Result<Option<Parking>> {
    let projection = after.map_or("", |account| account.projection.name());
    let generation = after.map_or(0, |account| account.generation);
    let account_id = after.map_or(Uuid::nil(), |account| account.account_id.uuid());
    let row = sqlx::query_as!(
        ParkingRow,
        r#"
        SELECT p.projection, p.generation, p.shard, p.account_id, p.position, p.event_type,
               p.reason, p.detail, p.parked_at, NULL::bigint AS "count"
        FROM read_model.checkpoints AS c
        CROSS JOIN LATERAL (
            SELECT * FROM read_model.parked_accounts
            WHERE shard = c.shard AND projection = c.projection AND generation = c.generation
              AND (projection, generation, account_id) > ($2, $3, $4)
            ORDER BY account_id
            LIMIT 1
        ) AS p
        WHERE c.shard = $1 AND c.role = $5
        ORDER BY p.projection, p.generation
        LIMIT 1
        "#,
        shard.number(),
        projection,
        generation,
        account_id,
        role.name()
    )
    .fetch_optional(pool)
    .await?;
    row.map(ParkingRow::into_parking).transpose()
}

/// Returns the accounts that are parked in the generation, but not in the generation `other`, or
/// there only for a later event: the first `limit` accounts, and the number of all.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn parked_only_in(
    executor: impl PgExecutor<'_>,
    (projection, generation): (Projection, i32),
    other: i32,
    limit: i64,
) -> sqlx::Result<(Vec<Parking>, i64)> {
    let rows = sqlx::query_as!(
        ParkingRow,
        r#"
        SELECT p.projection, p.generation, p.shard, p.account_id, p.position, p.event_type,
               p.reason, p.detail, p.parked_at, count(*) OVER () AS "count"
        FROM read_model.parked_accounts AS p
        LEFT JOIN read_model.parked_accounts AS o
            ON o.account_id = p.account_id AND o.projection = p.projection AND o.generation = $3
        WHERE p.projection = $1 AND p.generation = $2
          AND (o.position IS NULL OR o.position > p.position)
        ORDER BY p.shard, p.account_id
        LIMIT $4
        "#,
        projection.name(),
        generation,
        other,
        limit
    )
    .fetch_all(executor)
    .await?;
    let count = rows.first().and_then(|row| row.count).unwrap_or(0);
    let parkings = rows.into_iter().map(ParkingRow::into_parking);
    Ok((parkings.collect::<sqlx::Result<_>>()?, count))
}

/// A parked account with the facts that operators see.
#[derive(Debug, Serialize)]
pub struct ListedParking {
    /// Account and cause.
    #[serde(flatten)]
    pub parking: Parking,
    /// Time of the parking.
    #[serde(serialize_with = "timestamp::serialize")]
    pub parked_at: OffsetDateTime,
    /// Number of waiting events.
    pub waiting: i64,
}

/// Returns the parked accounts, or the parkings of one account, ordered by account. Considers live
/// generations only.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(
    pool: &PgPool,
    account_id: Option<AccountId>,
    limit: i64,
) -> sqlx::Result<Vec<ListedParking>> {
    let rows = sqlx::query_as!(
        ParkingRow,
        r#"
        SELECT p.projection, p.generation, p.shard, p.account_id, p.position, p.event_type,
               p.reason, p.detail, p.parked_at, (
                   SELECT count(*) FROM read_model.parked_events AS e
                   WHERE e.account_id = p.account_id AND e.projection = p.projection
                     AND e.generation = p.generation
               ) AS "count"
        FROM read_model.parked_accounts AS p
        JOIN read_model.checkpoints AS c USING (projection, generation, shard)
        WHERE p.account_id BETWEEN $1 AND $2 AND c.role = 'live'
        ORDER BY p.account_id, p.projection
        LIMIT $3
        "#,
        account_id.map_or(Uuid::nil(), AccountId::uuid),
        account_id.map_or(Uuid::max(), AccountId::uuid),
        limit
    )
    .fetch_all(pool)
    .await?;
    rows.into_iter().map(ParkingRow::into_listed).collect()
}

struct ParkingRow {
    projection: String,
    generation: i32,
    shard: i16,
    account_id: Uuid,
    position: Position,
    event_type: String,
    reason: String,
    detail: String,
    parked_at: OffsetDateTime,
    /// Number of the waiting events of the account, or of all accounts that were asked for.
    count: Option<i64>,
}

impl ParkingRow {
    fn into_parking(self) -> sqlx::Result<Parking> {
        let unknown = format!(
            "`{}` for `{}` is not of this release",
            self.projection, self.reason
        );
        let unknown = || sqlx::Error::Decode(unknown.into());
        let (projection, generation) = (&self.projection, self.generation);
        let account = ParkedAccount::stored(projection, generation, self.shard, self.account_id);
        Ok(Parking {
            account: account.ok_or_else(unknown.clone())?,
            cause: ParkingCause {
                position: self.position,
                event_type: self.event_type,
                poison: Poison {
                    reason: PoisonReason::of_name(&self.reason).ok_or_else(unknown)?,
                    detail: self.detail,
                },
            },
        })
    }

    fn into_listed(self) -> sqlx::Result<ListedParking> {
        Ok(ListedParking {
            parked_at: self.parked_at,
            waiting: self.count.unwrap_or(0),
            parking: self.into_parking()?,
        })
    }
}
