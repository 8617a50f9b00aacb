//! The loop of `projector run`: receive, apply, commit the hint.
//!
//! There is no batch timer: while one transaction commits, the next batch fills.

use linkledger_core::internal_listener::Readiness;
use tokio::time::{self, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::pipeline::{
    consumer::{Consumer, Decision},
    engine::{CYCLE_EVENTS_MAX, Engine, HEADS_INTERVAL},
    heartbeat::Heartbeat,
    retry::{self, Backoff},
};

/// What the loop works with.
pub struct Loop {
    /// Where events come from.
    pub consumer: Consumer,
    /// Where they go.
    pub engine: Engine,
    /// What operators hear of it.
    pub heartbeat: Heartbeat,
    /// Set once partitions are assigned and their checkpoints are loaded.
    pub readiness: Readiness,
}

impl Loop {
    /// Runs until the shutdown; the batch at hand is finished.
    ///
    /// # Errors
    /// When something happens that does not pass by itself.
    pub async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let result = self.run_until_shutdown(&shutdown).await;
        if let Err(error) = &result {
            self.heartbeat.note_error(error);
            self.heartbeat.beat(&self.engine.tenancies()).await;
        }
        self.consumer.leave().await;
        result
    }

    async fn run_until_shutdown(&mut self, shutdown: &CancellationToken) -> anyhow::Result<()> {
        let mut heads_are_due = time::interval(HEADS_INTERVAL);
        heads_are_due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut backoff = Backoff::default();
        let mut is_assigned = false;
        while !shutdown.is_cancelled() {
            let is_behind = self.engine.is_behind();
            let patience = async {
                if is_behind {
                    return;
                }
                tokio::select! {
                    _ = heads_are_due.tick() => {}
                    () = shutdown.cancelled() => {}
                }
            };
            let delivery = self.consumer.receive(CYCLE_EVENTS_MAX, patience).await?;
            for decision in delivery.decisions {
                is_assigned = true;
                obey(&mut self.engine, decision);
            }
            match self.engine.cycle(delivery.events).await {
                Ok(()) => {
                    backoff.reset();
                    self.consumer.commit_hint();
                    if is_assigned {
                        self.readiness.set_ready();
                    }
                }
                Err(error) if retry::passes_by_itself(&error) => {
                    let delay = backoff.next_delay();
                    tracing::warn!(error = format!("{error:#}"), ?delay, "trying again");
                    self.heartbeat.note_error(&error);
                    tokio::select! {
                        () = time::sleep(delay) => {}
                        () = shutdown.cancelled() => {}
                    }
                }
                Err(error) => return Err(error),
            }
            self.heartbeat.beat_if_due(&self.engine.tenancies()).await;
        }
        Ok(())
    }
}

fn obey(engine: &mut Engine, decision: Decision) {
    match decision {
        Decision::Assigned(shards) => engine.assign(&shards),
        Decision::Revoked(shards) => engine.revoke(&shards),
        Decision::Lost(shards) => engine.keep_until_contested(&shards),
    }
}
