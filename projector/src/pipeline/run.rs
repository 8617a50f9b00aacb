//! The loop of `projector run`: claims shards, receives records, applies their events.
//!
//! There is no batch timer: the next batch fills while a transaction commits.

use std::time::Duration;

use linkledger_service::internal_listener::Readiness;
use tokio::time::{self, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::pipeline::{
    claims::Claims,
    consumer::Consumer,
    followers::{Followers, LAG_INTERVAL},
    retry::{self, Backoff},
};

/// Longest delay after a failed cycle: the claims are renewed in between, and a cycle may have waited for locks.
const RETRY_DELAY_MAX: Duration = Duration::from_millis(500);

/// The parts of the loop.
pub struct RunLoop {
    /// The shards of this process.
    pub claims: Claims,
    /// Source of new events.
    pub consumer: Consumer,
    /// Writers of the read models.
    pub followers: Followers,
    /// Readiness of the process, set once its shards are claimed and their checkpoints are loaded.
    pub readiness: Readiness,
}

impl RunLoop {
    /// Runs until the shutdown, which waits for the current cycle.
    ///
    /// # Errors
    /// Returns the first error that a retry cannot remedy.
    pub async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let result = self.run_until_shutdown(&shutdown).await;
        if let Err(error) = &result {
            self.claims.record_error(error);
        }
        self.claims.release().await;
        self.consumer.close().await;
        result
    }

    async fn run_until_shutdown(&mut self, shutdown: &CancellationToken) -> anyhow::Result<()> {
        let mut lag_check = time::interval(LAG_INTERVAL);
        lag_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut backoff = Backoff::default();
        while !shutdown.is_cancelled() {
            self.claim().await?;
            let has_work = self.followers.has_work();
            let deadline = async {
                if has_work {
                    return;
                }
                tokio::select! {
                    _ = lag_check.tick() => {}
                    () = shutdown.cancelled() => {}
                }
            };
            let room = self.followers.room();
            let events = self.consumer.receive(room, deadline).await?;
            match self.followers.cycle(events).await {
                Ok(()) => {
                    backoff.reset();
                    if self.claims.are_known() {
                        self.readiness.set_ready();
                    }
                }
                Err(error) if retry::passes_by_itself(&error) => {
                    let delay = backoff.next_delay().min(RETRY_DELAY_MAX);
                    tracing::warn!(
                        error = format!("{error:#}"),
                        ?delay,
                        "a cycle failed: retrying after the delay"
                    );
                    self.claims.record_error(&error);
                    tokio::select! {
                        () = time::sleep(delay) => {}
                        () = shutdown.cancelled() => {}
                    }
                }
                Err(error) => return Err(error),
            }
            if let Some(refusal) = self.followers.unreported_refusal() {
                self.claims.record_error(&refusal);
            }
        }
        Ok(())
    }

    /// Renews the claims, if that is due, and tells the followers and the consumer which shards they now have.
    async fn claim(&mut self) -> anyhow::Result<()> {
        match self.claims.renew_if_due(&self.followers.reports()).await {
            Ok(false) => return Ok(()),
            Ok(true) => {}
            Err(error) => tracing::warn!(
                error = format!("{error:#}"),
                "this process keeps its shards; retrying in 1 s"
            ),
        }
        let shards = self.claims.owned();
        self.followers.set_shards(&shards);
        self.consumer.set_shards(&shards)
    }
}
