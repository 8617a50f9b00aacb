//! The outcome of a load.

use std::{collections::BTreeMap, time::Duration};

use anyhow::ensure;
use hdrhistogram::Histogram;

use crate::report::LatencyCurve;

/// Largest latency that the histogram distinguishes; it keeps three digits.
const LATENCY_MAX_US: u64 = 60_000_000;
const DIGITS: u8 = 3;

/// Shares of the requests at which a latency curve is drawn.
const SHARES: [f64; 12] = [
    0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999,
];

/// Responses and latencies.
#[derive(Debug, Clone)]
pub struct LoadOutcome {
    /// Number of responses with the expected status.
    pub answers: u64,
    /// Duration of the load, in seconds.
    pub seconds: f64,
    /// Latencies in microseconds.
    latencies: Histogram<u64>,
    /// Number of other responses, by status.
    unexpected: BTreeMap<u16, u64>,
}

impl Default for LoadOutcome {
    fn default() -> Self {
        Self {
            answers: 0,
            seconds: 0.0,
            latencies: Histogram::new_with_max(LATENCY_MAX_US, DIGITS).expect("valid bounds"),
            unexpected: BTreeMap::new(),
        }
    }
}

impl LoadOutcome {
    /// Counts a response.
    pub(crate) fn record(&mut self, status: u16, expected: u16, latency: Duration) {
        if status == expected {
            self.answers += 1;
        } else {
            *self.unexpected.entry(status).or_default() += 1;
        }
        let microseconds = u64::try_from(latency.as_micros()).unwrap_or(LATENCY_MAX_US);
        self.latencies.saturating_record(microseconds);
    }

    /// Adds the outcome of another connection.
    pub fn add(&mut self, other: &Self) {
        self.answers += other.answers;
        self.latencies
            .add(&other.latencies)
            .expect("histograms of the same bounds");
        for (status, count) in &other.unexpected {
            *self.unexpected.entry(*status).or_default() += count;
        }
    }

    /// Returns the expected responses per second.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    pub fn per_second(&self) -> f64 {
        self.answers as f64 / self.seconds
    }

    /// Returns the latency, in milliseconds, within which this share of the requests was answered.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    pub fn latency_ms(&self, share: f64) -> f64 {
        self.latencies.value_at_quantile(share) as f64 / 1_000.0
    }

    /// Returns the latency curve for the plot.
    pub fn curve(&self, what: impl Into<String>) -> LatencyCurve {
        LatencyCurve {
            what: what.into(),
            points: SHARES.map(|share| (share, self.latency_ms(share))).to_vec(),
        }
    }

    /// Returns the outcome unchanged if every response had the expected status, since a refused
    /// request costs less.
    ///
    /// # Errors
    /// Returns an error with the unexpected statuses and their counts.
    pub(super) fn all_expected(self) -> anyhow::Result<Self> {
        ensure!(
            self.unexpected.is_empty(),
            "{} responses with the expected status; other statuses with their counts: {:?}",
            self.answers,
            self.unexpected
        );
        ensure!(self.answers > 0, "the load got no response");
        Ok(self)
    }
}
