//! Lease of the relay, and the updates of `event_store.relay_cursors` that need the lease.
//!
//! One process at a time publishes all shards. The lease has a fencing epoch, stored in all rows,
//! and each new lease has a higher epoch. Every update names the epoch of the lease, so a relay
//! without a valid lease can't move a cursor, even after a long sleep.

use anyhow::Context as _;
use linkledger_core::shard::{Position, SHARD_COUNT, Shard};
use linkledger_event_store::log::PerShard;
use sqlx::PgPool;

use super::stopped_shards::StopReason;

/// Right to publish, identified by its fencing epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    pub(super) epoch: i64,
}

/// Progress of a published shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcknowledgedPosition {
    /// Published shard.
    pub shard: Shard,
    /// Highest acknowledged position; every earlier position is acknowledged too.
    pub position: Position,
    /// Offset of a published record, if one is known; later records have higher offsets.
    pub offset: Option<i64>,
}

/// Outcome of the renewal of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// The lease was extended.
    Kept,
    /// Another process has the lease, or a republish has ended the lease.
    Lost,
    /// An operator has paused publishing, so the lease was given up.
    Paused,
}

/// Acquires, renews and releases the lease of one owner, and stores cursors under the lease.
#[derive(Debug, Clone)]
pub struct LeaseTable {
    pool: PgPool,
    owner: String,
}

impl LeaseTable {
    /// Returns the lease table for the process named `owner`.
    pub fn new(pool: PgPool, owner: String) -> Self {
        Self { pool, owner }
    }

