//! Clicks that the projector counts per second, from a backlog on Apache Kafka into empty tables.

use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use linkledger_core::click::Counting;
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

use crate::{
    answer::{QuestionAnswer, ReportRow, TargetValue},
    bench::BenchContext,
    click_records::{ACCOUNTS, ClicksTopic, LINKS, VISITORS},
    countings::Countings,
    projector::ProjectorProcess,
    stack::{BrokerKind, StackProcess},
    visits::{EXPONENT, SEED},
};

const DATABASE: &str = "bench_clicks";
/// Interval at which the positions are read.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Longest duration of a measurement.
const TIMEOUT: Duration = Duration::from_mins(15);
/// Part of the clicks after which a measurement ends, in tenths: the last batches wait for more clicks.
const MEASURED_TENTHS: i64 = 9;

const BOTH_PER_SECOND: f64 = 10_000.0;
const TOTALS_PER_SECOND: f64 = 20_000.0;

/// Options of the question `clicks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub struct ClicksOptions {
    /// Number of clicks on the topic, all of which are counted in each measurement.
    #[arg(long, default_value_t = Self::DEFAULT.clicks,
          value_parser = clap::value_parser!(u32).range(1_000..))]
    clicks: u32,
}

impl ClicksOptions {
    /// Options of the command `all`.
    pub const DEFAULT: Self = Self { clicks: 600_000 };
}

pub(super) async fn ask(
    bench: &BenchContext,
    ClicksOptions { clicks }: ClicksOptions,
) -> anyhow::Result<QuestionAnswer> {
    let rates = CountingRates::measure(bench, clicks).await?;
    Ok(QuestionAnswer {
        question: "clicks",
        title: "Clicks counted per second",
        rows: rates.rows(),
        latencies: Vec::new(),
        notes: vec![format!(
            "{clicks} clicks, Zipf distribution over {LINKS} links (exponent {EXPONENT}, seed {SEED}), \
             {ACCOUNTS} accounts, {VISITORS} visitors."
        )],
    })
}

/// Clicks per second, of all rounds.
#[derive(Default)]
struct CountingRates {
    both: Vec<f64>,
    totals_beside: Vec<f64>,
    values_beside: Vec<f64>,
    totals_alone: Vec<f64>,
    values_alone: Vec<f64>,
}

impl CountingRates {
    /// Publishes `clicks` clicks once, and counts them in each round three times: by both countings
    /// together, and by each of them alone.
    async fn measure(bench: &BenchContext, clicks: u32) -> anyhow::Result<Self> {
        let url = bench.server.empty_database("bench_broker").await?;
        let stack = StackProcess::start(bench, &url, BrokerKind::Apache).await?;
        // The measured projectors count into databases of their own.
        let mut of_stack = Countings::connect(&url).await?;
        of_stack.pause(&Counting::ALL).await?;
        let topic = ClicksTopic::of(&stack)?;
        spawn_blocking(move || topic.publish(clicks)).await??;

        let mut rates = Self::default();
        for _ in bench.rounds("clicks") {
            let run = async |countings: &[Counting]| {
                count(bench, &stack, countings, i64::from(clicks)).await
            };
            let both = run(&Counting::ALL).await?;
            rates.both.push(together(&both));
            rates.totals_beside.push(both[0].per_second());
            rates.values_beside.push(both[1].per_second());
            let totals = run(&[Counting::Totals]).await?;
            rates.totals_alone.push(totals[0].per_second());
            let values = run(&[Counting::Values]).await?;
            rates.values_alone.push(values[0].per_second());
        }
        stack.stop().await?;
        Ok(rates)
    }

    fn rows(&self) -> Vec<ReportRow> {
        let row = |what, rates: &[f64], least: Option<f64>| {
            ReportRow::absolute(what, "clicks/s", rates, least.map(TargetValue::AtLeast))
        };
        vec![
            row("both countings together", &self.both, Some(BOTH_PER_SECOND)),
            row("totals, beside values", &self.totals_beside, None),
            row("values, beside totals", &self.values_beside, None),
            row("totals, alone", &self.totals_alone, Some(TOTALS_PER_SECOND)),
            row("values, alone", &self.values_alone, None),
        ]
    }
}

/// Progress of a counting: the first one that was seen, and the one at the end of the measurement.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    first: Option<(Instant, i64)>,
    last: Option<(Instant, i64)>,
}

impl Progress {
    fn note(&mut self, counted: i64, end: i64) {
        let now = Instant::now();
        if counted > 0 {
            self.first.get_or_insert((now, counted));
        }
        if counted >= end {
            self.last.get_or_insert((now, counted));
        }
    }

    fn span(&self) -> ((Instant, i64), (Instant, i64)) {
        let progress = self.first.zip(self.last);
        progress.expect("the measurement has ended")
    }

    /// Returns the rate without the time to start.
    fn per_second(&self) -> f64 {
        let ((begun, had), (ended, counted)) = self.span();
        to_f64(counted - had) / (ended - begun).as_secs_f64()
    }
}

/// Returns the rate of clicks that both countings have counted: from the first batch of either to
/// the end of the later one.
fn together(both: &[Progress]) -> f64 {
    let spans = both.iter().map(Progress::span);
    let begun = spans.clone().map(|((begun, _), _)| begun).min();
    let later = spans.max_by_key(|(_, (ended, _))| *ended);
    let (begun, ((_, had), (ended, counted))) = begun.zip(later).expect("two countings");
    to_f64(counted - had) / (ended - begun).as_secs_f64()
}

/// Counts the topic into empty tables by a projector that runs only these countings.
async fn count(
    bench: &BenchContext,
    stack: &StackProcess,
    countings: &[Counting],
    clicks: i64,
) -> anyhow::Result<Vec<Progress>> {
    let url = bench.server.empty_database(DATABASE).await?;
    let mut session = Countings::connect(&url).await?;
    let others = Counting::ALL.into_iter();
    let others: Vec<_> = others.filter(|it| !countings.contains(it)).collect();
    session.pause(&others).await?;
    bench.server.checkpoint().await?;
    let mut projector = ProjectorProcess::start(bench, stack, &url)?;
    let started = Instant::now();
    let mut progress = vec![Progress::default(); countings.len()];
    while progress.iter().any(|it| it.last.is_none()) {
        for (progress, counting) in progress.iter_mut().zip(countings) {
            let counted = session.counted(*counting).await?;
            progress.note(counted, clicks * MEASURED_TENTHS / 10);
        }
        projector.ensure_runs()?;
        ensure!(
            started.elapsed() < TIMEOUT,
            "the clicks are not counted after {TIMEOUT:?}: {}",
            projector.last_words()
        );
        sleep(POLL_INTERVAL).await;
    }
    projector.stop().await?;
    Ok(progress)
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
fn to_f64(clicks: i64) -> f64 {
    clicks as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{Progress, together};

    #[test]
    fn rate_of_both_ends_with_the_later_counting() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let progress = |first, last| Progress {
            first: Some((at(first), 100)),
            last: Some((at(last), 1_100)),
        };
        let both = [progress(0, 2), progress(1, 10)];
        assert!((together(&both) - 100.0).abs() < f64::EPSILON);
        assert!((both[0].per_second() - 500.0).abs() < f64::EPSILON);
    }
}
