//! Samples of the lag and of the progress of each projection in the last minutes, kept in memory.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use linkledger_core::{databases::Databases, shard::Position};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    operations::status::{self, StatusReport},
    pipeline::periodic::Periodic,
};

/// Interval of the samples, in seconds.
const INTERVAL: Duration = Duration::from_secs(2);
/// Number of samples that are kept: ten minutes.
pub(super) const SAMPLES_MAX: usize = 300;
/// Number of samples for a rate: ten seconds.
const RATE_SAMPLES: usize = 5;

/// Samples, shared by the task that takes them and the pages that show them.
#[derive(Debug, Clone, Default)]
pub(super) struct LagSamples(Arc<Mutex<VecDeque<Option<Sample>>>>);

/// State of all projections at one moment.
#[derive(Debug)]
struct Sample {
    at: Instant,
    projections: Vec<Figures>,
}

/// State of one projection.
#[derive(Debug)]
struct Figures {
    projection: &'static str,
    lag: Position,
    /// Number of applied events of each generation.
    generations: Vec<(i32, Position)>,
}

impl LagSamples {
    /// Takes samples until the shutdown. A sample is missing if the database fails.
    ///
    /// # Errors
    /// Never returns an error.
    pub(super) async fn keep_taking(
        self,
        databases: Databases,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut periodic = Periodic::new(INTERVAL, shutdown);
        while periodic.is_due().await {
            let taken = status::collect(&databases).await;
            if let Err(error) = &taken {
                tracing::debug!(
                    error = format!("{error:#}"),
                    "console: no sample of the lag"
                );
            }
            let at = Instant::now();
            self.push(taken.ok().map(|status| Sample::of(&status, at)));
        }
        Ok(())
    }

    fn push(&self, sample: Option<Sample>) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() == SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// Returns the lag of a projection in events, oldest sample first; `None` for a missing sample.
    pub(super) fn lags(&self, projection: &str) -> Vec<Option<Position>> {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lag = |sample: &Option<Sample>| Some(sample.as_ref()?.figures(projection)?.lag);
        samples.iter().map(lag).collect()
    }

    /// Returns the events per second that a generation applied lately; `None` without enough
    /// samples.
    pub(super) fn rate(&self, projection: &str, generation: i32) -> Option<f64> {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = samples.iter().rev().take(RATE_SAMPLES + 1).flatten();
        let mut places = latest.filter_map(|sample| {
            let mut generations = sample.figures(projection)?.generations.iter();
            let (_, position) = generations.find(|(number, _)| *number == generation)?;
            Some((sample.at, *position))
        });
        let (last_at, last) = places.next()?;
        let (first_at, first) = places.next_back()?;
        let seconds = (last_at - first_at).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a rate is rounded anyway")]
        let rate = (last - first).max(0) as f64 / seconds;
        (seconds > 0.0).then_some(rate)
    }
}

impl Sample {
    fn of(status: &StatusReport, at: Instant) -> Self {
        let projections = status.projections.iter().map(|it| Figures {
            projection: it.projection,
            lag: it.lag_events,
            generations: it
                .generations
                .iter()
                .map(|it| (it.generation, it.position))
                .collect(),
        });
        Self {
            at,
            projections: projections.collect(),
        }
    }

    fn figures(&self, projection: &str) -> Option<&Figures> {
        let own = |it: &&Figures| it.projection == projection;
        self.projections.iter().find(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: Instant, position: Position) -> Sample {
        Sample {
            at,
            projections: vec![Figures {
                projection: "links",
                lag: 10 - position,
                generations: vec![(1, position), (2, 100 * position)],
            }],
        }
    }

    #[test]
    fn oldest_samples_go_and_failures_are_gaps() {
        let samples = LagSamples::default();
        let begin = Instant::now();
        samples.push(Some(sample(begin, 1)));
        samples.push(None);
        for _ in 2..SAMPLES_MAX {
            samples.push(Some(sample(begin, 3)));
        }
        assert_eq!(samples.lags("links")[..3], [Some(9), None, Some(7)]);
        samples.push(Some(sample(begin, 4)));
        let lags = samples.lags("links");
        assert_eq!(lags.len(), SAMPLES_MAX);
        assert_eq!((lags[0], lags[SAMPLES_MAX - 1]), (None, Some(6)));
        assert_eq!(samples.lags("other")[2], None);
    }

    #[test]
    fn rate_covers_the_last_samples_of_a_generation() {
        let samples = LagSamples::default();
        let begin = Instant::now();
        assert_eq!(samples.rate("links", 1), None);
        samples.push(Some(sample(begin, 0)));
        assert_eq!(samples.rate("links", 1), None);
        for (index, position) in [(1, 1_000), (2, 1_002), (3, 1_004), (6, 1_018)] {
            samples.push(Some(sample(begin + INTERVAL * index, position)));
            samples.push(None);
        }
        assert_eq!(samples.rate("links", 1), Some(2.0));
        assert_eq!(samples.rate("links", 2), Some(200.0));
        assert_eq!(samples.rate("links", 3), None);
        samples.push(Some(sample(begin + INTERVAL * 7, 5)));
        assert_eq!(samples.rate("links", 1), Some(0.0), "it began anew");
    }
}
