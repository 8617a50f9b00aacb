//! Begin and end of a producer: the topic is compared with the cursors before a producer is used,
//! and failures are logged.

use std::{sync::Arc, time::Instant};

use linkledger_core::metrics::RELAY_FAILURES_TOTAL;
use metrics::counter;

use super::{
    Relay, answered, binding, continuity, cursor, lease::Lease, refusal::RelayRefusal, topic::Topic,
};

impl Relay {
    /// Ends a producer that may wait for ever. Makes a producer, unless there is one, after the topic was compared
    /// with the cursors.
    pub(super) async fn connect(&mut self, lease: Lease) -> anyhow::Result<()> {
        if let Some(stuck) = self.take_stuck() {
            tracing::warn!("{stuck}");
            self.end_producer().await?;
        }
        answered(self.producer.register(lease)).await?;
        let publisher = Arc::clone(&self.publisher);
        let connected = match self.wait_for(publisher.connect()).await {
            Ok(Some(connected)) => connected,
            Ok(None) => return Ok(()),
            // Producers of stopped shards may wait for ever too.
            Err(error) => {
                self.end_producer().await?;
                return Err(error);
            }
        };
        let Some(topic) = connected? else {
            return Ok(());
        };
        let bound = self.bind(lease, &topic).await;
        if !matches!(bound, Ok(true)) {
            self.end_producer().await?;
        }
        bound.map(drop)
    }

    /// Returns, once, the reason why a producer may wait for ever: the wall clock was set back, or the producer
    /// has lost its brokers.
    pub(super) fn take_stuck(&mut self) -> Option<String> {
        if let Some(set_back) = self.wall_clock.set_back() {
            return Some(set_back);
        }
        let lost = self.publisher.take_lost_brokers();
        let lost = lost.or_else(|| self.stopped.take_lost_brokers());
        lost.map(str::to_owned)
    }

    /// Compares the cursors with the topic, and the records after the cursors with the log.
    /// Returns false if publishing was paused meanwhile.
    async fn bind(&mut self, lease: Lease, topic: &Topic) -> anyhow::Result<bool> {
        let cursors = answered(cursor::read(&self.pool)).await?;
        binding::check(&cursors, topic)?;
        let spans = binding::spans_after_cursors(&cursors, topic);
        if !spans.is_empty() {
            let (from, key) = (Arc::clone(&self.publisher), self.record_key().await?);
            let Some(found) = self.wait_for(from.read_back(&spans, &key)).await? else {
                return Ok(false);
            };
            let found = found?;
            answered(continuity::judge_records(&self.pool, &found.records)).await?;
            binding::check_foreign(&cursors, topic, &found)?;
        }
        answered(self.shards.bind(lease, topic)).await?;
        // The binding has deleted all stored reasons.
        self.stopped.record_stored(false);
        Ok(true)
    }

    /// Closes all producers, and then ends their registration.
    pub(super) async fn end_producer(&mut self) -> anyhow::Result<()> {
        self.stopped.close().await;
        let all_answered = self.publisher.close().await;
        let all_answered = self.stopped.take_all_answered() && all_answered;
        answered(self.producer.end(all_answered)).await
    }

    /// Logs the failure of the step that began at `begun`: a refusal once, an outage now and then.
    pub(super) async fn failed(&mut self, begun: Instant, error: &anyhow::Error) {
        counter!(RELAY_FAILURES_TOTAL).increment(1);
        let Some(refusal) = error.downcast_ref::<RelayRefusal>() else {
            let reason = format!("{error:#}");
            self.outage.held_up(begun, self.backlog, &reason);
            return;
        };
        if !self.announcements.announce_refusal(refusal) {
            return;
        }
        let reason = refusal.to_string();
        if let Err(error) = answered(self.shards.table.record_refusal(&reason)).await {
            tracing::warn!(
                error = %format!("{error:#}"),
                "cannot store the refusal: `relay status` does not show its reason"
            );
        }
    }
}
