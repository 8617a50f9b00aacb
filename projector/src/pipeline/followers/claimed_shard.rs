//! A shard that this process has claimed: its followers, and what the topic has delivered to them.

use std::{collections::BTreeMap, mem, time::Duration};

use linkledger_core::{
    cloud_event::PublishedEvent,
    projection::{PerProjection, Projection},
    shard::{Position, Shard},
};
use linkledger_event_store::log::{LogEnd, ReadFrom};
use linkledger_service::metrics::{
    CATCH_UPS_TOTAL, GAPS_REPAIRED_TOTAL, PROJECTION_LAG_EVENTS, PROJECTION_LAG_SECONDS,
    PROJECTION_POSITION, RECORDS_RECEIVED_TOTAL,
};
use metrics::counter;
use tokio::time::Instant;

use super::{
    follower::Follower,
    parked::ReleaseAttempt,
    recent_events::{Continuation, RecentEvents},
    refusal::{Refusal, report_foreign, report_refused},
};
use crate::pipeline::checkpoint::Checkpoint;

/// Time for the topic to deliver an event of the log.
const TOPIC_DELAY_MAX: Duration = Duration::from_millis(300);

pub(super) struct ClaimedShard {
    pub(super) shard: Shard,
    pub(super) followers: PerProjection<Follower>,
    pub(super) recent: RecentEvents,
    topic_delay: TopicDelay,
    /// Number of records since the last report.
    received: u64,
    /// Followers below this position read the log, if their next event is not among the recent ones.
    pub(super) read_until: Position,
    /// Next automatic release of a parked account; `None` once every parked account was tried.
    ///
    /// Each claim begins with an attempt, because an upgraded program may decode an event that the previous release
    /// could not decode.
    pub(super) next_release: Option<ReleaseAttempt>,
}

/// Followers of a shard at the same place of the log: they apply the same events.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) shard: Shard,
    pub(super) epoch: i32,
    pub(super) position: Position,
    pub(super) checkpoints: Vec<(Projection, Checkpoint)>,
    /// Number of the next events that were delivered; `None` if the log has to be read.
    pub(super) recent: Option<usize>,
}

impl Group {
    /// Returns the place after which the next events are read.
    pub(super) fn start(&self) -> ReadFrom {
        ReadFrom {
            shard: self.shard,
            after: self.position,
        }
    }
}

impl ClaimedShard {
    pub(super) fn new(shard: Shard) -> Self {
        Self {
            shard,
            followers: Projection::ALL.map(|projection| Follower::new(projection, shard)),
            recent: RecentEvents::default(),
            topic_delay: TopicDelay::default(),
            received: 0,
            read_until: 0,
            next_release: None,
        }
    }

    /// Takes an event of the topic.
    pub(super) fn receive(&mut self, published: PublishedEvent) {
        let (shard, position) = (self.shard, published.event.position);
        self.received += 1;
        let needs = |follower: &Follower| {
            let active = follower.active();
            follower.needs_checkpoint() || active.is_some_and(|it| it.position < position)
        };
        let is_needed = self.followers.iter().any(needs);
        match self.recent.push(published) {
            Continuation::Next if is_needed => self.topic_delay.end(),
            Continuation::Next | Continuation::Repeated => return,
            Continuation::Gap(gap) => {
                counter!(GAPS_REPAIRED_TOTAL, "shard" => shard.to_string()).increment(1);
                let (from, to) = (gap.start(), gap.end());
                tracing::warn!(%shard, from, to, "the topic lacks events: reading the log instead");
            }
        }
        self.read_until = self.read_until.max(position);
    }

    /// Returns the followers with work.
    pub(super) fn due_groups(&self) -> Vec<Group> {
        let mut groups: BTreeMap<(i32, Position), Vec<(Projection, Checkpoint)>> = BTreeMap::new();
        for follower in &self.followers {
            if let Some(checkpoint) = follower.active() {
                let place = (checkpoint.epoch, checkpoint.position);
                let group = groups.entry(place).or_default();
                group.push((follower.projection, checkpoint));
            }
        }
        let groups = groups.into_iter();
        let due = groups.filter_map(|((epoch, position), checkpoints)| {
            let recent = self.recent.after(epoch, position).map(|it| it.len());
            (recent.is_some() || position < self.read_until).then_some(Group {
                shard: self.shard,
                epoch,
                position,
                checkpoints,
                recent,
            })
        });
        due.collect()
    }

