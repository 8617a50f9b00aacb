//! Live checkpoints, with the number of parked accounts and the owner of the shard.

use anyhow::Context as _;
use linkledger_core::{shard::Shard, timestamp};
use linkledger_event_store::log::{self, LogEnd, ReadFrom};
use linkledger_service::databases::Databases;

use super::{
    ages_s,
    projection::{LastError, ProjectionShard, ProjectionState, ProjectionStatus},
};
use crate::{
    pipeline::checkpoint::PARKED_COUNTED_MAX,
    read_models::{PerProjection, Projection},
};

/// Reads the end of the log and the state of every projection, by name.
pub(super) async fn read(databases: &Databases) -> anyhow::Result<(LogEnd, Vec<ProjectionStatus>)> {
    let rows = sqlx::query!(
        r#"
        SELECT c.projection, p.active_generation, c.shard, c.epoch, c.position, c.paused_at, (
                   SELECT count(*) FROM (
                       SELECT FROM read_model.parked_accounts AS a
                       WHERE a.shard = c.shard AND a.projection = c.projection
                         AND a.generation = c.generation
                       LIMIT $1
                   ) AS parked
               ) AS "parked_accounts!",
               claim.owner AS "owner?", claim.version AS "version?",
               extract(epoch FROM now() - claim.renewed_at)::float8 AS "renewed_seconds_ago?",
               (claim.events_per_second->>c.projection)::float8 AS "events_per_second?",
               claim.last_error AS "last_error?",
               extract(epoch FROM now() - claim.last_error_at)::float8 AS "last_error_seconds_ago?"
        FROM read_model.checkpoints AS c
        JOIN read_model.projections AS p USING (projection)
        LEFT JOIN read_model.claims AS claim USING (shard)
        WHERE c.role = 'live'
        ORDER BY c.projection, c.shard
        "#,
        PARKED_COUNTED_MAX
    )
    .fetch_all(&databases.read)
    .await
    .context("cannot read the checkpoints")?;
    // Read after the checkpoints: heads only grow, so a checkpoint beyond the head is truly beyond.
    let end = log::end(&databases.log)
        .await
        .context("cannot read the end of the log")?;
    // Rows of a projection that only a later release knows are ignored.
    let known = rows.into_iter().filter_map(|row| {
        let projection = Projection::of_name(&row.projection)?;
        Some((projection, Shard::new(row.shard.into())?, row))
    });
    let known = known.collect::<Vec<_>>();
    let places = known.iter().map(|(_, shard, row)| ReadFrom {
        shard: *shard,
        after: row.position,
    });
    let ages_s = ages_s(&databases.log, places).await?;
    let judged = known
        .into_iter()
        .zip(ages_s)
        .map(|((projection, shard, row), age_s)| {
            let head = end.heads[shard.index()];
            let last_error = row.last_error.zip(row.last_error_seconds_ago);
            let it = ProjectionShard {
                shard: shard.number(),
                state: ProjectionState::Live,
                epoch: row.epoch,
                position: row.position,
                head,
                lag_events: (head - row.position).max(0),
                lag_seconds: age_s.unwrap_or_default(),
                events_per_second: row.events_per_second,
                parked_accounts: u32::try_from(row.parked_accounts).unwrap_or_default(),
                paused_at: row.paused_at.map(timestamp::format),
                owner: row.owner,
                version: row.version,
                renewed_seconds_ago: row.renewed_seconds_ago,
                last_error: last_error.map(|(text, seconds_ago)| LastError { seconds_ago, text }),
            };
            let it = it.judged(end.epoch, age_s.is_some());
            (projection, row.active_generation, it)
        });
    let projections = by_projection(judged, &end);
    Ok((end, projections))
}

/// Groups the shards by projection.
fn by_projection(
    judged: impl Iterator<Item = (Projection, i32, ProjectionShard)>,
    end: &LogEnd,
) -> Vec<ProjectionStatus> {
    let mut grouped: PerProjection<(i32, Vec<ProjectionShard>)> = PerProjection::default();
    for (projection, active_generation, shard) in judged {
        let (generation, shards) = &mut grouped[projection.index()];
        *generation = active_generation;
        shards.push(shard);
    }
    let all = Projection::ALL.into_iter().zip(grouped);
    all.map(|(projection, (active_generation, shards))| {
        ProjectionStatus::of(projection, active_generation, shards, end)
    })
    .collect()
}
