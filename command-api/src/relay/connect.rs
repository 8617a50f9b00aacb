//! Before and after publishing: a producer is made to a topic that has what the cursors stand for,
//! and what speaks against it is told.

use std::{sync::Arc, time::Instant};

use linkledger_core::metrics::RELAY_FAILURES_TOTAL;
use metrics::counter;

use super::{Relay, binding, publisher::EventPublisher, refusal::Refusal, topic::Cluster};

impl<P: EventPublisher> Relay<P> {
    /// Makes a producer, unless there is one, to a topic that has what the cursors stand for.
    pub(super) async fn connect(&mut self) -> anyhow::Result<()> {
        self.producer.write(&self.shards.leases()).await?;
        let publisher = Arc::clone(&self.publisher);
        let Some(connected) = self.wait_for(publisher.connect()).await? else {
            return Ok(());
        };
        let Some(cluster) = connected? else {
            return Ok(());
        };
        let bound = self.bind(&cluster).await;
        if bound.is_err() {
            self.end_producer().await?;
        }
        bound
    }

    async fn bind(&mut self, cluster: &Cluster) -> anyhow::Result<()> {
        let bindings = binding::read(&self.pool).await?;
        binding::judge(&bindings, cluster)?;
        self.shards.bind(cluster).await
    }

    /// Ends the producer, with what it still has, before the note that there is one goes.
    pub(super) async fn end_producer(&mut self) -> anyhow::Result<()> {
        let all_answered = self.publisher.close().await;
        self.producer.strike_off(all_answered).await
    }

    /// The step that has `begun` then has failed: what somebody has to mend is told once, what passes now and then.
    pub(super) async fn failed(&mut self, begun: Instant, error: &anyhow::Error) {
        counter!(RELAY_FAILURES_TOTAL).increment(1);
        let Some(refusal) = error.downcast_ref::<Refusal>() else {
            let reason = format!("{error:#}");
            self.outage.held_up(begun, self.backlog, &reason);
            return;
        };
        if self.standing.refused(refusal)
            && let Err(error) = self.shards.table.note_refusal(&refusal.to_string()).await
        {
            tracing::warn!(error = %format!("{error:#}"), "`relay status` does not show why");
        }
    }
}
