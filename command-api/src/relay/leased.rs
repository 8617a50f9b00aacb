//! Leased shards: the lease of this process, and the progress of each shard under the lease.

use std::time::Instant;

use linkledger_core::{
    cloud_event::PublishedEvent,
    event_store::log::{self, EventPlace, PerShard, ReadFrom},
    fail_point,
    metrics::RELAY_POSITION,
    shard::{Position, Shard},
};
use metrics::gauge;
use sqlx::PgPool;

use super::{
    backlog, continuity,
    cursor::{AcknowledgedPosition, Cursor, Lease, LeaseTable, Renewal},
    publisher::Published,
    topic::Cluster,
};

/// Lease, if the process has the lease, and the progress of each shard.
pub(super) struct LeasedShards {
    pub(super) table: LeaseTable,
    lease: Option<Lease>,
    /// By [`Shard::index`]; empty without a lease.
    shards: Vec<LeasedShard>,
    /// Time of the last store of the cursors.
    pub(super) stored_at: Instant,
}

#[derive(Debug, Clone, Copy)]
struct LeasedShard {
    acknowledged: AcknowledgedPosition,
    /// Epoch of the log of the positions.
    epoch: i32,
    /// Position of the stored cursor.
    stored: Position,
    /// Last event published by this process.
    last: Option<EventPlace>,
}

impl LeasedShard {
    fn new(
        Cursor {
            acknowledged,
            epoch,
        }: Cursor,
    ) -> Self {
        Self {
            acknowledged,
            epoch,
            stored: acknowledged.position,
            last: None,
        }
    }

    fn shard(&self) -> Shard {
        self.acknowledged.shard
    }

    fn is_beyond(&self, end: &log::LogEnd) -> bool {
        self.acknowledged.position > end.heads[self.shard().index()]
    }
}

impl LeasedShards {
    /// Returns an empty set: no lease is acquired yet.
    pub(super) fn new(table: LeaseTable) -> Self {
        Self {
            table,
            lease: None,
            shards: Vec::new(),
            stored_at: Instant::now(),
        }
    }

    /// Returns the lease, if the process has the lease.
    pub(super) fn lease(&self) -> Option<Lease> {
        self.lease
    }

    /// Returns the acknowledged position of each leased shard.
    pub(super) fn acknowledged(&self) -> Vec<ReadFrom> {
        self.shards
            .iter()
            .map(|leased| ReadFrom {
                shard: leased.shard(),
                after: leased.acknowledged.position,
            })
            .collect()
    }

    /// Returns the acknowledged position of each leased shard with unpublished events.
    pub(super) fn behind(&self, heads: &PerShard<Position>) -> Vec<ReadFrom> {
        let mut behind = self.acknowledged();
        behind.retain(|from| heads[from.shard.index()] > from.after);
        behind
    }

    /// Returns the last published event of each shard.
    pub(super) fn last(&self) -> Vec<EventPlace> {
        self.shards
            .iter()
            .filter_map(|leased| leased.last)
            .collect()
    }

    /// Records the acknowledged events of `events`.
    pub(super) fn acknowledge(&mut self, published: &Published, events: &[PublishedEvent]) {
        for leased in &mut self.shards {
            let index = leased.shard().index();
            let Some(position) = published.acknowledged[index] else {
                continue;
            };
            let highest = published.offsets[index].map(|(_, highest)| highest);
            leased.acknowledged.position = position;
            leased.acknowledged.offset = highest.or(leased.acknowledged.offset);
            show(&leased.acknowledged);
            let mut events = events.iter().map(|published| &published.event);
            let last =
                events.find(|event| (event.shard, event.position) == (leased.shard(), position));
            leased.last = last.map(EventPlace::of).or(leased.last);
        }
    }

    /// Returns a shard whose new records got offsets of earlier records.
    pub(super) fn began_again(&self, published: &Published) -> Option<Shard> {
        let began_again = |leased: &&LeasedShard| {
            let lowest = published.offsets[leased.shard().index()].map(|(lowest, _)| lowest);
            let before = leased.acknowledged.offset.zip(lowest);
            before.is_some_and(|(before, lowest)| lowest <= before)
        };
        self.shards.iter().find(began_again).map(LeasedShard::shard)
    }

    /// Returns true if the log has every published event, in the same epoch.
    pub(super) fn are_of(&self, end: &log::LogEnd) -> bool {
        let mut shards = self.shards.iter();
        shards.all(|leased| leased.epoch == end.epoch && !leased.is_beyond(end))
    }

