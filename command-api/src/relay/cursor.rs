//! Leases and cursors of the relay: table `event_store.relay_cursors`. A lease has a fencing epoch
//! that rises whenever the lease changes hands. A cursor is stored only under the epoch it was read
//! with, so a relay that was paused can't move it back.

use anyhow::Context as _;
use linkledger_core::shard::{Position, Shard};
use sqlx::PgPool;

/// The right to publish a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The shard.
    pub shard: Shard,
    /// The fencing epoch.
    pub epoch: i64,
}

/// How far a shard is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Everything up to it is acknowledged.
    pub position: Position,
    /// The epoch of the log that the position belongs to.
    pub epoch: i32,
    /// Where in the topic there is a record, if that is known; new ones come behind it.
    pub offset: Option<i64>,
}

/// How far a shard is acknowledged since its cursor was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    /// Everything up to it is acknowledged.
    pub position: Position,
    /// Where in the topic there is a record, if that is known; new ones come behind it.
    pub offset: Option<i64>,
}

/// What has become of leases that were to be renewed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renewed {
    /// Still ours.
    pub kept: Vec<Shard>,
    /// Still ours, and given up because an operator wants nothing to be published.
    pub paused: Vec<Shard>,
}

/// Leases shards in the name of one owner.
#[derive(Debug, Clone)]
pub struct LeaseTable {
    pool: PgPool,
    owner: String,
}

impl LeaseTable {
    /// The leases of `owner`.
    pub fn new(pool: PgPool, owner: String) -> Self {
        Self { pool, owner }
    }

