//! Table `read_model.skipped_events`: events that a projection leaves out, because an operator has
//! decided so.

use std::{collections::BTreeSet, ops::RangeInclusive};

use linkledger_core::{
    envelope::RecordedEvent,
    id::{AccountId, EventId},
    shard::{Position, Shard},
};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

use super::Parking;
use crate::projections::Projection;

/// Events that are left out, each of a projection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped(BTreeSet<(Projection, EventId)>);

impl Skipped {
    /// What is left out of these stretches of shards, in whatever projection.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn within(
        pool: &PgPool,
        stretches: &[(Shard, RangeInclusive<Position>)],
    ) -> sqlx::Result<Self> {
        if stretches.is_empty() {
            return Ok(Self::default());
        }
        let shards: Vec<i16> = stretches.iter().map(|it| it.0.number()).collect();
        let first: Vec<Position> = stretches.iter().map(|it| *it.1.start()).collect();
        let last: Vec<Position> = stretches.iter().map(|it| *it.1.end()).collect();
        let projections = Projection::ALL.map(Projection::name);
        let rows = sqlx::query!(
            "
            SELECT skipped.projection, skipped.event_id
            FROM unnest($1::smallint[], $2::bigint[], $3::bigint[]) AS stretch (shard, first, last)
            CROSS JOIN unnest($4::text[]) AS known (projection)
            JOIN read_model.skipped_events AS skipped
              ON skipped.projection = known.projection AND skipped.shard = stretch.shard
             AND skipped.position BETWEEN stretch.first AND stretch.last
            ",
            &shards,
            &first,
            &last,
            &projections as &[&str]
        )
        .fetch_all(pool)
        .await?;
        let known = rows.into_iter().filter_map(|row| {
            let projection = Projection::named(&row.projection)?;
            Some((projection, EventId::from_uuid(row.event_id)))
        });
        Ok(known.collect())
    }

    /// Whether the projection leaves the event out.
    pub fn contains(&self, projection: Projection, event: &RecordedEvent) -> bool {
        self.0.contains(&(projection, event.event_id))
    }
}

impl FromIterator<(Projection, EventId)> for Skipped {
    fn from_iter<T: IntoIterator<Item = (Projection, EventId)>>(skipped: T) -> Self {
        Self(skipped.into_iter().collect())
    }
}

/// The event that the account is parked for is left out from here on; `false` if the account is
/// parked for another one meanwhile, or not any more.
///
/// # Errors
/// When the database does not answer.
pub async fn insert_in_tx(
    tx: &mut PgConnection,
    parking: &Parking,
    event_id: EventId,
    operator: &str,
    reason: &str,
) -> sqlx::Result<bool> {
    let Parking { account, cause } = parking;
    sqlx::query_scalar!(
        r#"
        WITH cause AS (
            SELECT * FROM read_model.parked_accounts
            WHERE account_id = $1 AND projection = $2 AND generation = $3 AND position = $4
        ), noted AS (
            INSERT INTO read_model.skipped_events
                (projection, shard, position, event_id, account_id, event_type, operator, reason)
            SELECT projection, shard, position, $5, account_id, event_type, $6, $7 FROM cause
            ON CONFLICT (projection, shard, position, event_id) DO NOTHING
        )
        SELECT EXISTS (SELECT FROM cause) AS "is_noted!"
        "#,
        account.account_id.uuid(),
        account.projection.name(),
        account.generation,
        cause.position,
        event_id.uuid(),
        operator,
        reason
    )
    .fetch_one(tx)
    .await
}

/// An event that is left out, as an operator sees it.
#[derive(Debug)]
pub struct ListedSkip {
    /// By which projection.
    pub projection: String,
    /// Its place in the shard.
    pub position: Position,
    /// The stored type name.
    pub event_type: String,
    /// Who has decided it.
    pub operator: String,
    /// Why.
    pub reason: String,
    /// When.
    pub skipped_at: OffsetDateTime,
}

/// What is left out of an account, by position.
///
/// # Errors
/// When the database does not answer.
pub async fn list(
    pool: &PgPool,
    account_id: AccountId,
    limit: i64,
) -> sqlx::Result<Vec<ListedSkip>> {
    sqlx::query_as!(
        ListedSkip,
        "
        SELECT projection, position, event_type, operator, reason, skipped_at
        FROM read_model.skipped_events
        WHERE account_id = $1
        ORDER BY position, projection
        LIMIT $2
        ",
        account_id.uuid(),
        limit
    )
    .fetch_all(pool)
    .await
}
