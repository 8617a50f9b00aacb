//! The proof that a load shows a stall of the server.

use std::time::Duration;

use anyhow::ensure;

use super::LoadOutcome;

/// Share of the expected slow requests that suffices, since arrivals are random.
const ENOUGH: f64 = 0.9;

/// A stall: the server stood still once.
#[derive(Debug, Clone, Copy)]
pub struct Stall {
    /// Duration of the stall.
    pub held: Duration,
    /// Duration of the load around the stall.
    pub load: Duration,
}

impl Stall {
    /// Returns a sentence about the latencies of an open loop during the stall. `usual` is the same
    /// load without a stall.
    ///
    /// A request that was due in the first half of the stall waited at least for the second half.
    ///
    /// # Errors
    /// Returns an error if the latencies hide the stall.
    pub fn shown_by(self, seen: &LoadOutcome, usual: &LoadOutcome) -> anyhow::Result<String> {
        let least_ms = self.held.as_secs_f64() * 1_000.0 / 2.0;
        let share = ENOUGH * self.held.as_secs_f64() / 2.0 / self.load.as_secs_f64();
        let [shown_ms, usual_ms] = [seen, usual].map(|outcome| outcome.latency_ms(1.0 - share));
        let (held, load, percent) = (self.held, self.load, share * 100.0);
        ensure!(
            shown_ms >= least_ms,
            "the load hides a stall of {held:?}: {percent:.1} % of its requests were due in the \
             first half of it, but only took {shown_ms:.0} ms or longer"
        );
        let verdict = if usual_ms < least_ms {
            "the stall shows"
        } else {
            "the load is so slow that a stall cannot be recognised"
        };
        Ok(format!(
            "Stopped on purpose once, for {held:?} of {load:?}: the slowest {percent:.1} % of the \
             requests took {shown_ms:.0} ms or longer ({usual_ms:.0} ms without the stall). A stall \
             must show as {least_ms:.0} ms or more: {verdict}."
        ))
    }
}
