//! The shards that this process publishes, and how far each of them is.

use std::time::Instant;

use anyhow::Context as _;
use linkledger_core::{
    event_store::log::{self, PerShard, ReadFrom},
    fail_point,
    metrics::RELAY_POSITION,
    shard::{Position, Shard},
};
use metrics::gauge;
use sqlx::PgPool;

use super::{
    backlog,
    cursor::{Lease, LeaseTable},
};

/// By shard: the lease, if it is ours, and how far its events are acknowledged.
pub(super) struct HeldShards {
    leases: LeaseTable,
    held: PerShard<Option<Held>>,
    /// When the cursors were last stored.
    pub(super) stored_at: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    lease: Lease,
    acknowledged: Position,
    stored: Position,
}

impl HeldShards {
    /// None yet.
    pub(super) fn new(leases: LeaseTable) -> Self {
        Self {
            leases,
            held: PerShard::default(),
            stored_at: Instant::now(),
        }
    }

    /// How far each shard is that is ours.
    pub(super) fn acknowledged(&self) -> PerShard<Option<Position>> {
        self.held.map(|held| held.map(|held| held.acknowledged))
    }

    /// From where to read on: those of our shards that are not at their head.
    pub(super) fn behind(&self, heads: &PerShard<Position>) -> Vec<ReadFrom> {
        let acknowledged = self.acknowledged();
        Shard::all()
            .filter_map(|shard| {
                let after = acknowledged[shard.index()]?;
                (heads[shard.index()] > after).then_some(ReadFrom { shard, after })
            })
            .collect()
    }

    /// Notes what the broker has taken.
    pub(super) fn acknowledge(&mut self, acknowledged: &PerShard<Option<Position>>) {
        for shard in Shard::all() {
            if let (Some(held), Some(position)) =
                (&mut self.held[shard.index()], acknowledged[shard.index()])
            {
                held.acknowledged = position;
                let label = shard.to_string();
                gauge!(RELAY_POSITION, "shard" => label).set(backlog::count(position));
            }
        }
    }

    /// Renews the leases; forgets those that are lost and tells whether there were none.
    pub(super) async fn renew(&mut self) -> anyhow::Result<bool> {
        let ours = self.leases();
        let renewed = self.leases.renew(&ours).await?;
        for lease in ours.iter().filter(|lease| !renewed.contains(&lease.shard)) {
            tracing::warn!(shard = %lease.shard, "the lease of the shard is lost");
            self.held[lease.shard.index()] = None;
            backlog::is_of_another(lease.shard);
        }
        Ok(renewed.len() == ours.len())
    }

    /// Takes the leases that nobody has; with `takes_own` also those that a former life of this
    /// process has left in its name.
    pub(super) async fn acquire(
        &mut self,
        pool: &PgPool,
        log_epoch: i32,
        takes_own: bool,
    ) -> anyhow::Result<()> {
        let missing: Vec<Shard> = Shard::all()
            .filter(|shard| self.held[shard.index()].is_none())
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let acquired = self.leases.acquire(&missing, takes_own).await?;
        // Read last: a predecessor may have published until its lease was taken.
        let heads = log::heads(pool)
            .await
            .context("can't read the log's heads")?;
        for (lease, cursor) in acquired {
            if cursor.epoch != log_epoch || cursor.position > heads[lease.shard.index()] {
                anyhow::bail!(
                    "the cursor of shard {} stands at {} of epoch {}, beyond the log: the log \
                     was restored; nothing is published until an operator decides",
                    lease.shard,
                    cursor.position,
                    cursor.epoch
                );
            }
            self.held[lease.shard.index()] = Some(Held {
                lease,
                acknowledged: cursor.position,
                stored: cursor.position,
            });
        }
        Ok(())
    }

    /// Stores how far each shard is acknowledged, where the lease is still ours.
    pub(super) async fn store(&mut self) -> anyhow::Result<()> {
        let moved: Vec<(Lease, Position)> = self
            .held
            .iter()
            .flatten()
            .filter(|held| held.acknowledged > held.stored)
            .map(|held| (held.lease, held.acknowledged))
            .collect();
        if !moved.is_empty() {
            fail_point::reached("relay.before_store");
            self.leases.store(&moved).await?;
            fail_point::reached("relay.stored");
            for held in self.held.iter_mut().flatten() {
                held.stored = held.acknowledged;
            }
        }
        self.stored_at = Instant::now();
        Ok(())
    }

    /// Stores the cursors and gives the leases up.
    pub(super) async fn hand_over(&mut self) -> anyhow::Result<()> {
        self.store().await?;
        self.leases.release(&self.leases()).await
    }

    fn leases(&self) -> Vec<Lease> {
        self.held.iter().flatten().map(|held| held.lease).collect()
    }
}
