//! Reads and publishes events of the log under the lease, and records what the broker has acknowledged.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use linkledger_core::{
    cloud_event::PublishedEvent,
    envelope::RecordedEvent,
    event_store::{
        errors::is_of_stored_data,
        log::{self, ReadFrom},
    },
    metrics::RELAY_FAILURES_TOTAL,
    shard::Shard,
};
use metrics::counter;

use super::{
    RENEW_INTERVAL, Relay, SHARD_EVENTS_MAX, answered,
    lease::{Lease, Renewal},
    publisher::Published,
    refusal::RelayRefusal,
};

/// Time without an acknowledgement after which the outage is logged; the relay goes on waiting.
const SILENCE_MAX: Duration = Duration::from_secs(3);

impl Relay {
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
        if let Some(lease) = self.shards.lease()
            && let Some(shard) = self.shards.began_again(published)
        {
            answered(self.shards.table.record_topic_lost(lease, shard)).await?;
            self.end_producer().await?;
            return Err(RelayRefusal::BeganAgain { shard }.into());
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
            answered(self.shards.table.store_stop_reasons(lease, &reasons)).await?;
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
                let trouble = self.publisher.trouble();
                let reason = trouble.as_deref();
                let reason = reason.unwrap_or("the broker acknowledges nothing");
                self.outage.held_up(begun, self.backlog, reason);
            }
        }
    }
}
