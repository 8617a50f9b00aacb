//! Benchmark of the aggregation of clicks: clicks that the projector counts per second, from a backlog on Apache Kafka
//! into empty tables.

use clap::Args;
use tokio::task::spawn_blocking;

use super::catch_up::start_projector;
use crate::{
    bench::BenchContext,
    click_positions::ClickPositions,
    click_records::{ACCOUNTS, ClicksTopic, LINKS, RECORD_KEY, VISITORS},
    figures::Figures,
    report::Report,
    stack::{BrokerKind, StackProcess},
    visits::{EXPONENT, SEED},
};

/// Part of the clicks after which a measurement ends, in tenths: the last batches wait for more clicks.
const MEASURED_TENTHS: i64 = 9;
const COUNTED: &str = "counted";

/// Options of the benchmark `clicks`.
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

/// Publishes the clicks once, and counts them in each round.
pub(super) async fn run(
    bench: &BenchContext,
    ClicksOptions { clicks }: ClicksOptions,
) -> anyhow::Result<Report> {
    let url = bench.server.empty_database("bench_broker").await?;
    let stack = StackProcess::start(bench, &url, BrokerKind::Apache).await?;
    // The measured projectors count into a database of their own.
    ClickPositions::connect(&url).await?.pause().await?;
    let topic = ClicksTopic::of(&stack)?;
    spawn_blocking(move || topic.publish(clicks)).await??;
    let mut figures = Figures::default();
    for _ in bench.rounds("clicks") {
        figures.add(COUNTED, count(bench, &stack, i64::from(clicks)).await?);
    }
    stack.stop().await?;
    let row = figures.row(COUNTED, "clicks/s").at_least(10_000.0);
    Ok(Report::new("clicks", "Clicks counted per second", [row]).note(format!(
        "{clicks} clicks, Zipf distribution over {LINKS} links (exponent {EXPONENT}, seed {SEED}), \
         {ACCOUNTS} accounts, {VISITORS} visitors."
    )))
}

/// Counts the topic into empty tables, and returns the clicks per second.
async fn count(bench: &BenchContext, stack: &StackProcess, clicks: i64) -> anyhow::Result<f64> {
    let url = bench.server.empty_database("bench_clicks").await?;
    let mut session = ClickPositions::connect(&url).await?;
    session.set_record_key(RECORD_KEY).await?;
    bench.server.checkpoint().await?;
    let mut projector = start_projector(bench, stack, &url)?;
    let measured = clicks * MEASURED_TENTHS / 10;
    let rate = projector.rate_until(measured, async || session.counted().await);
    let per_second = rate.await?;
    projector.stop().await?;
    Ok(per_second)
}
