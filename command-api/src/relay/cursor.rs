//! Leases and cursors of the relay: table `event_store.relay_cursors`.
//!
//! A lease has a fencing epoch that rises whenever the lease changes hands. A cursor is stored
//! only under the epoch it was read with, so a relay that was paused can't move it back.

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
    /// those that this owner had before it was restarted.
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
                WHERE shard = ANY($2)
                  AND (owner IS NULL OR (owner = $1 AND $3) OR lease_expires_at < now())
                ORDER BY shard
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS free
            WHERE c.shard = free.shard
            RETURNING c.shard, c.lease_epoch, c.position, c.epoch
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
                let shard = Shard::new(row.shard.into())?;
                let cursor = Cursor {
                    position: row.position,
                    epoch: row.epoch,
                };
                Some((
                    Lease {
                        shard,
                        epoch: row.lease_epoch,
                    },
                    cursor,
                ))
            })
            .collect())
    }

    /// Makes the leases last longer and returns the shards whose lease is still ours.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn renew(&self, leases: &[Lease]) -> anyhow::Result<Vec<Shard>> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let (shards, epochs) = columns(leases);
        let rows = sqlx::query_scalar!(
            r#"
            UPDATE event_store.relay_cursors AS c
            SET lease_expires_at = now() + interval '3 seconds'
            FROM unnest($2::smallint[], $3::bigint[]) AS held (shard, lease_epoch)
            WHERE c.shard = held.shard AND c.owner = $1 AND c.lease_epoch = held.lease_epoch
            RETURNING c.shard AS "shard!"
            "#,
            self.owner,
            &shards,
            &epochs
        )
        .fetch_all(&self.pool)
        .await
        .context("can't renew leases")?;
        Ok(rows
            .into_iter()
            .filter_map(|shard| Shard::new(shard.into()))
            .collect())
    }

    /// Moves cursors forward, where the lease is still ours; never back.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn store(&self, moved: &[(Lease, Position)]) -> anyhow::Result<()> {
        let leases: Vec<Lease> = moved.iter().map(|(lease, _)| *lease).collect();
        let positions: Vec<i64> = moved.iter().map(|(_, position)| *position).collect();
        let (shards, epochs) = columns(&leases);
        sqlx::query!(
            "
            UPDATE event_store.relay_cursors AS c
            SET position = moved.position
            FROM unnest($2::smallint[], $3::bigint[], $4::bigint[])
                AS moved (shard, lease_epoch, position)
            WHERE c.shard = moved.shard AND c.owner = $1 AND c.lease_epoch = moved.lease_epoch
              AND c.position < moved.position
            ",
            self.owner,
            &shards,
            &epochs,
            &positions
        )
        .execute(&self.pool)
        .await
        .context("can't store cursors")?;
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

/// Moves every cursor back to at most `positions`, for a broker that has lost its records.
///
/// Must run while no relay does.
///
/// # Errors
/// When the database does not answer.
pub async fn rewind(pool: &PgPool, positions: &[(Shard, Position)]) -> sqlx::Result<()> {
    let shards: Vec<i16> = positions.iter().map(|(shard, _)| shard.number()).collect();
    let positions: Vec<i64> = positions.iter().map(|(_, position)| *position).collect();
    sqlx::query!(
        "
        UPDATE event_store.relay_cursors AS c
        SET position = least(c.position, rewound.position), lease_epoch = c.lease_epoch + 1
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
