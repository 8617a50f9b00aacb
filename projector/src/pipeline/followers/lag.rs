//! Compares the followers with the log: their lag, and whether the log still has what they have applied.

use std::time::Duration;

use anyhow::Context as _;
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    projection::Projection,
    shard::Shard,
};
use linkledger_event_store::log::{self, EventPlace, ReadFrom};
use linkledger_service::metrics::{
    PARKED_ACCOUNTS, PROJECTION_LAG_EVENTS, PROJECTION_LAG_SECONDS, PROJECTION_PAUSED,
};
use tokio::time::Instant;

use super::{
    Followers,
    follower::{Follower, set_gauge},
    refusal::{Refusal, report_foreign, report_refused},
};

/// Shortest time between two reads of the end of the log.
pub const LAG_INTERVAL: Duration = Duration::from_millis(100);
/// Interval of the comparison of events: the age of the next one, and the identity of the last one.
const EVENTS_INTERVAL: Duration = Duration::from_secs(1);

impl Followers {
    /// Compares the followers with the log, once per [`LAG_INTERVAL`].
    pub(super) async fn compare_with_log(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        if now < self.lag_due_at {
            return Ok(());
        }
        let end = log::end(&self.databases.log)
            .await
            .context("cannot read the heads of the log")?;
        self.lag_due_at = now + LAG_INTERVAL;
        let former = self.log_id.replace(end.log_id);
        if former.is_some_and(|id| id != end.log_id) {
            // The address leads to another log now: it is compared when checkpoints are read again.
            self.forget_checkpoints();
        }
        if now >= self.events_due_at {
            self.check_last_events().await?;
            self.report_ages().await?;
            self.events_due_at = now + EVENTS_INTERVAL;
        }
        for shard in Shard::all() {
            match self.shards.get_mut(&shard) {
                Some(claimed) => claimed.compare_with_end(&end, now),
                None => end_gauges(shard),
            }
        }
        Ok(())
    }

    /// Refuses the followers whose last event the log has lost: the log was restored from a backup, and has grown since.
    async fn check_last_events(&mut self) -> anyhow::Result<()> {
        let last = self
            .followers()
            .filter_map(|follower| follower.last_applied);
        let last = last.map(|(event, _)| event);
        // An event that cannot be read is reported when it is read again.
        let (absent, _unreadable) = self.absent_from_log(last.collect()).await?;
        for lost in absent {
            let (shard, event_id) = (lost.shard, lost.event_id);
            let Some(claimed) = self.shards.get_mut(&shard) else {
                continue;
            };
            claimed.recent.clear();
            for follower in &mut claimed.followers {
                if let Some(checkpoint) = follower.checkpoint
                    && follower.last_applied == Some((lost, checkpoint))
                {
                    let found = format!("where the log no longer has the applied event {event_id}");
                    follower.refuse(Refusal::LostEvents {
                        projection: follower.projection,
                        shard,
                        checkpoint,
                        found,
                    });
                }
            }
        }
        Ok(())
    }

    /// Compares each new sequence of the topic with the log. Forgets a sequence that the log lacks: the log was restored
    /// from a backup, and the topic is that of the former one. Later events of the sequence need no comparison.
    pub(super) async fn confirm_recent(&mut self) -> anyhow::Result<()> {
        let shards = self.shards.values();
        let new = shards.filter(|claimed| !claimed.recent.is_confirmed);
        let places =
            new.filter_map(|claimed| Some(EventPlace::of(claimed.recent.last()?.recorded())));
        let places: Vec<EventPlace> = places.collect();
        let (absent, unreadable) = self.absent_from_log(places.clone()).await?;
        for place in &absent {
            let (event_id, position) = (place.event_id, place.position);
            report_foreign(place.shard, &format!("{event_id}, position {position}"));
        }
        for place in places {
            if let Some(claimed) = self.shards.get_mut(&place.shard) {
                claimed.recent.is_confirmed = true;
                if absent.contains(&place) || unreadable.contains(&place) {
                    claimed.recent.clear();
                }
            }
        }
        Ok(())
    }

    /// Returns the places where the log has another event or none, and those that cannot be read.
    async fn absent_from_log(
        &self,
        mut places: Vec<EventPlace>,
    ) -> anyhow::Result<(Vec<EventPlace>, Vec<EventPlace>)> {
        let mut all_absent = Vec::new();
        loop {
            let presence = log::compare(&self.databases.log, &places)
                .await
                .context("cannot compare events with the log")?;
            let Some(absent) = presence.first_absent else {
                let unreadable = presence.unreadable.into_iter().map(|(place, _)| place);
                return Ok((all_absent, unreadable.collect()));
            };
            places.retain(|place| *place != absent);
            all_absent.push(absent);
        }
    }

    /// Reports the age of the first event that each follower has not applied yet.
    async fn report_ages(&self) -> anyhow::Result<()> {
        // Nobody knows when an unreadable event was recorded.
        let readable = self.followers().filter(|it| it.unreadable_for().is_none());
        let starts = readable.filter_map(|follower| {
            let (shard, after) = (follower.shard, follower.position()?);
            Some((follower, ReadFrom { shard, after }))
        });
        let (followers, starts): (Vec<&Follower>, Vec<ReadFrom>) = starts.unzip();
        let recorded = log::recording_times_after(&self.databases.log, &starts)
            .await
            .context("cannot read when events were recorded")?;
        let now = SystemClock.now();
        for (follower, recorded_at) in followers.into_iter().zip(recorded) {
            let age = recorded_at.map_or(0.0, |at| (now - at).as_seconds_f64().max(0.0));
            follower.set_gauge(PROJECTION_LAG_SECONDS, age);
        }
        Ok(())
    }
}

/// Another process reports the shard: gauges left from a former claim must not raise an alert.
fn end_gauges(shard: Shard) {
    report_refused(shard, false);
    for projection in Projection::ALL {
        for name in [
            PROJECTION_LAG_EVENTS,
            PROJECTION_LAG_SECONDS,
            PARKED_ACCOUNTS,
            PROJECTION_PAUSED,
        ] {
            set_gauge(name, (projection, shard), 0.0);
        }
    }
}