    /// Acquires the lease if no other process has an unexpired lease and publishing is not paused.
    /// With `takes_own`, also takes over an unexpired lease of the same owner, after a restart.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn acquire(
        &self,
        takes_own: bool,
    ) -> anyhow::Result<Option<(Lease, Vec<AcknowledgedPosition>)>> {
        let rows = sqlx::query!(
            r#"
            WITH cursors AS (
                SELECT lease_epoch, paused_at IS NULL AND (owner IS NULL OR (owner = $1 AND $2)
                                        OR lease_expires_at < now()) AS is_free
                FROM event_store.relay_cursors ORDER BY shard FOR NO KEY UPDATE SKIP LOCKED
            ), lease AS (
                SELECT max(lease_epoch) + 1 AS epoch FROM cursors
                HAVING count(*) = $3 AND bool_and(is_free IS TRUE)
            )
            UPDATE event_store.relay_cursors AS c
            SET owner = $1, lease_epoch = lease.epoch,
                lease_expires_at = now() + interval '3 seconds'
            FROM lease
            RETURNING c.shard, c.lease_epoch, c.position, c.record_offset
            "#,
            self.owner,
            takes_own,
            i64::from(SHARD_COUNT)
        )
        .fetch_all(&self.pool)
        .await
        .context("cannot acquire the lease")?;
        let lease = rows.first().map(|row| Lease {
            epoch: row.lease_epoch,
        });
        let acknowledged = rows.into_iter().filter_map(|row| {
            Some(AcknowledgedPosition {
                shard: Shard::new(row.shard.into())?,
                position: row.position,
                offset: row.record_offset,
            })
        });
        let mut acknowledged: Vec<_> = acknowledged.collect();
        // Updates lock the rows in this order, as every other statement does.
        acknowledged.sort_by_key(|acknowledged| acknowledged.shard);
        Ok(lease.map(|lease| (lease, acknowledged)))
    }

    /// Extends the lease, or gives the lease up if publishing is paused.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn renew(&self, lease: Lease) -> anyhow::Result<Renewal> {
        let renewed = sqlx::query_scalar!(
            r#"
            UPDATE event_store.relay_cursors AS c
            SET lease_expires_at = CASE
                    WHEN c.paused_at IS NULL THEN now() + interval '3 seconds' ELSE now() END
            FROM (SELECT shard FROM event_store.relay_cursors
                  WHERE owner = $1 AND lease_epoch = $2
                  ORDER BY shard FOR NO KEY UPDATE) AS leased
            WHERE c.shard = leased.shard
            RETURNING c.paused_at IS NOT NULL AS "is_paused!"
            "#,
            self.owner,
            lease.epoch
        )
        .fetch_all(&self.pool)
        .await
        .context("cannot renew the lease")?;
        Ok(if renewed.len() < usize::from(SHARD_COUNT) {
            Renewal::Lost
        } else if renewed.contains(&true) {
            Renewal::Paused
        } else {
            Renewal::Kept
        })
    }

    /// Moves cursors forward, never back, if the lease is still valid.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn store(&self, lease: Lease, moved: &[AcknowledgedPosition]) -> anyhow::Result<()> {
        let (shards, offsets) = columns(moved);
        let positions: Vec<i64> = moved.iter().map(|moved| moved.position).collect();
        sqlx::query!(
            "
            UPDATE event_store.relay_cursors AS c
            SET position = moved.position,
                record_offset = coalesce(moved.record_offset, c.record_offset)
            FROM unnest($3::smallint[], $4::bigint[], $5::bigint[])
                AS moved (shard, position, record_offset)
            WHERE c.shard = moved.shard AND c.owner = $1 AND c.lease_epoch = $2
              AND c.position < moved.position
            ",
            self.owner,
            lease.epoch,
            &shards,
            &positions,
            &offsets as &[Option<i64>]
        )
        .execute(&self.pool)
        .await
        .context("cannot store the cursors")?;
        Ok(())
    }

    /// Records the cluster of the published records, and the offset of a record for each shard
    /// that has none stored; clears a recorded refusal.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn bind(
        &self,
        lease: Lease,
        published: &[AcknowledgedPosition],
        cluster_id: Option<&str>,
    ) -> anyhow::Result<()> {
        let (shards, offsets) = columns(published);
        sqlx::query!(
            "
            UPDATE event_store.relay_cursors AS c
            SET cluster_id = coalesce($3, c.cluster_id), refusal = NULL, refused_at = NULL,
                record_offset = coalesce(c.record_offset, published.record_offset)
            FROM unnest($4::smallint[], $5::bigint[]) AS published (shard, record_offset)
            WHERE c.shard = published.shard AND c.owner = $1 AND c.lease_epoch = $2
              AND (c.refusal IS NOT NULL OR c.cluster_id IS DISTINCT FROM coalesce($3, c.cluster_id)
                   OR (c.record_offset IS NULL AND published.record_offset IS NOT NULL))
            ",
            self.owner,
            lease.epoch,
            cluster_id,
            &shards,
            &offsets as &[Option<i64>]
        )
        .execute(&self.pool)
        .await
        .context("cannot store the cluster of the published records")?;
        Ok(())
    }

    /// Records that the topic began again at a lower offset, if the lease is still valid. A republish
    /// clears the record.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn record_topic_lost(&self, lease: Lease, shard: Shard) -> anyhow::Result<()> {
        sqlx::query!(
            "UPDATE event_store.relay_cursors SET topic_lost = true
             WHERE shard = $1 AND owner = $2 AND lease_epoch = $3",
            shard.number(),
            self.owner,
            lease.epoch
        )
        .execute(&self.pool)
        .await
        .context("cannot record that the topic began again")?;
        Ok(())
    }

    /// Records the reason of a refusal, for `relay status`.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn record_refusal(&self, refusal: &str) -> anyhow::Result<()> {
        sqlx::query!(
            "UPDATE event_store.relay_cursors SET refusal = $2, refused_at = now()
             WHERE owner = $1 AND refusal IS DISTINCT FROM $2",
            self.owner,
            refusal
        )
        .execute(&self.pool)
        .await
        .context("cannot record the reason of the refusal")?;
        Ok(())
    }

    /// Stores the reasons of the stopped shards for `relay status`, and deletes those of the other
    /// shards, if the lease is still valid.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub(super) async fn store_stop_reasons(
        &self,
        lease: Lease,
        reasons: PerShard<Option<StopReason>>,
    ) -> anyhow::Result<()> {
        let shards: Vec<i16> = Shard::all().map(Shard::number).collect();
        let (texts, seconds): (Vec<Option<String>>, Vec<Option<f64>>) =
            reasons.into_iter().map(Option::unzip).unzip();
        sqlx::query!(
            "
            UPDATE event_store.relay_cursors AS c
            SET refusal = stop.reason, refused_at = now() - make_interval(secs => stop.seconds)
            FROM unnest($3::smallint[], $4::text[], $5::float8[]) AS stop (shard, reason, seconds)
            WHERE c.shard = stop.shard AND c.owner = $1 AND c.lease_epoch = $2
              AND c.refusal IS DISTINCT FROM stop.reason
            ",
            self.owner,
            lease.epoch,
            &shards,
            &texts as &[Option<String>],
            &seconds as &[Option<f64>]
        )
        .execute(&self.pool)
        .await
        .context("cannot store why shards are stopped")?;
        Ok(())
    }

    /// Ends the lease at once: another process need not wait for the expiry.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn release(&self, lease: Lease) -> anyhow::Result<()> {
        sqlx::query!(
            "
            UPDATE event_store.relay_cursors AS c
            SET lease_expires_at = now()
            FROM (SELECT shard FROM event_store.relay_cursors
                  WHERE owner = $1 AND lease_epoch = $2
                  ORDER BY shard FOR NO KEY UPDATE) AS leased
            WHERE c.shard = leased.shard
            ",
            self.owner,
            lease.epoch
        )
        .execute(&self.pool)
        .await
        .context("cannot release the lease")?;
        Ok(())
    }
}

fn columns(positions: &[AcknowledgedPosition]) -> (Vec<i16>, Vec<Option<i64>>) {
    positions
        .iter()
        .map(|published| (published.shard.number(), published.offset))
        .unzip()
}
