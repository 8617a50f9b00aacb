//! Reads and publishes events of the log under the lease, and records what the broker has acknowledged. The topic is
//! compared with the cursors before a producer is used, and failures are logged.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use linkledger_core::{cloud_event::PublishedEvent, envelope::RecordedEvent, shard::Shard};
use linkledger_event_store::{
    errors::is_of_stored_data,
    log::{self, ReadFrom},
};
use linkledger_service::metrics::RELAY_FAILURES_TOTAL;
use metrics::counter;

use super::{
    RENEW_INTERVAL, Relay, SHARD_EVENTS_MAX, answered, cursor,
    lease::{Lease, Renewal},
    log_divergence,
    publisher::Published,
    refusal::RelayRefusal,
    topic::Topic,
    topic_identity,
};

/// Time without an acknowledgement after which the outage is logged; the relay goes on waiting.
const SILENCE_MAX: Duration = Duration::from_secs(3);

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
        topic_identity::check(&cursors, topic)?;
        let spans = topic_identity::spans_after_cursors(&cursors, topic);
        if !spans.is_empty() {
            let (from, key) = (Arc::clone(&self.publisher), self.record_key().await?);
            let Some(found) = self.wait_for(from.read_back(&spans, &key)).await? else {
                return Ok(false);
            };
            let found = found?;
            answered(log_divergence::check_records(&self.pool, &found.records)).await?;
            topic_identity::check_foreign(&cursors, topic, &found)?;
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
            self.outage.stalled(begun, self.backlog, &reason);
            return;
        };
        if !self.refusal_log.log_refusal(refusal) {
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

    /// Publishes events in order, and stops the shards of refused records.
    pub(super) async fn publish(&mut self, events: &[PublishedEvent]) -> anyhow::Result<()> {
        let to = Arc::clone(&self.publisher);
        let published = match self.wait_for(to.publish(events)).await {
            Ok(Some(published)) => published,
            // Records in flight may still arrive: as repetitions of earlier records.
            given_up => {
                self.end_producer().await?;
                return given_up.map(drop);
            }
        };
        self.record_acknowledged(&published, events).await?;
        self.stopped.forget_backoffs(&published);
        for (shard, refused) in Shard::all().zip(published.refused) {
            if let Some(refused) = refused {
                counter!(RELAY_FAILURES_TOTAL).increment(1);
                let error = format!("{refused:#}");
                tracing::warn!(%shard, error, "stopping the shard; retrying record by record");
                let retries_to = Arc::clone(&self.publisher).for_retries();
                self.stopped.stop(shard, retries_to);
            }
        }
        match published.failure {
            None => Ok(()),
            Some(error) => Err(error.context("the broker did not acknowledge every record")),
        }
    }

    /// Records which of the events are acknowledged, after a check that the topic was not created
    /// anew meanwhile.
    async fn record_acknowledged(
        &mut self,
        published: &Published,
        events: &[PublishedEvent],
    ) -> anyhow::Result<()> {
        if let Some(lease) = self.shards.lease
            && let Some(shard) = self.shards.began_again(published)
        {
            answered(self.shards.table.record_topic_lost(lease, shard)).await?;
            self.end_producer().await?;
            return Err(RelayRefusal::began_again(shard).into());
        }
        self.shards.acknowledge(published, events);
        Ok(())
    }

    /// Records the results of the ended retries of stopped shards.
    pub(super) async fn handle_ended_retries(&mut self) -> anyhow::Result<()> {
        for retry in self.stopped.ended_retries() {
            self.record_acknowledged(&retry.published, &retry.events)
                .await?;
            self.stopped.handle_outcome(retry);
        }
        self.stopped.log_unanswered_retries(SILENCE_MAX);
        Ok(())
    }

    /// Stores why shards are stopped, if that has changed, for `relay status`.
    pub(super) async fn store_stop_reasons(&mut self, lease: Lease) -> anyhow::Result<()> {
        if let Some(reasons) = self.stopped.changed_reasons() {
            answered(self.shards.table.store_stop_reasons(lease, reasons)).await?;
            self.stopped.record_stored(true);
        }
        Ok(())
    }

    /// Reads the events of each shard by a statement of its own, and stops the shards whose next event
    /// cannot be read.
    pub(super) async fn read_each(
        &mut self,
        places: &[ReadFrom],
    ) -> anyhow::Result<Vec<RecordedEvent>> {
        let mut events = Vec::new();
        for place in places {
            let reading = log::read_readable_after(&self.pool, *place, SHARD_EVENTS_MAX);
            match answered(reading).await {
                Ok(read) => events.extend(read),
                Err(error) if is_of_stored_data(&error) => {
                    let ReadFrom { shard, after } = *place;
                    self.stop_unreadable(
                        shard,
                        &format!("the event after position {after}"),
                        error.into(),
                    );
                }
                Err(error) => return Err(anyhow::Error::new(error).context("cannot read the log")),
            }
        }
        Ok(events)
    }

    /// Stops a shard whose `event` cannot be read.
    pub(super) fn stop_unreadable(&mut self, shard: Shard, event: &str, error: anyhow::Error) {
        let error = error.context(format!(
            "{event} of shard {shard} cannot be read: the log is damaged, run `command-api log verify`"
        ));
        let retries_to = Arc::clone(&self.publisher).for_retries();
        self.stopped.stop(shard, retries_to);
        self.stopped.record_failure(shard, &error);
    }

    /// Waits for the broker, and renews the lease meanwhile. Returns `None` if publishing is paused
    /// meanwhile.
    ///
    /// # Errors
    /// Returns an error if the lease is lost, the producer may wait for ever, or the database fails.
    pub(super) async fn wait_for<T>(
        &mut self,
        answer: impl Future<Output = T>,
    ) -> anyhow::Result<Option<T>> {
        let begun = Instant::now();
        let mut answer = pin!(answer);
        loop {
            tokio::select! {
                answer = &mut answer => return Ok(Some(answer)),
                () = tokio::time::sleep(RENEW_INTERVAL) => {}
            }
            if let Some(stuck) = self.take_stuck() {
                anyhow::bail!(stuck);
            }
            match answered(self.shards.renew()).await? {
                Renewal::Kept => {}
                Renewal::Paused => return Ok(None),
                Renewal::Lost => {
                    anyhow::bail!("the lease was lost while the relay waited for the broker")
                }
            }
            self.backlog = self.measure().await?;
            if begun.elapsed() >= SILENCE_MAX {
                let reason = self.publisher.trouble();
                self.outage.stalled(begun, self.backlog, &reason);
            }
        }
    }
}
