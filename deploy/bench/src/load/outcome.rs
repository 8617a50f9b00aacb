//! What a load has seen.

use std::{collections::BTreeMap, time::Duration};

use anyhow::ensure;
use hdrhistogram::Histogram;

use crate::answer::LatencyCurve;

/// Latencies of up to a minute are told apart, to three digits.
const LATENCY_MAX_US: u64 = 60_000_000;
const DIGITS: u8 = 3;

/// Where a curve of latencies is drawn: shares of the requests.
const SHARES: [f64; 12] = [
    0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999,
];

/// Answers and their latencies.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Answers with the expected status.
    pub answers: u64,
    /// How long it was asked, in seconds.
    pub seconds: f64,
    /// In microseconds.
    latencies: Histogram<u64>,
    /// Other answers, by their status.
    pub unexpected: BTreeMap<u16, u64>,
}

impl Default for Outcome {
    fn default() -> Self {
        Self {
            answers: 0,
            seconds: 0.0,
            latencies: Histogram::new_with_max(LATENCY_MAX_US, DIGITS).expect("valid bounds"),
            unexpected: BTreeMap::new(),
        }
    }
}

impl Outcome {
    /// Counts an answer.
    pub(super) fn record(&mut self, status: u16, expected: u16, latency: Duration) {
        if status == expected {
            self.answers += 1;
        } else {
            *self.unexpected.entry(status).or_default() += 1;
        }
        let microseconds = u64::try_from(latency.as_micros()).unwrap_or(LATENCY_MAX_US);
        self.latencies.saturating_record(microseconds);
    }

    /// Adds what another connection has seen.
    pub fn add(&mut self, other: &Self) {
        self.answers += other.answers;
        self.latencies
            .add(&other.latencies)
            .expect("histograms of the same bounds");
        for (status, count) in &other.unexpected {
            *self.unexpected.entry(*status).or_default() += count;
        }
    }

    /// Expected answers per second.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    pub fn per_second(&self) -> f64 {
        self.answers as f64 / self.seconds
    }

    /// Within how many milliseconds that share of the requests was answered.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    pub fn latency_ms(&self, share: f64) -> f64 {
        self.latencies.value_at_quantile(share) as f64 / 1_000.0
    }

    /// The longest latency, in milliseconds.
    pub fn longest_ms(&self) -> f64 {
        self.latency_ms(1.0)
    }

    /// For the plot.
    pub fn curve(&self, what: impl Into<String>) -> LatencyCurve {
        LatencyCurve {
            what: what.into(),
            points: SHARES.map(|share| (share, self.latency_ms(share))).to_vec(),
        }
    }

    /// The same, or an error if an answer was not the expected one: what was refused costs less.
    ///
    /// # Errors
    /// Which statuses were answered how often.
    pub fn all_expected(self) -> anyhow::Result<Self> {
        ensure!(
            self.unexpected.is_empty(),
            "{} answers as expected, others by status: {:?}",
            self.answers,
            self.unexpected
        );
        ensure!(self.answers > 0, "no answer");
        Ok(self)
    }
}
