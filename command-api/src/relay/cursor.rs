//! Cursors of the relay: table `event_store.relay_cursors`, one row for each shard.

use anyhow::Context as _;
use linkledger_core::{
    shard::{Position, Shard},
    timestamp,
};
use linkledger_event_store::log::PerShard;
use sqlx::{PgConnection, PgExecutor, PgPool};
use time::OffsetDateTime;

use super::pause::{Pause, Resumption};

/// Beginning of a refusal that stops one shard alone: the owner of the lease retries the shard.
pub const STOPPED: &str = "the shard is stopped: ";

/// Row of a shard, with the end of the log in the same snapshot.
#[derive(Debug, Clone, Default)]
pub struct Cursor {
    /// Highest acknowledged position; every earlier position is acknowledged too.
    pub position: Position,
    /// Epoch of the log of the position.
    pub epoch: i32,
    /// Latest epoch with published events that the log lacks.
    pub lost_epoch: Option<i32>,
    /// Head of the shard.
    pub head: Position,
    /// Epoch of the log.
    pub log_epoch: i32,
    /// Process that has the lease, or had the lease last.
    pub owner: Option<String>,
    /// Fencing epoch of the lease.
    pub lease_epoch: i64,
    /// Remaining time of the lease, in seconds; none if the lease has expired.
    pub lease_s: Option<f64>,
    /// Cluster of the records; `None` before the first of them.
    pub cluster_id: Option<String>,
    /// Offset of a published record, if one is known; later records have higher offsets.
    pub record_offset: Option<i64>,
    /// True if the topic began again at a lower offset while a relay published.
    pub topic_lost: bool,
    /// Reason why the owner publishes nothing, or why the shard is stopped.
    pub refusal: Option<String>,
    /// Start of the refusal or of the stop.
    pub refused_at: Option<OffsetDateTime>,
    /// Start of the pause.
    pub paused_at: Option<OffsetDateTime>,
    /// Operator or command that has paused the relay.
    pub paused_by: Option<String>,
    /// Reason of the pause.
    pub pause_reason: Option<String>,
    /// End of the last pause.
    pub resumed_at: Option<OffsetDateTime>,
    /// Operator who has ended the last pause.
    pub resumed_by: Option<String>,
}

impl Cursor {
    /// Returns the highest position that was published of the present log: 0 if the log has had
    /// another epoch since.
    pub fn published(&self) -> Position {
        if self.epoch == self.log_epoch {
            self.position
        } else {
            0
        }
    }

    /// Returns true if a relay publishes events of the shard, or retries them.
    pub fn is_published(&self) -> bool {
        let refusal = self.refusal.as_deref();
        let is_retried = refusal.is_none_or(|refusal| refusal.starts_with(STOPPED));
        self.lease_s.is_some() && is_retried
    }

    /// Returns the pause, if the shard is paused.
    pub fn pause(&self) -> Option<Pause> {
        Some(Pause {
            since: timestamp::format(self.paused_at?),
            by: self.paused_by.clone().unwrap_or_default(),
            reason: self.pause_reason.clone().unwrap_or_default(),
        })
    }

    /// Returns the end of the last pause, unless the shard is paused again.
    pub fn resumption(&self) -> Option<Resumption> {
        if self.paused_at.is_some() {
            return None;
        }
        Some(Resumption {
            at: timestamp::format(self.resumed_at?),
            by: self.resumed_by.clone().unwrap_or_default(),
        })
    }
}

/// Reads the cursors of all shards.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn read(executor: impl PgExecutor<'_>) -> anyhow::Result<PerShard<Cursor>> {
    let cursors = sqlx::query_as!(
        Cursor,
        r#"
        SELECT c.position, c.epoch, c.lost_epoch, s.head, m.epoch AS log_epoch, c.owner,
               c.lease_epoch, c.cluster_id, c.record_offset, c.topic_lost, c.refusal, c.refused_at,
               c.paused_at, c.paused_by, c.pause_reason, c.resumed_at, c.resumed_by,
               CASE WHEN c.lease_expires_at > now() THEN
                   extract(epoch FROM c.lease_expires_at - now())::float8 END AS lease_s
        FROM event_store.relay_cursors AS c
        JOIN event_store.log_shards AS s USING (shard)
        CROSS JOIN event_store.log_meta AS m
        ORDER BY c.shard
        "#
    )
    .fetch_all(executor)
    .await
    .context("cannot read the cursors of the relay")?;
    let cursors = cursors.try_into().ok();
    cursors.context("the relay has no cursor for a shard: run `command-api migrate`")
}

/// Locks and reads the cursors of all shards.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn lock_in_tx(tx: &mut PgConnection) -> anyhow::Result<PerShard<Cursor>> {
    sqlx::query!("SELECT FROM event_store.relay_cursors ORDER BY shard FOR NO KEY UPDATE")
        .execute(&mut *tx)
        .await
        .context("cannot lock the cursors of the relay; retry the command")?;
    // A later statement sees the changes that were committed while the lock was waited for.
    read(tx).await
}

/// Moves every cursor back to at most `positions`, and unbinds the cursors from cluster and topic:
/// the next relay accepts any topic. The caller must know that the topic has no records above
/// `positions`.
///
/// Only for the local stack, whose own broker ends together with all relays that could publish to
/// the broker. With any other broker, [`republish`](super::republish) moves cursors back.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn rewind_to_new_broker(
    pool: &PgPool,
    positions: &[(Shard, Position)],
) -> sqlx::Result<()> {
    let shards: Vec<i16> = positions.iter().map(|(shard, _)| shard.number()).collect();
    let positions: Vec<i64> = positions.iter().map(|(_, position)| *position).collect();
    sqlx::query!(
        "
        UPDATE event_store.relay_cursors AS c
        SET position = least(c.position, rewound.position), lease_epoch = c.lease_epoch + 1,
            cluster_id = NULL, record_offset = NULL, topic_lost = false
        FROM unnest($1::smallint[], $2::bigint[]) AS rewound (shard, position)
        WHERE c.shard = rewound.shard
        ",
        &shards,
        &positions
    )
    .execute(pool)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopped_shard_counts_as_published() {
        let cursor = |lease_s, refusal: Option<&str>| Cursor {
            lease_s,
            refusal: refusal.map(str::to_owned),
            ..Cursor::default()
        };
        let stop = format!("{STOPPED}event 7 was refused");
        assert!(cursor(Some(1.0), None).is_published());
        assert!(cursor(Some(1.0), Some(&stop)).is_published());
        assert!(!cursor(Some(1.0), Some("the topic does not exist")).is_published());
        assert!(!cursor(None, Some(&stop)).is_published());
    }
}
