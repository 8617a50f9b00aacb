//! Followers of the log: each projection in each shard that this process has claimed.
//!
//! A follower applies the events after its position. It takes them from the recent events of the topic, and from the
//! log in Postgres where the topic lacks the next one: at the start, after a gap, behind a rebuild or a pause, and while
//! Kafka is away. That is all: where the events come from changes nothing else.
//!
//! There is no Kafka client here. A remembered checkpoint may be stale: every transaction compares it with the stored
//! one, so that what two processes apply is written once.

mod checkpoints;
mod claimed_shard;
mod follower;
mod from_log;
mod lag;
mod parked;
mod recent_events;
pub(crate) mod refusal;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use linkledger_core::{cloud_event::PublishedEvent, shard::Shard};
use linkledger_event_store::{log::EventPlace, time_limit::within};
use linkledger_service::{databases::Databases, metrics::PROJECTION_APPLY_SECONDS};
use metrics::histogram;
use tokio::time::Instant;
use uuid::Uuid;

pub use self::lag::LAG_INTERVAL;
use self::{
    claimed_shard::{ClaimedShard, Group},
    follower::Follower,
};
use crate::pipeline::{
    apply::{self, ApplyConflict, ShardBatch, log_parked},
    checkpoint::Role,
    claims::ShardReport,
    decode::BatchEvent,
    parking::Parking,
    retry,
};

/// Timeout of a cycle. A cycle is a few short statements: only a broken connection
/// takes longer.
const CYCLE_TIME_MAX: Duration = Duration::from_mins(1);
/// Maximum number of events of one cycle.
pub const CYCLE_EVENTS_MAX: usize = 4_000;
/// Maximum number of rows that the events of one cycle write, two for most events: its transactions then take far less
/// than a second, and no shard waits for the many tags of another one's links.
const CYCLE_ROWS_MAX: usize = 2 * CYCLE_EVENTS_MAX;

/// Fewest rows for which a cycle uses two parallel transactions.
const PARALLEL_ROWS_MIN: usize = 4_000;

/// Result of one transaction: the accounts that it has parked.
type ApplyResult = sqlx::Result<Result<Vec<Parking>, ApplyConflict>>;

/// The followers of this process.
pub struct Followers {
    databases: Databases,
    shards: BTreeMap<Shard, ClaimedShard>,
    /// Identity of the log when its end was read last.
    log_id: Option<Uuid>,
    checkpoints_due_at: Instant,
    lag_due_at: Instant,
    events_due_at: Instant,
}

impl Followers {
    /// Returns followers without shards.
    pub fn new(databases: Databases) -> Self {
        let now = Instant::now();
        Self {
            databases,
            shards: BTreeMap::new(),
            log_id: None,
            checkpoints_due_at: now,
            lag_due_at: now,
            events_due_at: now,
        }
    }

    /// Follows the log in these shards from now on, and in no others.
    pub fn set_shards(&mut self, shards: &BTreeSet<Shard>) {
        self.shards.retain(|shard, _| shards.contains(shard));
        for shard in shards {
            let new = || ClaimedShard::new(*shard);
            self.shards.entry(*shard).or_insert_with(new);
        }
    }

    /// Returns true if the next cycle has work without a new delivery.
    pub fn has_work(&self) -> bool {
        let has_work =
            |claimed: &ClaimedShard| !claimed.due_groups().is_empty() || claimed.is_release_due();
        self.needs_checkpoints() || self.shards.values().any(has_work)
    }

    /// Returns how many more events of the topic may be delivered before some are applied.
    pub fn room(&self) -> usize {
        let recent = self.shards.values().map(|claimed| claimed.recent.len());
        CYCLE_EVENTS_MAX.saturating_sub(recent.sum())
    }

    /// Returns the positions in each shard, to be reported with the claims.
    pub fn reports(&self) -> Vec<ShardReport> {
        let shards = self.shards.values();
        shards
            .map(|claimed| (claimed.shard, claimed.positions()))
            .collect()
    }

