//! Leased shards: the lease of this process, and the progress of each shard under the lease.

use std::time::Instant;

use linkledger_core::{cloud_event::PublishedEvent, shard::Shard};
use linkledger_event_store::log::{self, EventPlace, PerShard, ReadFrom};
use linkledger_service::{fail_point, metrics::RELAY_POSITION};
use metrics::gauge;

use super::{
    backlog,
    lease::{AcknowledgedPosition, Lease, LeaseTable, Renewal},
    publisher::Published,
    topic::Topic,
};

/// Lease, if the process has the lease, and the progress of each shard.
pub(super) struct LeasedShards {
    pub(super) table: LeaseTable,
    /// Lease, if the process has the lease.
    pub(super) lease: Option<Lease>,
    /// Progress by [`Shard::index`]; empty without a lease.
    acknowledged: Vec<AcknowledgedPosition>,
    /// By shard: the last event of each batch that this process has published under the lease since it compared them
    /// with the log, and one before.
    published: PerShard<Vec<EventPlace>>,
    /// True if the log was found to have all of them.
    pub(super) are_compared: bool,
    /// Epoch of the log when all cursors were last found to be of the log.
    pub(super) log_epoch: Option<i32>,
    /// True if every acknowledged position is stored.
    is_stored: bool,
    /// Time of the last store of the cursors.
    pub(super) stored_at: Instant,
}

impl LeasedShards {
    /// Returns an empty set: no lease is acquired yet.
    pub(super) fn new(table: LeaseTable) -> Self {
        Self {
            table,
            lease: None,
            acknowledged: Vec::new(),
            published: PerShard::default(),
            are_compared: true,
            log_epoch: None,
            is_stored: true,
            stored_at: Instant::now(),
        }
    }

    /// Returns the acknowledged position of each leased shard.
    pub(super) fn acknowledged(&self) -> Vec<ReadFrom> {
        let from = |acknowledged: &AcknowledgedPosition| ReadFrom {
            shard: acknowledged.shard,
            after: acknowledged.position,
        };
        self.acknowledged.iter().map(from).collect()
    }

    /// Returns published events that the log must have.
    pub(super) fn published(&self) -> Vec<EventPlace> {
        self.published.iter().flatten().copied().collect()
    }

    /// Records that the log has the published events, of which the last of each shard is kept.
    pub(super) fn record_compared(&mut self) {
        for published in &mut self.published {
            published.drain(..published.len().saturating_sub(1));
        }
        self.are_compared = true;
    }

    /// Records the acknowledged events of `events`.
    pub(super) fn acknowledge(&mut self, published: &Published, events: &[PublishedEvent]) {
        for acknowledged in &mut self.acknowledged {
            let index = acknowledged.shard.index();
            let Some(position) = published.acknowledged[index] else {
                continue;
            };
            let highest = published.offsets[index].map(|(_, highest)| highest);
            acknowledged.position = position;
            acknowledged.offset = highest.or(acknowledged.offset);
            self.is_stored = false;
            set_gauge(acknowledged);
            let place = (acknowledged.shard, position);
            let mut events = events.iter().map(|published| &published.event);
            let last = events.find(|event| (event.shard, event.position) == place);
            self.published[index].extend(last.map(EventPlace::of));
            self.are_compared = false;
        }
    }

    /// Returns a shard whose new records got offsets of earlier records.
    pub(super) fn began_again(&self, published: &Published) -> Option<Shard> {
        let began_again = self.acknowledged.iter().find(|acknowledged| {
            let offsets = published.offsets[acknowledged.shard.index()];
            let before = acknowledged.offset.zip(offsets);
            before.is_some_and(|(before, (lowest, _))| lowest <= before)
        });
        began_again.map(|acknowledged| acknowledged.shard)
    }

    /// Returns true if the log is of the epoch of the cursors, and not shorter than the published
    /// events.
    pub(super) fn are_of(&self, end: &log::LogEnd) -> bool {
        let mut acknowledged = self.acknowledged.iter();
        self.log_epoch == Some(end.epoch)
            && acknowledged.all(|of| of.position <= end.heads[of.shard.index()])
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
            Renewal::Lost => tracing::warn!(
                "the lease of the relay is lost: another process has the lease, or a republish ended it; \
                 this process stops publishing"
            ),
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
        let Some((lease, acknowledged)) = self.table.acquire(takes_own).await? else {
            return Ok(false);
        };
        self.lease = Some(lease);
        self.is_stored = true;
        self.acknowledged = acknowledged;
        self.acknowledged.iter().for_each(set_gauge);
        Ok(true)
    }

    /// Stores the cluster of the published records. A shard without a known record gets the
    /// offset of the topic's last record: without an offset, a topic that begins again could not
    /// be recognised.
    pub(super) async fn bind(&mut self, lease: Lease, topic: &Topic) -> anyhow::Result<()> {
        for (acknowledged, partition) in self.acknowledged.iter_mut().zip(&topic.watermarks) {
            let last = Some(partition.high - 1).filter(|offset| *offset >= 0);
            acknowledged.offset = acknowledged.offset.or(last);
        }
        let cluster_id = topic.cluster_id.as_deref();
        self.table.bind(lease, &self.acknowledged, cluster_id).await
    }

    /// Stores the acknowledged positions, if the lease is still valid.
    pub(super) async fn store(&mut self) -> anyhow::Result<()> {
        if let Some(lease) = self.lease
            && !self.is_stored
        {
            fail_point::reached("relay.before_store");
            self.table.store(lease, &self.acknowledged).await?;
            fail_point::reached("relay.stored");
            self.is_stored = true;
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
        self.published = PerShard::default();
        self.are_compared = true;
        for acknowledged in self.acknowledged.drain(..) {
            backlog::clear(acknowledged.shard);
        }
    }
}

fn set_gauge(acknowledged: &AcknowledgedPosition) {
    let shard = acknowledged.shard.to_string();
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    let position = acknowledged.position as f64;
    gauge!(RELAY_POSITION, "shard" => shard).set(position);
}
