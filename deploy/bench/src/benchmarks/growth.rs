//! Benchmark of growth: creates, lists and redirects beside a large log, compared with an empty one.

mod store;

use crate::{
    bench::BenchContext,
    data_set::DataSet,
    figures::{Figures, Goal, ReportRow},
    report::Report,
};
use store::{CREATES, IMAGES, Store, WAL};

/// A store without links, the baseline of the large ones.
const EMPTY: &str = "the empty store";
const STEADY: &str = "";
const AFTER_CHECKPOINT: &str = " after a checkpoint";
const FAST: Goal = Goal::AtLeast(0.9);
/// Measures of a steady store between its creates and their write-ahead log, with the goals of
/// their ratios to the empty store.
const MEASURES: [(&str, &str, Goal); 5] = [
    ("create, p50", "ms", Goal::AtMost(1.15)),
    ("create, p99", "ms", Goal::AtMost(1.25)),
    ("list", "lists/s", FAST),
    ("redirects, links not in memory", "redirects/s", FAST),
    ("redirects, links in memory", "redirects/s", FAST),
];
/// The large stores.
const LARGE: [(&str, DataSet); 3] = [
    ("1 million events", DataSet::MILLION_EVENTS),
    ("10 million events", DataSet::TEN_MILLION_EVENTS),
    (
        "10 million events of 1 million accounts",
        DataSet::MILLION_ACCOUNTS,
    ),
];

/// Figures of a large store, and of the empty one in turn.
struct Comparison {
    name: &'static str,
    /// Creates per second that arrive while latencies are measured.
    arrivals: f64,
    figures: Figures,
}

pub(super) async fn run(bench: &BenchContext) -> anyhow::Result<Report> {
    let mut stores = Vec::new();
    // One large store after the other: two would evict each other's pages from the memory.
    for (name, set) in LARGE {
        stores.push(Comparison::measure(bench, name, set).await?);
        bench.server.drop_copies().await?;
    }
    let mut rows = Vec::new();
    let mut add = |row: &dyn Fn(&Comparison) -> ReportRow| rows.extend(stores.iter().map(row));
    add(&|it| it.ratio((CREATES, STEADY), "creates/s", FAST));
    for (what, unit, goal) in MEASURES {
        add(&|it| it.ratio((what, STEADY), unit, goal));
    }
    add(&|it| it.wal(STEADY, 4.0));
    let fast = Goal::AtLeast(0.7);
    add(&|it| it.ratio((CREATES, AFTER_CHECKPOINT), "creates/s", fast));
    add(&|it| it.wal(AFTER_CHECKPOINT, 12.0));
    let title = "Growth: large stores beside an empty one";
    let mut report = Report::new("growth", title, rows).note(format!(
        "A list is the newest page of an account; redirects are to {} links of each store, asked once and then over \
         and over. In the rounds of steady stores the empty store is another one each time; the others grow by what \
         is created.",
        store::FOLLOWED_LINKS
    ));
    for it in &stores {
        let images = |phase| it.figures.median(&key(it.name, IMAGES, phase));
        report = report.note(format!(
            "{}: {:.0} creates arrive per second while latencies are measured; full-page images of a create: \
             {:.2} after a checkpoint, {:.2} steady.",
            it.name,
            it.arrivals,
            images(AFTER_CHECKPOINT),
            images(STEADY)
        ));
    }
    Ok(report)
}

/// Returns the name of figures of a store.
fn key(store: &str, what: &str, phase: &str) -> String {
    format!("{what}{phase}, {store}")
}

impl Comparison {
    async fn measure(
        bench: &BenchContext,
        name: &'static str,
        set: DataSet,
    ) -> anyhow::Result<Self> {
        // All copies are made first: Postgres makes a checkpoint with each copy, and after a checkpoint
        // would log whole pages of the large store again, in every round.
        let mut empty = Vec::new();
        for round in 0..=bench.options.rounds {
            empty.push(Store::copy(bench, DataSet::NO_LINKS, round).await?);
        }
        let large = Store::copy(bench, set, 0).await?;
        let mut figures = Figures::default();
        for _ in bench.rounds(&format!("growth, {name}, after a checkpoint")) {
            for (name, store) in [(EMPTY, &empty[0]), (name, &large)] {
                bench.server.checkpoint().await?;
                let burst = store.burst(bench).await?;
                burst.add_to(&mut figures, |what| key(name, what, AFTER_CHECKPOINT));
            }
        }
        large.warm_up(bench).await?;
        let arrivals = figures.median(&key(EMPTY, CREATES, AFTER_CHECKPOINT)) / 2.0;
        for (_, empty) in bench.rounds(&format!("growth, {name}")).zip(&empty[1..]) {
            for (name, store) in [(EMPTY, empty), (name, &large)] {
                let burst = store.burst(bench).await?;
                if name != EMPTY {
                    burst.ensure_no_checkpoint()?;
                }
                burst.add_to(&mut figures, |what| key(name, what, STEADY));
                let measured = store.measure(bench, arrivals).await?;
                for ((what, ..), figure) in MEASURES.into_iter().zip(measured) {
                    figures.add(&key(name, what, STEADY), figure);
                }
            }
        }
        Ok(Self {
            name,
            arrivals,
            figures,
        })
    }

    /// Makes a row of the ratio to the empty store.
    fn ratio(&self, (what, phase): (&str, &str), unit: &'static str, goal: Goal) -> ReportRow {
        let [large, empty] = [self.name, EMPTY].map(|store| key(store, what, phase));
        let row = self.figures.ratio(&large, unit, &empty);
        row.to(EMPTY).reach(goal)
    }

    /// Makes a row of the write-ahead log of a create.
    fn wal(&self, phase: &str, most_kb: f64) -> ReportRow {
        let row = self.figures.row(&key(self.name, WAL, phase), "kB");
        row.at_most(most_kb)
    }
}