    /// Returns a refusal of a follower that was not returned before.
    pub fn unreported_refusal(&mut self) -> Option<anyhow::Error> {
        let shards = self.shards.values_mut();
        let mut followers = shards.flat_map(|claimed| &mut claimed.followers);
        let refusal = followers.find_map(Follower::unreported_refusal)?;
        Some(refusal.into())
    }

    fn followers(&self) -> impl Iterator<Item = &Follower> {
        self.shards.values().flat_map(|claimed| &claimed.followers)
    }

    fn forget_checkpoints(&mut self) {
        for claimed in self.shards.values_mut() {
            claimed.recent.is_confirmed = false;
            let followers = claimed.followers.iter_mut();
            followers.for_each(Follower::forget_checkpoint);
        }
    }

    /// Runs one cycle: applies the next events of every follower, in one transaction, or in two parallel transactions if
    /// there are many events.
    ///
    /// # Errors
    /// Returns an error if the database fails, or lacks a checkpoint or an event. The caller need not deliver the events
    /// again.
    pub async fn cycle(&mut self, delivered: Vec<PublishedEvent>) -> anyhow::Result<()> {
        for published in delivered {
            // Records of a lost shard may still have been in the consumer's queue.
            if let Some(claimed) = self.shards.get_mut(&published.event.shard) {
                claimed.receive(published);
            }
        }
        let result = within(CYCLE_TIME_MAX, Box::pin(self.try_cycle())).await;
        if result.is_err() {
            // The outcome of a COMMIT may be unknown.
            self.forget_checkpoints();
        }
        result
    }

    async fn try_cycle(&mut self) -> anyhow::Result<()> {
        self.read_checkpoints().await?;
        self.compare_with_log().await?;
        self.confirm_recent().await?;
        let batches = self.next_batches().await?;
        self.apply(batches).await?;
        let shards = self.shards.values_mut();
        shards.for_each(ClaimedShard::drop_applied);
        self.release_next().await;
        Ok(())
    }

    /// Returns the next events of the followers with work. Each group of followers has its share of the rows of a
    /// cycle, and what others leave of theirs.
    async fn next_batches(&mut self) -> anyhow::Result<Vec<ShardBatch>> {
        let shards = self.shards.values();
        let mut due: Vec<Group> = shards.flat_map(ClaimedShard::due_groups).collect();
        // Taken from the end: those with the fewest recent events first, those that read the log last.
        due.sort_by_key(|group| (group.recent.is_some(), Reverse(group.recent)));
        let mut room = CYCLE_ROWS_MAX;
        let mut batches = Vec::with_capacity(due.len());
        while let Some(group) = due.pop_if(|group| group.recent.is_some()) {
            let events = self.recent_events(&group, room / (due.len() + 1));
            room = room.saturating_sub(rows(&events));
            batches.push((group, events));
        }
        if !due.is_empty() {
            let share = room / due.len();
            batches.extend(self.read_log(due, share).await?);
        }
        let parked = self.parked_among(&batches).await?;
        let skipped = self.skipped_among(&batches).await?;
        let batches = batches.into_iter().map(|(group, events)| ShardBatch {
            shard: group.shard,
            checkpoints: group.checkpoints,
            events,
            parked: parked.clone(),
            skipped: skipped.clone(),
        });
        Ok(batches.collect())
    }

    fn recent_events(&self, group: &Group, rows_max: usize) -> Vec<Arc<BatchEvent>> {
        let recent = &self.shards[&group.shard].recent;
        let events = recent.after(group.epoch, group.position);
        first_rows(events.into_iter().flatten().cloned(), rows_max)
    }

    /// Applies the batches. Many events are applied in two parallel transactions with different followers, so that two
    /// database sessions work during a catch-up.
    async fn apply(&mut self, batches: Vec<ShardBatch>) -> anyhow::Result<()> {
        let (first, second) = split_in_two(batches);
        let (first_result, second_result) =
            tokio::join!(self.try_apply(&first), self.try_apply(&second));
        let handled = self.handle_outcome(first, first_result).await;
        handled.and(self.handle_outcome(second, second_result).await)
    }

