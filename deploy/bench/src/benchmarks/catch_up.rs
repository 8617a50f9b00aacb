//! Benchmark of catching up: events per second of a projector that lags, and of a rebuild.

use std::{process::Output, time::Duration};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use tokio::process::Command;

use crate::{
    bench::BenchContext,
    data_set::DataSet,
    figures::Figures,
    process::ServiceProcess,
    read_tables::ReadTables,
    report::Report,
    stack::{BrokerKind, StackProcess},
};

const CAUGHT_UP: &str = "catching up";
const FILLED: &str = "INSERT … SELECT";
const REBUILT: &str = "rebuild --all, its loading";
const FILLED_BARE: &str = "INSERT … SELECT, then indexes";

pub(super) async fn run(bench: &BenchContext) -> anyhow::Result<Report> {
    let mut figures = Figures::default();
    let broker_url = bench.server.empty_database("bench_broker").await?;
    // The topic has one record, of the demo account of the stack, which the measured projector does not read: it
    // begins at the end of the topic.
    let broker = StackProcess::start(bench, &broker_url, BrokerKind::Embedded).await?;
    for _ in bench.rounds("catch-up") {
        add_round(bench, &broker, &mut figures).await?;
    }
    broker.stop().await?;
    let catching_up = figures.row(CAUGHT_UP, "events/s");
    let rows = [
        figures.ratio(CAUGHT_UP, "events/s", FILLED).at_least(0.5),
        catching_up
            .named("catching up, by itself")
            .at_least(200_000.0),
        figures.ratio(REBUILT, "events/s", FILLED_BARE),
    ];
    let title = "Projector: catching up with the log, and rebuilding from it";
    Ok(Report::new("catch-up", title, rows))
}

async fn add_round(
    bench: &BenchContext,
    broker: &StackProcess,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let (url, _) = bench.copy(DataSet::MILLION_EVENTS).await?;
    let mut tables = ReadTables::connect(&url).await?;
    let events = tables.events().await?;
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    let per_second = |took: Duration| events as f64 / took.as_secs_f64();

    tables.empty().await?;
    bench.server.checkpoint().await?;
    figures.add(FILLED, per_second(tables.fill().await?));
    tables.empty().await?;
    bench.server.checkpoint().await?;
    let mut projector = start_projector(bench, broker, &url)?;
    let caught_up = projector.rate_until(events, async || tables.applied().await);
    figures.add(CAUGHT_UP, caught_up.await?);
    projector.stop().await?;

    bench.server.checkpoint().await?;
    figures.add(FILLED_BARE, per_second(tables.fill_bare().await?));
    bench.server.checkpoint().await?;
    figures.add(REBUILT, rebuild_all(bench, &url).await?);
    Ok(())
}

/// Starts a projector on the database, at the broker of the stack.
pub(super) fn start_projector(
    bench: &BenchContext,
    broker: &StackProcess,
    database_url: &str,
) -> anyhow::Result<ServiceProcess> {
    let variables = ["KAFKA_BROKERS", "KAFKA_FETCH_WAIT_MAX_MS"];
    let mut environment = vec![("DATABASE_URL", database_url)];
    for name in variables {
        environment.push((name, broker.variable(name)?));
    }
    ServiceProcess::start(bench, ("projector", "projector"), &["run"], &environment)
}

/// A line of the progress that `rebuild` prints.
#[derive(Debug, Deserialize)]
struct Progress {
    phase: String,
    done: u64,
    seconds: f64,
}

/// Rebuilds all read models without a rate limit. Returns the number of events that were loaded per
/// second, without comparing and swapping.
async fn rebuild_all(bench: &BenchContext, database_url: &str) -> anyhow::Result<f64> {
    let Output { status, stderr, .. } = Command::new(bench.program("projector"))
        .args(["rebuild", "--all", "--max-rate", "0", "--json"])
        .args(["--reason", "measured"])
        .env("DATABASE_URL", database_url)
        .kill_on_drop(true)
        .output()
        .await
        .context("can't run the projector")?;
    let progress = String::from_utf8_lossy(&stderr);
    ensure!(status.success(), "projector rebuild failed: {progress}");
    loaded_per_second(&progress)
        .with_context(|| format!("projector rebuild prints no line on loading: {progress}"))
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
fn loaded_per_second(progress: &str) -> Option<f64> {
    let lines = progress.lines();
    let lines = lines.filter_map(|line| serde_json::from_str(line).ok());
    let mut loading = lines.filter(|line: &Progress| line.phase == "loading");
    let last = loading.next_back()?;
    Some(last.done as f64 / last.seconds)
}

#[cfg(test)]
mod tests {
    use super::loaded_per_second;

    #[test]
    fn rebuild_rate_is_of_the_last_loading_line() {
        let progress = r#"
            {"phase":"loading","done":100,"total":1000,"seconds":1.0}
            {"phase":"loading","done":1000,"total":1000,"seconds":4.0}
            {"phase":"comparing","done":9,"total":9,"seconds":1.0}
            a word of the log"#;
        assert_eq!(loaded_per_second(progress), Some(250.0));
        assert_eq!(loaded_per_second("nothing"), None);
    }
}
