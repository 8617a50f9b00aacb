//! The proof that a load does not hide a stall.

use std::time::Duration;

use anyhow::ensure;

use super::Outcome;

/// Of the requests that must have waited, so many are enough: arrivals are random.
const ENOUGH: f64 = 0.9;

/// The server has stood still once.
#[derive(Debug, Clone, Copy)]
pub struct Stall {
    /// For how long.
    pub held: Duration,
    /// Within a load of that duration.
    pub load: Duration,
}

impl Stall {
    /// How the latencies of an open loop tell of it, in a sentence; `usual` are those of the same
    /// load without a stall.
    ///
    /// What was due in the first half of the stall has waited for its second half at least.
    ///
    /// # Errors
    /// When they hide it.
    pub fn shown_by(self, seen: &Outcome, usual: &Outcome) -> anyhow::Result<String> {
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
            "too slow without a stall for one to be told apart"
        };
        Ok(format!(
            "Stopped once for {held:?} of {load:?}, on purpose: {percent:.1} % of the requests took \
             {shown_ms:.0} ms or longer, otherwise {usual_ms:.0} ms; at least {least_ms:.0} ms \
             must be seen: {verdict}."
        ))
    }
}