    /// Gives the lease up and records the loss, if the log lacks published events or has another
    /// epoch. From then on only the database knows how far each shard is published.
    pub(super) async fn leave_unless_of(
        &mut self,
        end: &log::LogEnd,
        pool: &PgPool,
    ) -> anyhow::Result<()> {
        if self.are_of(end) {
            return Ok(());
        }
        let shards = self.shards.iter();
        let lost: Vec<Shard> = shards
            .filter(|leased| leased.epoch == end.epoch && leased.is_beyond(end))
            .map(LeasedShard::shard)
            .collect();
        continuity::record_lost(pool, &lost, end.epoch).await?;
        if let Some(lease) = self.lease {
            self.table.release(lease).await?;
        }
        self.forget();
        Ok(())
    }

    /// Renews the lease, and forgets the shards if the lease is lost or was given up.
    pub(super) async fn renew(&mut self) -> anyhow::Result<Renewal> {
        let Some(lease) = self.lease else {
            return Ok(Renewal::Kept);
        };
        let renewal = self.table.renew(lease).await?;
        match renewal {
            Renewal::Kept => return Ok(renewal),
            // With stored cursors, the next relay repeats no record.
            Renewal::Paused => self.store().await?,
            Renewal::Lost => tracing::warn!("the lease of the relay is lost"),
        }
        self.forget();
        Ok(renewal)
    }

    /// Acquires the lease as [`LeaseTable::acquire`] does, unless this process has the lease.
    /// Returns true if the lease was acquired.
    pub(super) async fn acquire(&mut self, takes_own: bool) -> anyhow::Result<bool> {
        if self.lease.is_some() {
            return Ok(false);
        }
        let Some((lease, cursors)) = self.table.acquire(takes_own).await? else {
            return Ok(false);
        };
        self.lease = Some(lease);
        self.shards = cursors.into_iter().map(LeasedShard::new).collect();
        for leased in &self.shards {
            show(&leased.acknowledged);
        }
        Ok(true)
    }

    /// Stores the cluster of the published records. A shard without a known record gets the
    /// offset of the topic's last record: without an offset, a topic that begins again could not
    /// be recognised.
    pub(super) async fn bind(&mut self, lease: Lease, cluster: &Cluster) -> anyhow::Result<()> {
        let watermarks = cluster.topic.as_ref().map(|topic| &topic.watermarks);
        for leased in &mut self.shards {
            let watermarks = watermarks.and_then(|all| all.get(leased.shard().index()));
            let last = watermarks.map(|partition| partition.high - 1);
            let last = last.filter(|offset| *offset >= 0);
            leased.acknowledged.offset = leased.acknowledged.offset.or(last);
        }
        let shards = self.shards.iter();
        let published: Vec<_> = shards.map(|leased| leased.acknowledged).collect();
        self.table
            .bind(lease, &published, cluster.id.as_deref())
            .await
    }

    /// Stores the acknowledged positions, if the lease is still valid.
    pub(super) async fn store(&mut self) -> anyhow::Result<()> {
        let shards = self.shards.iter();
        let moved: Vec<_> = shards
            .filter(|leased| leased.acknowledged.position > leased.stored)
            .map(|leased| leased.acknowledged)
            .collect();
        if let Some(lease) = self.lease
            && !moved.is_empty()
        {
            fail_point::reached("relay.before_store");
            self.table.store(lease, &moved).await?;
            fail_point::reached("relay.stored");
            for leased in &mut self.shards {
                leased.stored = leased.acknowledged.position;
            }
        }
        self.stored_at = Instant::now();
        Ok(())
    }

    /// Stores the cursors and releases the lease.
    pub(super) async fn hand_over(&mut self) -> anyhow::Result<()> {
        self.store().await?;
        match self.lease {
            Some(lease) => self.table.release(lease).await,
            None => Ok(()),
        }
    }

    fn forget(&mut self) {
        self.lease = None;
        for leased in self.shards.drain(..) {
            backlog::clear(leased.shard());
        }
    }
}

fn show(acknowledged: &AcknowledgedPosition) {
    let AcknowledgedPosition {
        shard, position, ..
    } = *acknowledged;
    gauge!(RELAY_POSITION, "shard" => shard.to_string()).set(backlog::count(position));
}