    /// Takes those of the shards that are free or whose lease has run out, and with `takes_own`
    /// those that this owner had before it was restarted; none while publishing is paused.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn acquire(
        &self,
        shards: &[Shard],
        takes_own: bool,
    ) -> anyhow::Result<Vec<(Lease, Cursor)>> {
        let shards: Vec<i16> = shards.iter().map(|shard| shard.number()).collect();
        let rows = sqlx::query!(
            "
            UPDATE event_store.relay_cursors AS c
            SET owner = $1, lease_epoch = c.lease_epoch + 1,
                lease_expires_at = now() + interval '3 seconds'
            FROM (
                SELECT shard FROM event_store.relay_cursors
                WHERE shard = ANY($2) AND paused_at IS NULL
                  AND (owner IS NULL OR (owner = $1 AND $3) OR lease_expires_at < now())
                ORDER BY shard
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS free
            WHERE c.shard = free.shard
            RETURNING c.shard, c.lease_epoch, c.position, c.epoch, c.record_offset
            ",
            self.owner,
            &shards,
            takes_own
        )
        .fetch_all(&self.pool)
        .await
        .context("can't acquire leases")?;
        Ok(rows
            .into_iter()
            .filter_map(|row| {
                let lease = Lease {
                    shard: Shard::new(row.shard.into())?,
                    epoch: row.lease_epoch,
                };
                let cursor = Cursor {
                    position: row.position,
                    epoch: row.epoch,
                    offset: row.record_offset,
                };
                Some((lease, cursor))
            })
            .collect())
    }

    /// Makes the leases last longer that are still ours, or gives them up while publishing is
    /// paused.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn renew(&self, leases: &[Lease]) -> anyhow::Result<Renewed> {
        let mut renewed = Renewed::default();
        if leases.is_empty() {
            return Ok(renewed);
        }
        let (shards, epochs) = columns(leases);
        let rows = sqlx::query!(
            r#"
            UPDATE event_store.relay_cursors AS c
            SET lease_expires_at = CASE
                    WHEN c.paused_at IS NULL THEN now() + interval '3 seconds' ELSE now() END
            FROM unnest($2::smallint[], $3::bigint[]) AS held (shard, lease_epoch)
            WHERE c.shard = held.shard AND c.owner = $1 AND c.lease_epoch = held.lease_epoch
            RETURNING c.shard, c.paused_at IS NOT NULL AS "is_paused!"
            "#,
            self.owner,
            &shards,
            &epochs
        )
        .fetch_all(&self.pool)
        .await
        .context("can't renew leases")?;
        for row in rows {
            let shards = if row.is_paused {
                &mut renewed.paused
            } else {
                &mut renewed.kept
            };
            shards.extend(Shard::new(row.shard.into()));
        }
        Ok(renewed)
    }

    /// Moves cursors forward, where the lease is still ours; never back.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn store(&self, moved: &[(Lease, Reached)]) -> anyhow::Result<()> {
        let leases: Vec<Lease> = moved.iter().map(|(lease, _)| *lease).collect();
        let positions: Vec<i64> = moved.iter().map(|(_, reached)| reached.position).collect();
        let offsets: Vec<Option<i64>> = moved.iter().map(|(_, reached)| reached.offset).collect();
        let (shards, epochs) = columns(&leases);
        sqlx::query!(
            "
            UPDATE event_store.relay_cursors AS c
            SET position = moved.position,
                record_offset = coalesce(moved.record_offset, c.record_offset)
            FROM unnest($2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[])
                AS moved (shard, lease_epoch, position, record_offset)
            WHERE c.shard = moved.shard AND c.owner = $1 AND c.lease_epoch = moved.lease_epoch
              AND c.position < moved.position
            ",
            self.owner,
            &shards,
            &epochs,
            &positions,
            &offsets as &[Option<i64>]
        )
        .execute(&self.pool)
        .await
        .context("can't store cursors")?;
        Ok(())
    }

    /// Notes that the records of these shards are in that cluster, where the last of them is in
    /// case that is not known, and that nothing is refused.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn bind(
        &self,
        held: &[(Lease, Reached)],
        cluster_id: Option<&str>,
    ) -> anyhow::Result<()> {
        let leases: Vec<Lease> = held.iter().map(|(lease, _)| *lease).collect();
        let offsets: Vec<Option<i64>> = held.iter().map(|(_, reached)| reached.offset).collect();
        let (shards, epochs) = columns(&leases);
        sqlx::query!(
            "
            UPDATE event_store.relay_cursors AS c
            SET cluster_id = coalesce($4, c.cluster_id), refusal = NULL, refused_at = NULL,
                record_offset = coalesce(c.record_offset, held.record_offset)
            FROM unnest($2::smallint[], $3::bigint[], $5::bigint[])
                AS held (shard, lease_epoch, record_offset)
            WHERE c.shard = held.shard AND c.owner = $1 AND c.lease_epoch = held.lease_epoch
              AND (c.refusal IS NOT NULL OR c.cluster_id IS DISTINCT FROM coalesce($4, c.cluster_id)
                   OR (c.record_offset IS NULL AND held.record_offset IS NOT NULL))
            ",
            self.owner,
            &shards,
            &epochs,
            cluster_id,
            &offsets as &[Option<i64>]
        )
        .execute(&self.pool)
        .await
        .context("can't note the cluster")?;
        Ok(())
    }

    /// Notes that the topic began again under the cursor of a shard, until a refill; if the lease
    /// is still ours.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn note_topic_lost(&self, lease: Lease) -> anyhow::Result<()> {
        sqlx::query!(
            "UPDATE event_store.relay_cursors SET topic_lost = true
             WHERE shard = $1 AND owner = $2 AND lease_epoch = $3",
            lease.shard.number(),
            self.owner,
            lease.epoch
        )
        .execute(&self.pool)
        .await
        .context("can't note that the topic began again")?;
        Ok(())
    }

    /// Notes why the shards of this owner are not published.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn note_refusal(&self, refusal: &str) -> anyhow::Result<()> {
        sqlx::query!(
            "UPDATE event_store.relay_cursors SET refusal = $2, refused_at = now()
             WHERE owner = $1 AND refusal IS DISTINCT FROM $2",
            self.owner,
            refusal
        )
        .execute(&self.pool)
        .await
        .context("can't note why nothing is published")?;
        Ok(())
    }

    /// Gives the leases up, so that another process need not wait until they run out.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn release(&self, leases: &[Lease]) -> anyhow::Result<()> {
        let (shards, epochs) = columns(leases);
        sqlx::query!(
            "
            UPDATE event_store.relay_cursors AS c
            SET lease_expires_at = now()
            FROM unnest($2::smallint[], $3::bigint[]) AS held (shard, lease_epoch)
            WHERE c.shard = held.shard AND c.owner = $1 AND c.lease_epoch = held.lease_epoch
            ",
            self.owner,
            &shards,
            &epochs
        )
        .execute(&self.pool)
        .await
        .context("can't release leases")?;
        Ok(())
    }
}

/// Moves every cursor back to at most `positions` and forgets which topic they referred to, for a
/// broker whose topic is known to have no more than that: the next relay takes the topic that it
/// finds.
///
/// For the local stack, whose own broker ends with all relays that could publish to it. With
/// any other broker this is the work of [`refill`](super::refill).
///
/// # Errors
/// When the database does not answer.
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

fn columns(leases: &[Lease]) -> (Vec<i16>, Vec<i64>) {
    leases
        .iter()
        .map(|lease| (lease.shard.number(), lease.epoch))
        .unzip()
}
