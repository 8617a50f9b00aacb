//! Clicks that the projector counts per second, from a backlog on Apache Kafka into empty tables.

use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

use crate::{
    answer::{QuestionAnswer, ReportRow, TargetValue},
    bench::BenchContext,
    click_positions::ClickPositions,
    click_records::{ACCOUNTS, ClicksTopic, LINKS, RECORD_KEY, VISITORS},
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

const LEAST_PER_SECOND: f64 = 10_000.0;

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
    let rates = measure(bench, clicks).await?;
    let least = Some(TargetValue::AtLeast(LEAST_PER_SECOND));
    Ok(QuestionAnswer {
        question: "clicks",
        title: "Clicks counted per second",
        rows: vec![ReportRow::absolute("counted", "clicks/s", &rates, least)],
        latencies: Vec::new(),
        notes: vec![format!(
            "{clicks} clicks, Zipf distribution over {LINKS} links (exponent {EXPONENT}, seed {SEED}), \
             {ACCOUNTS} accounts, {VISITORS} visitors."
        )],
    })
}

/// Publishes `clicks` clicks once, counts them in each round, and returns the clicks per second of all
/// rounds.
async fn measure(bench: &BenchContext, clicks: u32) -> anyhow::Result<Vec<f64>> {
    let url = bench.server.empty_database("bench_broker").await?;
    let stack = StackProcess::start(bench, &url, BrokerKind::Apache).await?;
    // The measured projectors count into a database of their own.
    ClickPositions::connect(&url).await?.pause().await?;
    let topic = ClicksTopic::of(&stack)?;
    spawn_blocking(move || topic.publish(clicks)).await??;
    let mut rates = Vec::new();
    for _ in bench.rounds("clicks") {
        rates.push(count(bench, &stack, i64::from(clicks)).await?);
    }
    stack.stop().await?;
    Ok(rates)
}

/// Counts the topic into empty tables, and returns the clicks per second without the time to start.
async fn count(bench: &BenchContext, stack: &StackProcess, clicks: i64) -> anyhow::Result<f64> {
    let url = bench.server.empty_database(DATABASE).await?;
    let mut session = ClickPositions::connect(&url).await?;
    session.set_record_key(RECORD_KEY).await?;
    bench.server.checkpoint().await?;
    let mut projector = ProjectorProcess::start(bench, stack, &url)?;
    let started = Instant::now();
    let mut first = None;
    let per_second = loop {
        let counted = session.counted().await?;
        let now = Instant::now();
        if counted > 0 {
            let (begun, had) = *first.get_or_insert((now, counted));
            if counted >= clicks * MEASURED_TENTHS / 10 {
                break to_f64(counted - had) / (now - begun).as_secs_f64();
            }
        }
        projector.ensure_runs()?;
        ensure!(
            started.elapsed() < TIMEOUT,
            "the clicks are not counted after {TIMEOUT:?}: {}",
            projector.last_words()
        );
        sleep(POLL_INTERVAL).await;
    };
    projector.stop().await?;
    Ok(per_second)
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
fn to_f64(clicks: i64) -> f64 {
    clicks as f64
}
