//! How fast does the projector catch up, and how fast is a rebuild?

use std::time::Duration;

use anyhow::ensure;
use tokio::time::{Instant, sleep};

use crate::{
    answer::{Answer, Reach, Row},
    bench::Bench,
    data_set::DataSet,
    projector::{self, Projector},
    read_tables::ReadTables,
    stack::{Broker, Stack},
};

const DATABASE: &str = "bench_catch_up";
/// How often the checkpoints are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// No projector takes that long.
const TIMEOUT: Duration = Duration::from_mins(5);

const LEAST_RATIO: f64 = 0.5;
const LEAST_PER_SECOND: f64 = 50_000.0;

/// Events per second.
#[derive(Default)]
struct Rates {
    filled: Vec<f64>,
    caught_up: Vec<f64>,
    filled_bare: Vec<f64>,
    rebuilt: Vec<f64>,
}

pub(super) async fn ask(bench: &Bench) -> anyhow::Result<Answer> {
    let mut rates = Rates::default();
    let broker_url = bench.server.empty_database("bench_broker").await?;
    // The projector that is measured only needs a group to join. The one record on this topic, of
    // the stack's demo account, is not of its log, and left out.
    let broker = Stack::start(bench, &broker_url, Broker::Embedded).await?;
    for round in bench.rounds("catch-up") {
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
        let mut projector = Projector::start(bench, &broker, &url, &format!("bench-{round}"))?;
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

fn answer(rates: &Rates) -> Answer {
    let reach = |least| Some(Reach::AtLeast(least));
    Answer {
        question: "catch-up",
        title: "Projector: catching up with the log, and rebuilding from it",
        rows: vec![
            Row::ratio(
                "catching up",
                "events/s",
                &rates.caught_up,
                ("INSERT … SELECT", &rates.filled),
                reach(LEAST_RATIO),
            ),
            Row::absolute(
                "catching up, by itself",
                "events/s",
                &rates.caught_up,
                reach(LEAST_PER_SECOND),
            ),
            Row::ratio(
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

/// Events per second from the first transaction that is seen to the last: joining the group, which
/// is the same for one event and for a million, is left aside.
async fn caught_up(tables: &mut ReadTables, projector: &mut Projector) -> anyhow::Result<f64> {
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