    /// Forgets the recent events that no follower needs any more. A follower below them reads the log.
    pub(super) fn drop_applied(&mut self) {
        let Some(first) = self.recent.first() else {
            return;
        };
        if self.followers.iter().any(Follower::needs_checkpoint) {
            return;
        }
        let active = self.followers.iter().filter_map(Follower::active);
        let positions = active.map(|checkpoint| checkpoint.position);
        let lowest = positions.filter(|position| *position >= first - 1).min();
        self.recent.drop_until(lowest.unwrap_or(Position::MAX));
    }

    /// The log ends at `end`: it lacks all that the topic has delivered beyond, because it was restored from a backup.
    pub(super) fn end_at(&mut self, end: Position) {
        self.read_until = end;
        if let Some((_, delivered)) = self.recent.end().filter(|(_, it)| *it > end) {
            report_foreign(self.shard, &format!("position {delivered}"));
            self.recent.clear();
        }
    }

    /// Compares the followers with the end of the log: reports their lag, refuses those beyond the end, and lets those
    /// read the log for which the topic is late.
    pub(super) fn compare_with_end(&mut self, end: &LogEnd, now: Instant) {
        let received = mem::take(&mut self.received);
        counter!(RECORDS_RECEIVED_TOTAL, "shard" => self.shard.to_string()).increment(received);
        let head = end.heads[self.shard.index()];
        match self.recent.end() {
            Some((epoch, position)) if epoch > end.epoch => {
                report_foreign(self.shard, &format!("epoch {epoch}, position {position}"));
                self.recent.clear();
            }
            Some((epoch, _)) if epoch < end.epoch => self.recent.clear(),
            _ => {}
        }
        for follower in &mut self.followers {
            follower.compare_with_end(end.epoch, head);
        }
        let is_refused = self.followers.iter().any(Follower::is_checkpoint_refused);
        report_refused(self.shard, is_refused);
        let Some(waiting) = self.lowest_waiting() else {
            return self.topic_delay.stop_waiting();
        };
        let was_late = self.topic_delay.is_late;
        if self.topic_delay.is_over(waiting, head, now) {
            self.read_until = head;
            if !was_late {
                counter!(CATCH_UPS_TOTAL, "shard" => self.shard.to_string()).increment(1);
            }
        }
    }

    /// Returns the lowest position of the followers that wait for the topic: they neither read the log nor have a next
    /// event.
    fn lowest_waiting(&self) -> Option<Position> {
        let active = self.followers.iter().filter_map(Follower::active);
        let waiting = active.filter(|it| {
            it.position >= self.read_until && self.recent.after(it.epoch, it.position).is_none()
        });
        waiting.map(|it| it.position).min()
    }

    /// Returns the position of each projection; `None` while its checkpoint is not loaded.
    pub(super) fn positions(&self) -> PerProjection<Option<Position>> {
        Projection::ALL.map(|projection| self.followers[projection.index()].position())
    }

    /// Returns true if the next automatic release of a parked account is due.
    pub(super) fn is_release_due(&self) -> bool {
        let is_due = self
            .next_release
            .as_ref()
            .is_some_and(ReleaseAttempt::is_due);
        is_due && self.followers.iter().any(|it| it.checkpoint.is_some())
    }
}

impl Follower {
    /// Reports the lag. Refuses the follower if its checkpoint is beyond the head.
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    fn compare_with_end(&mut self, epoch: i32, head: Position) {
        let Some(checkpoint) = self.checkpoint else {
            if let Some(unreadable_for) = self.unreadable_for() {
                self.set_gauge(PROJECTION_LAG_SECONDS, unreadable_for.as_secs_f64());
            }
            return;
        };
        if checkpoint.epoch != epoch {
            // The epoch of the log was raised after a restore.
            return self.forget_checkpoint();
        }
        let place = (self.projection, self.shard);
        if let Some(refusal) = Refusal::if_beyond_head(place, checkpoint, head) {
            return self.refuse(refusal);
        }
        let position = checkpoint.position;
        self.set_gauge(PROJECTION_POSITION, position as f64);
        self.set_gauge(PROJECTION_LAG_EVENTS, (head - position) as f64);
    }
}

/// Wait of the followers of a shard for the topic: decides when a follower stops waiting and reads the log.
///
/// The log is always ahead of the topic by the delay of the relay. The topic therefore has a moment to deliver what the
/// log has; once it was late, the log is read at once until the topic delivers again.
#[derive(Debug, Default)]
struct TopicDelay {
    /// Position of the log that a follower has not reached yet, and since when that is known.
    awaited: Option<(Position, Instant)>,
    /// True if the topic has not delivered an event in time, and none since.
    is_late: bool,
}

