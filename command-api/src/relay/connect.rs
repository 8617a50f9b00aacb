//! Before and after publishing: a producer is made to a topic that has what the cursors stand for,
//! and what speaks against it is told.

use std::{sync::Arc, time::Instant};

use linkledger_core::metrics::RELAY_FAILURES_TOTAL;
use metrics::counter;

use super::{
    Relay, answered, binding, continuity, publisher::EventPublisher, refusal::Refusal,
    topic::Cluster,
};

impl<P: EventPublisher> Relay<P> {
    /// Makes a producer, unless there is one, to a topic that has what the cursors stand for.
    pub(super) async fn connect(&mut self) -> anyhow::Result<()> {
        let leases = self.shards.leases();
        answered("noting the producer", self.producer.write(&leases)).await?;
        let publisher = Arc::clone(&self.publisher);
        let Some(connected) = self.wait_for(publisher.connect()).await? else {
            return Ok(());
        };
        let Some(cluster) = connected? else {
            return Ok(());
        };
        let bound = self.bind(&cluster).await;
        if !matches!(bound, Ok(true)) {
            self.end_producer().await?;
        }
        bound.map(drop)
    }

    /// Compares what the cursors stand for with the topic, and what is behind them with the log.
    /// Tells whether that is done: not when publishing is paused meanwhile.
    async fn bind(&mut self, cluster: &Cluster) -> anyhow::Result<bool> {
        let bindings = answered(
            "reading what the cursors stand for",
            binding::read(&self.pool),
        )
        .await?;
        binding::judge(&bindings, cluster)?;
        let spans = binding::behind(&bindings, &self.shards.leases(), cluster);
        if !spans.is_empty() {
            let from = Arc::clone(&self.publisher);
            let Some(records) = self.wait_for(from.read_back(&spans)).await? else {
                return Ok(false);
            };
            let records = records?;
            let judging = continuity::judge_records(&self.pool, &records);
            if let Some(refusal) = answered("comparing records with the log", judging).await? {
                return Err(refusal.into());
            }
        }
        answered(
            "noting what the cursors stand for",
            self.shards.bind(cluster),
        )
        .await?;
        Ok(true)
    }

    /// Ends the producer, with what it still has, before the note that there is one goes.
    pub(super) async fn end_producer(&mut self) -> anyhow::Result<()> {
        let all_answered = self.publisher.close().await;
        answered(
            "striking the producer off",
            self.producer.strike_off(all_answered),
        )
        .await
    }

    /// The step that has `begun` then has failed: what somebody has to mend is told once, what passes now and then.
    pub(super) async fn failed(&mut self, begun: Instant, error: &anyhow::Error) {
        counter!(RELAY_FAILURES_TOTAL).increment(1);
        let Some(refusal) = error.downcast_ref::<Refusal>() else {
            let reason = format!("{error:#}");
            self.outage.held_up(begun, self.backlog, &reason);
            return;
        };
        if !self.standing.refused(refusal) {
            return;
        }
        let reason = refusal.to_string();
        if let Err(error) = answered(
            "noting the refusal",
            self.shards.table.note_refusal(&reason),
        )
        .await
        {
            tracing::warn!(error = %format!("{error:#}"), "`relay status` does not show why");
        }
    }
}
