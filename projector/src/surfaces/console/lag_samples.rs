//! How far each projection was behind in the last minutes, and how fast it got on; kept in memory.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use linkledger_core::shard::Position;
use sqlx::PgPool;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    operations::status::{self, Status},
    pipeline::periodic::Periodic,
};

/// How often a sample is taken, in seconds.
const INTERVAL: Duration = Duration::from_secs(2);
/// Samples that are kept: ten minutes.
pub(super) const SAMPLES_MAX: usize = 300;
/// Samples over which a rate is taken: ten seconds.
const RATE_SAMPLES: usize = 5;

/// The samples, shared by who takes them and who shows them.
#[derive(Debug, Clone, Default)]
pub(super) struct LagSamples(Arc<Mutex<VecDeque<Option<Sample>>>>);

/// How all projections were at one moment.
#[derive(Debug)]
struct Sample {
    at: Instant,
    projections: Vec<Figures>,
}

/// How far a projection is.
#[derive(Debug)]
struct Figures {
    projection: &'static str,
    lag: Position,
    /// Events that each of its generations has applied.
    generations: Vec<(i32, Position)>,
}

impl LagSamples {
    /// Takes samples until the shutdown. Nothing depends on them: where the database does not
    /// answer, one is missing.
    ///
    /// # Errors
    /// Never.
    pub(super) async fn keep_taking(
        self,
        pool: PgPool,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut periodic = Periodic::new(INTERVAL, shutdown);
        while periodic.is_due().await {
            let taken = status::collect(&pool).await;
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

    /// The lag of a projection in events, the oldest sample first; none where it is not known.
    pub(super) fn lags(&self, projection: &str) -> Vec<Option<Position>> {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lag = |sample: &Option<Sample>| Some(sample.as_ref()?.figures(projection)?.lag);
        samples.iter().map(lag).collect()
    }

    /// Events per second by which a generation has got on lately; none until that can be said.
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
    fn of(status: &Status, at: Instant) -> Self {
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
    fn the_oldest_samples_go_and_what_was_not_taken_is_missing() {
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
    fn the_rate_is_that_of_the_last_samples_of_a_generation() {
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
