//! Figures of one server in a round.

use std::{sync::Arc, time::Duration};

use nix::unistd::Pid;

use crate::{
    load::{self, LoadOutcome, LoadTarget},
    processor_time::processor_seconds,
    requests,
};

/// Warm-up before each measurement.
const SETTLE: Duration = Duration::from_secs(1);

/// A server that gets visits.
pub(super) struct VisitedServer {
    pub(super) process: Pid,
    pub(super) target: LoadTarget,
}

/// Figures of a server at its maximum.
pub(super) struct Round {
    pub(super) per_second: f64,
    /// Processor time of the server for each redirect, in microseconds.
    pub(super) server_us: f64,
    /// Processor time of the load, as a share of one core.
    pub(super) load_share: f64,
}

impl VisitedServer {
    pub(super) async fn measure(&self, duration: Duration) -> anyhow::Result<Round> {
        visit(&self.target, SETTLE).await?;
        let times = || {
            anyhow::Ok((
                processor_seconds(self.process)?,
                processor_seconds(Pid::this())?,
            ))
        };
        let before = times()?;
        let outcome = visit(&self.target, duration).await?;
        let after = times()?;
        let answers = outcome.per_second() * outcome.seconds;
        Ok(Round {
            per_second: outcome.per_second(),
            server_us: (after.0 - before.0) / answers * 1e6,
            load_share: (after.1 - before.1) / outcome.seconds,
        })
    }

    /// Measures the 99th percentile of the latencies at this rate, in milliseconds.
    pub(super) async fn p99_ms(&self, per_second: f64, duration: Duration) -> anyhow::Result<f64> {
        let outcome = load::open_loop(&self.target, per_second, duration).await?;
        Ok(outcome.all_expected()?.latency_ms(0.99))
    }
}

async fn visit(target: &LoadTarget, duration: Duration) -> anyhow::Result<LoadOutcome> {
    load::closed_loop(target, Duration::ZERO, duration)
        .await?
        .all_expected()
}

/// Visits every link once, as visitors of a long-running service have done.
pub(super) async fn visit_each(server: &LoadTarget, slugs: &Arc<[String]>) -> anyhow::Result<()> {
    let target = LoadTarget {
        requests: requests::visits(Arc::clone(slugs)),
        ..server.clone()
    };
    let visited = load::each_once(&target, slugs.len() as u64).await?;
    visited.all_expected()?;
    Ok(())
}
