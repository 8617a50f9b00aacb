//! State of publishing, from the cursors of the relay.

use anyhow::Context as _;
use linkledger_core::shard::{Position, Shard};
use linkledger_event_store::log::{LogEnd, ReadFrom};
use serde::Serialize;
use sqlx::PgPool;
use utoipa::ToSchema;

use super::operations::PausedBy;

/// State of the relay.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct PublishingStatus {
    /// True if an operator paused publishing.
    pub is_paused: bool,
    /// Operator who paused publishing, of the first paused shard.
    pub paused_by: Option<PausedBy>,
    /// Number of unpublished events.
    #[schema(value_type = i64)]
    pub backlog_events: Position,
    /// Age of the oldest unpublished event; 0 if all are published.
    pub backlog_seconds: f64,
    /// First reason of a stop of publishing, if any.
    pub refusal: Option<String>,
    /// State of every shard.
    pub shards: Vec<RelayShard>,
}

/// State of publishing in one shard.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct RelayShard {
    /// Number of the shard.
    pub shard: i16,
    /// Position of the last acknowledged event.
    #[schema(value_type = i64)]
    pub position: Position,
    /// End of the log in the shard.
    #[schema(value_type = i64)]
    pub head: Position,
    /// Number of unpublished events.
    #[schema(value_type = i64)]
    pub backlog_events: Position,
    /// Age of the oldest unpublished event; 0 if all are published.
    pub backlog_seconds: f64,
    /// Owner of the lease; null if the lease has expired.
    pub owner: Option<String>,
    /// Reason of a stop of publishing.
    pub refusal: Option<String>,
}

/// Reads the state; `end` is the end of the log.
pub(super) async fn read(pool: &PgPool, end: &LogEnd) -> anyhow::Result<PublishingStatus> {
    let rows = sqlx::query!(
        r#"
        SELECT shard, position, refusal, paused_at IS NOT NULL AS "is_paused!", paused_by, pause_reason,
               CASE WHEN lease_expires_at > now() THEN owner END AS owner
        FROM event_store.relay_cursors
        ORDER BY shard
        "#
    )
    .fetch_all(pool)
    .await
    .context("cannot read the state of the relay")?;
    let paused = rows.iter().find(|row| row.is_paused);
    let is_paused = paused.is_some();
    let paused_by = paused.and_then(|row| {
        Some(PausedBy {
            operator: row.paused_by.clone()?,
            reason: row.pause_reason.clone(),
        })
    });
    let mut places = Vec::with_capacity(rows.len());
    let mut shards = Vec::with_capacity(rows.len());
    for row in rows {
        let Some(shard) = Shard::new(row.shard.into()) else {
            continue;
        };
        let head = end.heads[shard.index()];
        places.push(ReadFrom {
            shard,
            after: row.position,
        });
        shards.push(RelayShard {
            shard: shard.number(),
            position: row.position,
            head,
            backlog_events: (head - row.position).max(0),
            backlog_seconds: 0.0,
            owner: row.owner,
            refusal: row.refusal,
        });
    }
    let ages_s = super::ages_s(pool, places.into_iter()).await?;
    for (shard, age_s) in shards.iter_mut().zip(ages_s) {
        shard.backlog_seconds = age_s.unwrap_or_default();
    }
    Ok(PublishingStatus {
        is_paused,
        paused_by,
        backlog_events: shards.iter().map(|it| it.backlog_events).sum(),
        backlog_seconds: shards
            .iter()
            .map(|it| it.backlog_seconds)
            .fold(0.0, f64::max),
        refusal: shards.iter().find_map(|it| it.refusal.clone()),
        shards,
    })
}
