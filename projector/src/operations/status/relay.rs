//! How far the log is published, as the relay's cursors say.

use anyhow::Context as _;
use linkledger_core::{
    event_store::log::{LogEnd, ReadFrom},
    shard::{Position, Shard},
};
use serde::Serialize;
use sqlx::PgPool;

/// The relay: its shards together, and each.
#[derive(Debug, Clone, Serialize)]
pub struct RelayStatus {
    /// Whether an operator wants nothing to be published.
    pub is_paused: bool,
    /// Events that are not published yet.
    pub backlog_events: Position,
    /// Age of the oldest of them; 0 if there is none.
    pub backlog_seconds: f64,
    /// Why nothing is published, where it is so; the first one.
    pub refusal: Option<String>,
    /// All shards.
    pub shards: Vec<RelayShard>,
}

/// How far a shard is published.
#[derive(Debug, Clone, Serialize)]
pub struct RelayShard {
    /// Which.
    pub shard: i16,
    /// Everything up to it is acknowledged by the broker.
    pub position: Position,
    /// The end of the log.
    pub head: Position,
    /// Events that are not published yet.
    pub backlog_events: Position,
    /// Age of the oldest of them; 0 if there is none.
    pub backlog_seconds: f64,
    /// Who publishes it; nobody if the lease has run out.
    pub owner: Option<String>,
    /// Why nothing is published.
    pub refusal: Option<String>,
}

/// Reads it; `end` is where the log ends.
pub(super) async fn read(pool: &PgPool, end: &LogEnd) -> anyhow::Result<RelayStatus> {
    let rows = sqlx::query!(
        r#"
        SELECT shard, position, refusal, paused_at IS NOT NULL AS "is_paused!",
               CASE WHEN lease_expires_at > now() THEN owner END AS owner
        FROM event_store.relay_cursors
        ORDER BY shard
        "#
    )
    .fetch_all(pool)
    .await
    .context("can't read how far the relay is")?;
    let is_paused = rows.iter().any(|row| row.is_paused);
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
    let ages_s = super::ages_after_s(pool, &places).await?;
    for (shard, age_s) in shards.iter_mut().zip(ages_s) {
        shard.backlog_seconds = age_s;
    }
    Ok(RelayStatus {
        is_paused,
        backlog_events: shards.iter().map(|it| it.backlog_events).sum(),
        backlog_seconds: shards
            .iter()
            .map(|it| it.backlog_seconds)
            .fold(0.0, f64::max),
        refusal: shards.iter().find_map(|it| it.refusal.clone()),
        shards,
    })
}
