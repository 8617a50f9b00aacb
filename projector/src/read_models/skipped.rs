//! Table `read_model.skipped_events`: events that a projection skips by decision of an operator.

use std::{collections::BTreeSet, ops::RangeInclusive};

use linkledger_core::{
    envelope::RecordedEvent,
    id::EventId,
    shard::{Position, Shard},
};
use sqlx::PgExecutor;

use super::Projection;

/// Skipped events, each with its projection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped(BTreeSet<(Projection, EventId)>);

impl Skipped {
    /// Reads the skipped events of all projections within these stretches of shards.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn within(
        executor: impl PgExecutor<'_>,
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
        .fetch_all(executor)
        .await?;
        let skipped = rows.into_iter().filter_map(|row| {
            let projection = Projection::of_name(&row.projection)?;
            Some((projection, EventId::from_uuid(row.event_id)))
        });
        Ok(skipped.collect())
    }

    /// Returns true if the projection skips the event.
    pub fn contains(&self, projection: Projection, event: &RecordedEvent) -> bool {
        self.0.contains(&(projection, event.event_id))
    }
}

impl FromIterator<(Projection, EventId)> for Skipped {
    fn from_iter<T: IntoIterator<Item = (Projection, EventId)>>(skipped: T) -> Self {
        Self(skipped.into_iter().collect())
    }
}