impl TopicDelay {
    /// Returns true if a follower at `position` has to read the log up to its `head`.
    fn is_over(&mut self, position: Position, head: Position, now: Instant) -> bool {
        let (awaited, since) = match self.awaited {
            Some((awaited, since)) if position < awaited => (awaited, since),
            _ => (head, now),
        };
        self.awaited = (position < head).then_some((awaited, since));
        let is_over = position < head && (self.is_late || now - since >= TOPIC_DELAY_MAX);
        self.is_late |= is_over;
        is_over
    }

    /// The topic delivers.
    fn end(&mut self) {
        self.is_late = false;
    }

    /// No follower waits for the topic.
    fn stop_waiting(&mut self) {
        self.awaited = None;
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn at(positions: [Position; 3]) -> ClaimedShard {
        let mut claimed = ClaimedShard::new(Shard::new(3).unwrap());
        for (follower, position) in claimed.followers.iter_mut().zip(positions) {
            follower.checkpoint = Some(Checkpoint {
                generation: 1,
                epoch: 1,
                position,
            });
        }
        claimed
    }

    fn due(claimed: &ClaimedShard) -> Vec<Position> {
        let groups = claimed.due_groups().into_iter();
        groups.map(|group| group.position).collect()
    }

    #[test]
    fn lagging_follower_delays_no_other_without_topic() {
        let (mut claimed, start) = (at([50, 10, 50]), Instant::now());
        claimed.read_until = 50;
        assert_eq!(due(&claimed), [10]);
        let mut end = LogEnd {
            log_id: Uuid::nil(),
            epoch: 1,
            heads: [0; _],
        };
        end.heads[3] = 60;
        claimed.compare_with_end(&end, start);
        assert_eq!(due(&claimed), [10]);
        claimed.compare_with_end(&end, start + Duration::from_millis(300));
        assert_eq!(due(&claimed), [10, 50]);
        // From now on the log is read at once.
        claimed.followers[0].checkpoint.as_mut().unwrap().position = 60;
        claimed.followers[2].checkpoint.as_mut().unwrap().position = 60;
        end.heads[3] = 61;
        claimed.compare_with_end(&end, start + Duration::from_millis(400));
        assert_eq!(due(&claimed), [10, 60]);
    }

    #[test]
    fn paused_and_refused_followers_wait_for_nothing() {
        let (mut claimed, start) = (at([50, 10, 50]), Instant::now());
        claimed.followers[1].is_paused = true;
        claimed.followers[0].checkpoint = None;
        claimed.followers[2].is_paused = true;
        let end = LogEnd {
            log_id: Uuid::nil(),
            epoch: 1,
            heads: [60; _],
        };
        claimed.compare_with_end(&end, start);
        claimed.compare_with_end(&end, start + Duration::from_secs(9));
        assert_eq!((due(&claimed), claimed.read_until), (vec![], 0));
    }

    fn after(milliseconds: u64, start: Instant) -> Instant {
        start + Duration::from_millis(milliseconds)
    }

    #[test]
    fn topic_has_a_moment_for_each_event() {
        let (mut delay, start) = (TopicDelay::default(), Instant::now());
        assert!(!delay.is_over(4, 5, start));
        assert!(!delay.is_over(4, 9, after(200, start)));
        // Event 5 has come, and event 9 is awaited from now on.
        assert!(!delay.is_over(5, 9, after(400, start)));
        assert!(!delay.is_over(5, 9, after(699, start)));
        assert!(delay.is_over(5, 9, after(700, start)));
    }

    #[test]
    fn log_is_read_at_once_until_topic_delivers() {
        let (mut delay, start) = (TopicDelay::default(), Instant::now());
        assert!(!delay.is_over(4, 5, start));
        assert!(delay.is_over(4, 5, after(300, start)));
        assert!(!delay.is_over(5, 5, after(400, start)));
        assert!(delay.is_over(5, 6, after(500, start)));
        delay.end();
        assert!(!delay.is_over(6, 7, after(600, start)));
    }

    #[test]
    fn follower_at_the_head_waits_for_nothing() {
        let (mut delay, start) = (TopicDelay::default(), Instant::now());
        assert!(!delay.is_over(5, 5, start));
        assert!(!delay.is_over(5, 5, after(9_000, start)));
        assert!(!delay.is_over(5, 6, after(9_001, start)));
    }
}
