//! The shards that this process publishes, and how far each of them is.

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
    cursor::{Lease, LeaseTable, Reached},
    publisher::Published,
    topic::Cluster,
};

/// By shard: the lease, if it is ours, and how far its events are acknowledged.
pub(super) struct HeldShards {
    pub(super) table: LeaseTable,
    held: PerShard<Option<Held>>,
    /// When the cursors were last stored.
    pub(super) stored_at: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    lease: Lease,
    /// The epoch of the log that the positions belong to.
    epoch: i32,
    acknowledged: Reached,
    stored: Position,
    /// The last event that this process has published.
    last: Option<EventPlace>,
}

impl Held {
    fn is_beyond(&self, end: &log::LogEnd) -> bool {
        self.acknowledged.position > end.heads[self.lease.shard.index()]
    }
}

/// What has become of the leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renewal {
    /// All are still ours.
    Kept,
    /// Some are another process's.
    Lost,
    /// All were given up: an operator wants nothing to be published.
    Paused,
}

impl HeldShards {
    /// None yet.
    pub(super) fn new(leases: LeaseTable) -> Self {
        Self {
            table: leases,
            held: PerShard::default(),
            stored_at: Instant::now(),
        }
    }

    /// How far each shard is that is ours.
    pub(super) fn acknowledged(&self) -> PerShard<Option<Position>> {
        self.held
            .map(|held| held.map(|held| held.acknowledged.position))
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

    /// The last event of each shard that this process has published.
    pub(super) fn last(&self) -> Vec<EventPlace> {
        self.held
            .iter()
            .flatten()
            .filter_map(|it| it.last)
            .collect()
    }

    /// Notes what the broker has taken of these events.
    pub(super) fn acknowledge(&mut self, published: &Published, events: &[PublishedEvent]) {
        for event in events.iter().map(|it| &it.event) {
            let acknowledged = published.acknowledged[event.shard.index()];
            if let Some(held) = &mut self.held[event.shard.index()]
                && acknowledged == Some(event.position)
            {
                held.last = Some(EventPlace::of(event));
            }
        }
        for shard in Shard::all() {
            if let (Some(held), Some(position)) = (
                &mut self.held[shard.index()],
                published.acknowledged[shard.index()],
            ) {
                let highest = published.offsets[shard.index()].map(|(_, highest)| highest);
                held.acknowledged = Reached {
                    position,
                    offset: highest.or(held.acknowledged.offset),
                };
                show(shard, position);
            }
        }
    }

    /// The lease of a shard whose topic gave offsets to these records that it had given out before.
    pub(super) fn began_again(&self, published: &Published) -> Option<Lease> {
        let began_again = |held: &&Held| {
            let lowest = published.offsets[held.lease.shard.index()].map(|(lowest, _)| lowest);
            let before = held.acknowledged.offset.zip(lowest);
            before.is_some_and(|(before, lowest)| lowest <= before)
        };
        let mut held = self.held.iter().flatten();
        held.find(began_again).map(|held| held.lease)
    }

    /// Whether the log is the one that was published so far.
    pub(super) fn are_of(&self, end: &log::LogEnd) -> bool {
        let mut held = self.held.iter().flatten();
        held.all(|held| held.epoch == end.epoch && !held.is_beyond(end))
    }

    /// Gives the leases up, should the log not be the one that was published so far, and notes what
    /// it has lost: from here on only the database knows how far each shard is.
    pub(super) async fn leave_unless_of(
        &mut self,
        end: &log::LogEnd,
        pool: &PgPool,
    ) -> anyhow::Result<()> {
        if self.are_of(end) {
            return Ok(());
        }
        let held = self.held.iter().flatten();
        let lost: Vec<Shard> = held
            .filter(|held| held.epoch == end.epoch && held.is_beyond(end))
            .map(|held| held.lease.shard)
            .collect();
        continuity::note_lost(pool, &lost, end.epoch).await?;
        let leases = self.leases();
        self.table.release(&leases).await?;
        for lease in leases {
            self.held[lease.shard.index()] = None;
            backlog::is_of_another(lease.shard);
        }
        Ok(())
    }

    /// Renews the leases, and forgets those that are lost or were given up.
    pub(super) async fn renew(&mut self) -> anyhow::Result<Renewal> {
        let ours = self.leases();
        let renewed = self.table.renew(&ours).await?;
        if !renewed.paused.is_empty() {
            // So that nothing has to be repeated afterwards.
            self.store().await?;
        }
        for lease in ours.iter().filter(|it| !renewed.kept.contains(&it.shard)) {
            if !renewed.paused.contains(&lease.shard) {
                tracing::warn!(shard = %lease.shard, "the lease of the shard is lost");
            }
            self.held[lease.shard.index()] = None;
            backlog::is_of_another(lease.shard);
        }
        Ok(if !renewed.paused.is_empty() {
            Renewal::Paused
        } else if renewed.kept.len() < ours.len() {
            Renewal::Lost
        } else {
            Renewal::Kept
        })
    }

    /// Takes the leases that nobody has; with `takes_own` also those that a former life of this
    /// process has left in its name. Tells whether any was taken.
    pub(super) async fn acquire(&mut self, takes_own: bool) -> anyhow::Result<bool> {
        let missing: Vec<Shard> = Shard::all()
            .filter(|shard| self.held[shard.index()].is_none())
            .collect();
        if missing.is_empty() {
            return Ok(false);
        }
        let acquired = self.table.acquire(&missing, takes_own).await?;
        let is_any = !acquired.is_empty();
        for (lease, cursor) in acquired {
            show(lease.shard, cursor.position);
            self.held[lease.shard.index()] = Some(Held {
                lease,
                epoch: cursor.epoch,
                acknowledged: Reached {
                    position: cursor.position,
                    offset: cursor.offset,
                },
                stored: cursor.position,
                last: None,
            });
        }
        Ok(is_any)
    }

    /// Notes what the cursors refer to from here on. Where no record is known, the topic's last one
    /// stands for it: without any, a topic that begins again could not be told from one that goes
    /// on.
    pub(super) async fn bind(&mut self, cluster: &Cluster) -> anyhow::Result<()> {
        for held in self.held.iter_mut().flatten() {
            let topic = cluster.topic.as_ref();
            let watermarks = topic.and_then(|it| it.watermarks.get(held.lease.shard.index()));
            let last = watermarks.map(|it| it.high - 1).filter(|last| *last >= 0);
            held.acknowledged.offset = held.acknowledged.offset.or(last);
        }
        let held = self.held.iter().flatten();
        let held: Vec<_> = held.map(|held| (held.lease, held.acknowledged)).collect();
        self.table.bind(&held, cluster.id.as_deref()).await
    }

    /// Stores how far each shard is acknowledged, where the lease is still ours.
    pub(super) async fn store(&mut self) -> anyhow::Result<()> {
        let moved: Vec<(Lease, Reached)> = self
            .held
            .iter()
            .flatten()
            .filter(|held| held.acknowledged.position > held.stored)
            .map(|held| (held.lease, held.acknowledged))
            .collect();
        if !moved.is_empty() {
            fail_point::reached("relay.before_store");
            self.table.store(&moved).await?;
            fail_point::reached("relay.stored");
            for held in self.held.iter_mut().flatten() {
                held.stored = held.acknowledged.position;
            }
        }
        self.stored_at = Instant::now();
        Ok(())
    }

    /// Stores the cursors and gives the leases up.
    pub(super) async fn hand_over(&mut self) -> anyhow::Result<()> {
        self.store().await?;
        self.table.release(&self.leases()).await
    }

    /// Those that are ours.
    pub(super) fn leases(&self) -> Vec<Lease> {
        self.held.iter().flatten().map(|held| held.lease).collect()
    }
}

fn show(shard: Shard, acknowledged: Position) {
    gauge!(RELAY_POSITION, "shard" => shard.to_string()).set(backlog::count(acknowledged));
}
