//! How fast does the projector catch up, and how fast is a rebuild?

use std::time::Duration;

use anyhow::ensure;
use tokio::time::{Instant, sleep};

use crate::{
    answer::{QuestionAnswer, ReportRow, TargetValue},
    bench::BenchContext,
    data_set::DataSet,
    projector::{self, ProjectorProcess},
    read_tables::ReadTables,
    stack::{BrokerKind, StackProcess},
};

const DATABASE: &str = "bench_catch_up";
/// Interval at which the checkpoints are read.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Longest duration of a catch-up.
const TIMEOUT: Duration = Duration::from_mins(5);

const LEAST_RATIO: f64 = 0.5;
const LEAST_PER_SECOND: f64 = 200_000.0;

/// Events per second, of all rounds.
#[derive(Default)]
struct Rates {
    filled: Vec<f64>,
    caught_up: Vec<f64>,
    filled_bare: Vec<f64>,
    rebuilt: Vec<f64>,
}

pub(super) async fn ask(bench: &BenchContext) -> anyhow::Result<QuestionAnswer> {
    let mut rates = Rates::default();
    let broker_url = bench.server.empty_database("bench_broker").await?;
    // The topic has one record, of the demo account of the stack, which the measured projector does not read: it
    // begins at the end of the topic.
    let broker = StackProcess::start(bench, &broker_url, BrokerKind::Embedded).await?;
    for _ in bench.rounds("catch-up") {
        let url = DataSet::MILLION_EVENTS
            .copy(&bench.server, DATABASE)
            .await?;
        let mut tables = ReadTables::connect(&url).await?;
        let events = tables.events().await?;
        let per_second = |took: Duration| to_f64(events) / took.as_secs_f64();

        tables.empty().await?;
        bench.server.checkpoint().await?;
        rates.filled.push(per_second(tables.fill().await?));
        tables.empty().await?;
        bench.server.checkpoint().await?;
        let mut projector = ProjectorProcess::start(bench, &broker, &url)?;
        rates
            .caught_up
            .push(caught_up(&mut tables, &mut projector).await?);
        projector.stop().await?;

        bench.server.checkpoint().await?;
        rates
            .filled_bare
            .push(per_second(tables.fill_bare().await?));
        bench.server.checkpoint().await?;
        let rebuilt = projector::rebuild_all(bench, &url).await?;
        rates.rebuilt.push(rebuilt);
    }
    broker.stop().await?;
    Ok(answer(&rates))
}

fn answer(rates: &Rates) -> QuestionAnswer {
    let reach = |least| Some(TargetValue::AtLeast(least));
    QuestionAnswer {
        question: "catch-up",
        title: "Projector: catching up with the log, and rebuilding from it",
        rows: vec![
            ReportRow::ratio(
                "catching up",
                "events/s",
                &rates.caught_up,
                ("INSERT … SELECT", &rates.filled),
                reach(LEAST_RATIO),
            ),
            ReportRow::absolute(
                "catching up, by itself",
                "events/s",
                &rates.caught_up,
                reach(LEAST_PER_SECOND),
            ),
            ReportRow::ratio(
                "rebuild --all, its loading",
                "events/s",
                &rates.rebuilt,
                ("INSERT … SELECT, then indexes", &rates.filled_bare),
                None,
            ),
        ],
        latencies: Vec::new(),
        notes: Vec::new(),
    }
}

/// Measures events per second from the first transaction that is seen to the last, without the time
/// to start, which is the same for one event and for a million.
async fn caught_up(
    tables: &mut ReadTables,
    projector: &mut ProjectorProcess,
) -> anyhow::Result<f64> {
    let events = tables.events().await?;
    let started = Instant::now();
    let mut first = None;
    loop {
        let applied = tables.applied().await?;
        let now = Instant::now();
        if applied > 0 && first.is_none() {
            first = Some((now, applied));
        }
        if let Some((begun, had)) = first
            && applied == events
        {
            return Ok(to_f64(events - had) / (now - begun).as_secs_f64());
        }
        projector.ensure_runs()?;
        ensure!(
            started.elapsed() < TIMEOUT,
            "{applied} of {events} events are applied after {TIMEOUT:?}: {}",
            projector.last_words()
        );
        sleep(POLL_INTERVAL).await;
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
fn to_f64(events: i64) -> f64 {
    events as f64
}