    async fn try_apply(&self, batches: &[ShardBatch]) -> ApplyResult {
        if batches.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        let started_at = Instant::now();
        let result = apply::apply(&self.databases.read, batches, Role::Live).await?;
        if result.is_ok() {
            histogram!(PROJECTION_APPLY_SECONDS).record(started_at.elapsed());
        }
        Ok(result)
    }

    /// Handles the outcome of a transaction. After [`ApplyConflict::CheckpointMoved`], the batches
    /// of the other shards are retried at once, without the shards whose checkpoints have moved.
    async fn handle_outcome(
        &mut self,
        mut batches: Vec<ShardBatch>,
        mut result: ApplyResult,
    ) -> anyhow::Result<()> {
        while !batches.is_empty() {
            match result {
                Ok(Ok(parked)) => {
                    log_parked(&parked);
                    self.record_applied(&batches, &parked);
                    return Ok(());
                }
                Ok(Err(ApplyConflict::CheckpointMoved(shards))) => {
                    // The next cycle reads where they are now.
                    self.checkpoints_due_at = Instant::now();
                    batches.retain(|batch| !shards.contains(&batch.shard));
                    result = self.try_apply(&batches).await;
                }
                Ok(Err(
                    conflict @ (ApplyConflict::AccountReleased | ApplyConflict::ProjectionPaused),
                )) => {
                    tracing::debug!(
                        ?conflict,
                        "an operator changed the shard: reading the checkpoints again"
                    );
                    self.forget_checkpoints_of(&batches);
                    return Ok(());
                }
                Err(error) if retry::is_refusal(&error) || retry::is_table_fault(&error) => {
                    tracing::debug!(%error, "the database refused a batch: isolating the cause");
                    apply::isolate(&self.databases.read, &batches, Role::Live).await?;
                    self.forget_checkpoints_of(&batches);
                    return Ok(());
                }
                Err(error) => return Err(error).context("cannot apply events"),
            }
        }
        Ok(())
    }

    /// Advances the remembered checkpoints after a commit.
    fn record_applied(&mut self, batches: &[ShardBatch], parked: &[Parking]) {
        for batch in batches {
            let Some(claimed) = self.shards.get_mut(&batch.shard) else {
                continue;
            };
            let last = EventPlace::of(batch.last().recorded());
            for (projection, from) in &batch.checkpoints {
                claimed.followers[projection.index()].advance(*from, last);
            }
        }
        for parking in parked {
            if let Some(claimed) = self.shards.get_mut(&parking.account.shard) {
                claimed.followers[parking.account.projection.index()].has_parked = true;
            }
        }
    }

    /// Forgets the checkpoints of the batches, which were applied in part or not at all, or by another process: the next
    /// cycle reads them again.
    fn forget_checkpoints_of(&mut self, batches: &[ShardBatch]) {
        for batch in batches {
            let Some(claimed) = self.shards.get_mut(&batch.shard) else {
                continue;
            };
            for (projection, _) in &batch.checkpoints {
                claimed.followers[projection.index()].forget_checkpoint();
            }
        }
    }
}

/// Returns the first events: as many as write up to `rows_max` rows, and one at least.
fn first_rows(
    events: impl Iterator<Item = Arc<BatchEvent>>,
    rows_max: usize,
) -> Vec<Arc<BatchEvent>> {
    let mut rows = 0;
    let events = events.take_while(|event| {
        let is_first = rows == 0;
        rows += event.rows();
        is_first || rows <= rows_max
    });
    events.collect()
}

fn rows(events: &[Arc<BatchEvent>]) -> usize {
    events.iter().map(|event| event.rows()).sum()
}

/// Splits the batches into two parts with about the same number of rows. The second part is empty
/// if there are fewer than [`PARALLEL_ROWS_MIN`] rows.
fn split_in_two(batches: Vec<ShardBatch>) -> (Vec<ShardBatch>, Vec<ShardBatch>) {
    let all: usize = batches.iter().map(|batch| rows(&batch.events)).sum();
    if all < PARALLEL_ROWS_MIN {
        return (batches, Vec::new());
    }
    let mut rows_of_first = 0;
    batches.into_iter().partition(|batch| {
        let is_first = rows_of_first < all / 2;
        if is_first {
            rows_of_first += rows(&batch.events);
        }
        is_first
    })
}
