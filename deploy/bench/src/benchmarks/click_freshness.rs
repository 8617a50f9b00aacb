//! Benchmark of the freshness of clicks: time from a click until the statistics contain the click.
//!
//! Every click of a load of redirects counts. A click is in the statistics at the first instant at
//! which the position of the aggregation, read every 10 ms, is behind the record of the click.

use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use linkledger_core::clock::{Clock as _, SystemClock};
use time::OffsetDateTime;
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

use crate::{
    bench::BenchContext,
    click_positions::{ClickPositions, CountedTo},
    click_records::{ClicksTopic, PublishedClick},
    data_set::DataSet,
    figures::Figures,
    load::LoadOutcome,
    report::Report,
    requests,
    stack::BrokerKind,
};

/// Links that are followed.
const LINKS: DataSet = DataSet::new(1_000, 100);
const CONNECTIONS: usize = 64;
const PER_SECOND: f64 = 5_000.0;
/// Time of the load whose clicks are left out.
const WARM_UP: Duration = Duration::from_secs(5);
/// Time of the load whose clicks count: several batches.
const MEASURED: Duration = Duration::from_secs(20);
/// Interval at which the positions are read.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Longest time until all clicks are counted.
const TIMEOUT: Duration = Duration::from_mins(5);

const P50: &str = "p50 from the click";
const P99: &str = "p99 from the click";

pub(super) async fn run(bench: &BenchContext) -> anyhow::Result<Report> {
    let mut figures = Figures::default();
    let mut all = LoadOutcome::default();
    for _ in bench.rounds("click-freshness") {
        let (watched, clicks) = round(bench).await?;
        let seen = watched.latencies(&clicks)?;
        figures.add(P50, seen.latency_ms(0.5));
        figures.add(P99, seen.latency_ms(0.99));
        all.add(&seen);
    }
    let rows = [
        figures.row(P50, "ms"),
        figures.row(P99, "ms").at_most(5_000.0),
    ];
    let title = "Time from a click until the statistics contain the click";
    let mut report = Report::new("click-freshness", title, rows);
    report.latencies = vec![all.curve("from the click")];
    Ok(report.note(format!(
        "Every click of {PER_SECOND} redirects a second during {} s, until a committed position is \
         seen behind its record; figures are too high by up to {} ms.",
        MEASURED.as_secs(),
        POLL_INTERVAL.as_millis()
    )))
}

/// Follows links on a new stack, and returns the positions over time and the clicks after the
/// warm-up.
async fn round(bench: &BenchContext) -> anyhow::Result<(WatchedPositions, Vec<PublishedClick>)> {
    let stage = bench.stage(LINKS, BrokerKind::Apache).await?;
    let stack = stage.stack;
    stack.until_settled().await?;
    bench.server.checkpoint().await?;
    let slugs: Arc<[String]> = (1..=LINKS.links()).map(DataSet::slug).collect();
    let target = requests::clicks(slugs)?.to(stack.short_host, CONNECTIONS);
    let topic = ClicksTopic::of(&stack)?;
    let mut watched = WatchedPositions::connect(&stage.url).await?;
    let begun_at = SystemClock.now();
    let load = target.open_loop(PER_SECOND, WARM_UP + MEASURED);
    let followed = watched.watch_while(load).await??;
    let records = i64::try_from(followed.answers)?;
    let deadline = Instant::now() + TIMEOUT;
    while !watched.has_counted(records) {
        ensure!(
            Instant::now() < deadline,
            "the clicks are not counted after {TIMEOUT:?}"
        );
        watched.watch_while(sleep(POLL_INTERVAL)).await?;
        watched.note().await?;
    }
    let mut clicks = spawn_blocking(move || topic.read()).await??;
    stack.stop().await?;
    let published = i64::try_from(clicks.len())?;
    ensure!(
        published == records,
        "{records} redirects made {published} clicks"
    );
    clicks.retain(|click| click.clicked_at >= begun_at + WARM_UP);
    Ok((watched, clicks))
}

/// Positions of the aggregation over time.
struct WatchedPositions {
    session: ClickPositions,
    /// Positions that were seen first at an instant, by partition, in order.
    seen: BTreeMap<u8, Vec<(i64, OffsetDateTime)>>,
}

impl WatchedPositions {
    async fn connect(url: &str) -> anyhow::Result<Self> {
        Ok(Self {
            session: ClickPositions::connect(url).await?,
            seen: BTreeMap::new(),
        })
    }

    /// Reads the positions again and again during the work.
    async fn watch_while<T>(&mut self, work: impl Future<Output = T>) -> anyhow::Result<T> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                () = sleep(POLL_INTERVAL) => self.note().await?,
            }
        }
    }

    async fn note(&mut self) -> anyhow::Result<()> {
        let positions = self.session.positions().await?;
        self.add(&positions, SystemClock.now());
        Ok(())
    }

    fn add(&mut self, positions: &[CountedTo], at: OffsetDateTime) {
        for position in positions {
            let seen = self.seen.entry(position.partition).or_default();
            if seen
                .last()
                .is_none_or(|(last, _)| *last < position.next_offset)
            {
                seen.push((position.next_offset, at));
            }
        }
    }

    /// Returns true if this number of records is counted.
    fn has_counted(&self, records: i64) -> bool {
        let last = self.seen.values().filter_map(|seen| seen.last());
        last.map(|(next_offset, _)| next_offset).sum::<i64>() >= records
    }

    /// Returns the times from the clicks until they were counted.
    fn latencies(&self, clicks: &[PublishedClick]) -> anyhow::Result<LoadOutcome> {
        let mut outcome = LoadOutcome::default();
        for click in clicks {
            let counted_at = self.counted_at(click);
            let counted_at = counted_at.context("a click that was never counted")?;
            let latency = Duration::try_from(counted_at - click.clicked_at);
            outcome.record(302, 302, latency.unwrap_or_default());
        }
        Ok(outcome)
    }

    fn counted_at(&self, click: &PublishedClick) -> Option<OffsetDateTime> {
        let seen = self.seen.get(&click.partition)?;
        let first = seen.partition_point(|(next_offset, _)| *next_offset <= click.offset);
        seen.get(first).map(|(_, at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use linkledger_testing::TestDatabase;
    use time::{Duration, macros::datetime};

    use super::{CountedTo, PublishedClick, WatchedPositions};

    #[tokio::test]
    async fn click_is_counted_when_the_position_is_behind_it() {
        let database = TestDatabase::create().await;
        let mut watched = WatchedPositions::connect(database.url()).await.unwrap();
        let begin = datetime!(2026-11-23 09:51 UTC);
        let position = |next_offset| CountedTo {
            partition: 3,
            next_offset,
        };
        for (second, next_offset) in [(0, 0), (1, 5), (2, 5), (3, 7)] {
            watched.add(&[position(next_offset)], begin + Duration::seconds(second));
        }
        let counted_after = |offset| {
            let click = PublishedClick {
                partition: 3,
                offset,
                clicked_at: begin,
            };
            let counted_at = watched.counted_at(&click)?;
            Some((counted_at - begin).whole_seconds())
        };
        assert_eq!(
            [0, 4, 5, 6, 7].map(counted_after),
            [Some(1), Some(1), Some(3), Some(3), None]
        );
        assert!(watched.has_counted(7) && !watched.has_counted(8));
    }
}
