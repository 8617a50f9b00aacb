//! Begin and end of a producer: the topic is compared with the cursors before a producer is used,
//! and failures are logged.

use std::{sync::Arc, time::Instant};

use linkledger_core::metrics::RELAY_FAILURES_TOTAL;
use metrics::counter;

use super::{
    Relay, answered, binding, continuity, cursor::Lease, publisher::EventPublisher,
    refusal::RelayRefusal, topic::Cluster,
};

impl<P: EventPublisher> Relay<P> {
    /// Makes a producer, unless there is one, after the topic was compared with the cursors.
    pub(super) async fn connect(&mut self, lease: Lease) -> anyhow::Result<()> {
        answered(
            "cannot register the producer",
            self.producer.register(lease),
        )
        .await?;
        let publisher = Arc::clone(&self.publisher);
        let Some(connected) = self.wait_for(publisher.connect()).await? else {
            return Ok(());
        };
        let Some(cluster) = connected? else {
            return Ok(());
        };
        let bound = self.bind(lease, &cluster).await;
        if !matches!(bound, Ok(true)) {
            self.end_producer().await?;
        }
        bound.map(drop)
    }

    /// Compares the cursors with the topic, and the records behind the cursors with the log.
    /// Returns false if publishing was paused meanwhile.
    async fn bind(&mut self, lease: Lease, cluster: &Cluster) -> anyhow::Result<bool> {
        let bindings = binding::read(&self.pool);
        let bindings = answered("cannot read the bindings of the cursors", bindings).await?;
        binding::judge(&bindings, cluster)?;
        let spans = binding::behind(&bindings, cluster);
        if !spans.is_empty() {
            let from = Arc::clone(&self.publisher);
            let Some(records) = self.wait_for(from.read_back(&spans)).await? else {
                return Ok(false);
            };
            let records = records?;
            let judging = continuity::judge_records(&self.pool, &records);
            if let Some(refusal) = answered("cannot compare records with the log", judging).await? {
                return Err(refusal.into());
            }
        }
        answered("cannot bind the cursors", self.shards.bind(lease, cluster)).await?;
        Ok(true)
    }

    /// Closes the producer, and then ends its registration.
    pub(super) async fn end_producer(&mut self) -> anyhow::Result<()> {
        let all_answered = self.publisher.close().await;
        let ending = self.producer.end(all_answered);
        answered("cannot end the registration of the producer", ending).await
    }

    /// Logs the failure of the step that began at `begun`: a refusal once, an outage now and then.
    pub(super) async fn failed(&mut self, begun: Instant, error: &anyhow::Error) {
        counter!(RELAY_FAILURES_TOTAL).increment(1);
        let Some(refusal) = error.downcast_ref::<RelayRefusal>() else {
            let reason = format!("{error:#}");
            self.outage.held_up(begun, self.backlog, &reason);
            return;
        };
        if !self.announcements.refused(refusal) {
            return;
        }
        let reason = refusal.to_string();
        let recording = self.shards.table.record_refusal(&reason);
        if let Err(error) = answered("cannot record the refusal", recording).await {
            tracing::warn!(
                error = %format!("{error:#}"),
                "`relay status` does not show the reason of the refusal"
            );
        }
    }
}
