//! Does linkledger slow down while its log grows?

mod store;

use crate::{
    answer::{QuestionAnswer, ReportRow, TargetValue},
    bench::BenchContext,
    data_set::DataSet,
    rounds::Spread,
};
use store::{Burst, Figures, Store};

/// Measures of a steady store, and the targets relative to the empty store.
const MEASURES: [(&str, &str, TargetValue); 5] = [
    ("create, p50", "ms", TargetValue::AtMost(1.15)),
    ("create, p99", "ms", TargetValue::AtMost(1.25)),
    ("list", "lists/s", FAST),
    ("redirects, links not in memory", "redirects/s", FAST),
    ("redirects, links in memory", "redirects/s", FAST),
];
const FAST: TargetValue = TargetValue::AtLeast(0.9);
/// Least rate of creates after a checkpoint, to that of the empty store.
const FAST_AFTER_CHECKPOINT: TargetValue = TargetValue::AtLeast(0.7);
/// Most write-ahead log of a create, in kB.
const WAL_STEADY: TargetValue = TargetValue::AtMost(4.0);
const WAL_AFTER_CHECKPOINT: TargetValue = TargetValue::AtMost(12.0);

/// The large stores.
const LARGE: [(&str, DataSet); 3] = [
    ("1 million events", DataSet::MILLION_EVENTS),
    ("10 million events", DataSet::TEN_MILLION_EVENTS),
    (
        "10 million events of 1 million accounts",
        DataSet::MILLION_ACCOUNTS,
    ),
];

/// Measurements of the empty store and of a large one, in turn.
struct InTurn<T> {
    empty: Vec<T>,
    large: Vec<T>,
}

impl<T> InTurn<T> {
    const fn new() -> Self {
        Self {
            empty: Vec::new(),
            large: Vec::new(),
        }
    }
}

/// A large store beside the empty one.
struct Comparison {
    store: &'static str,
    /// Creates per second that arrive while latencies are measured.
    arrivals: f64,
    after_checkpoint: InTurn<Burst>,
    steady: InTurn<Burst>,
    figures: InTurn<Figures>,
}

pub(super) async fn ask(bench: &BenchContext) -> anyhow::Result<QuestionAnswer> {
    let mut stores = Vec::new();
    // One large store after the other: two would evict each other's pages from the memory.
    for (name, set) in LARGE {
        stores.push(Comparison::measure(bench, name, set).await?);
        bench.server.drop_copies().await?;
    }
    let mut rows = rates("creates", &stores, |it| &it.steady, FAST);
    rows.extend(steady_rows(&stores));
    let what = "write-ahead log of a create";
    rows.extend(wal_rows(what, &stores, |it| &it.steady, WAL_STEADY));
    rows.extend(rates(
        "creates after a checkpoint",
        &stores,
        |it| &it.after_checkpoint,
        FAST_AFTER_CHECKPOINT,
    ));
    rows.extend(wal_rows(
        "write-ahead log of a create after a checkpoint",
        &stores,
        |it| &it.after_checkpoint,
        WAL_AFTER_CHECKPOINT,
    ));
    Ok(QuestionAnswer {
        question: "growth",
        title: "Growth: large stores beside an empty one",
        rows,
        latencies: Vec::new(),
        notes: notes(&stores),
    })
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
        let mut after_checkpoint = InTurn::new();
        for _ in bench.rounds(&format!("growth, {name}, after a checkpoint")) {
            bench.server.checkpoint().await?;
            after_checkpoint.empty.push(empty[0].burst(bench).await?);
            bench.server.checkpoint().await?;
            after_checkpoint.large.push(large.burst(bench).await?);
        }
        large.warm_up(bench).await?;
        let maxima: Vec<f64> = after_checkpoint.empty.iter().map(Burst::rate).collect();
        let mut this = Self {
            store: name,
            arrivals: Spread::of(&maxima).median / 2.0,
            after_checkpoint,
            steady: InTurn::new(),
            figures: InTurn::new(),
        };
        for (_, empty) in bench.rounds(&format!("growth, {name}")).zip(&empty[1..]) {
            this.steady.empty.push(empty.burst(bench).await?);
            let figures = empty.measure(bench, this.arrivals).await?;
            this.figures.empty.push(figures);
            this.steady.large.push(large.burst(bench).await?);
            let figures = large.measure(bench, this.arrivals).await?;
            this.figures.large.push(figures);
        }
        for burst in &this.steady.large {
            burst.ensure_no_checkpoint()?;
        }
        Ok(this)
    }
}

fn steady_rows(stores: &[Comparison]) -> Vec<ReportRow> {
    let mut rows = Vec::new();
    for (measure, (what, unit, reach)) in MEASURES.into_iter().enumerate() {
        let of = |rounds: &[Figures]| rounds.iter().map(|it| it[measure]).collect::<Vec<_>>();
        rows.extend(stores.iter().map(|it| {
            ReportRow::ratio(
                format!("{what}, {}", it.store),
                unit,
                &of(&it.figures.large),
                ("the empty store", &of(&it.figures.empty)),
                Some(reach),
            )
        }));
    }
    rows
}

/// Returns a row for the rate of creates of each large store.
fn rates(
    what: &str,
    stores: &[Comparison],
    bursts: impl Fn(&Comparison) -> &InTurn<Burst>,
    reach: TargetValue,
) -> Vec<ReportRow> {
    let of = |bursts: &[Burst]| bursts.iter().map(Burst::rate).collect::<Vec<_>>();
    let rows = stores.iter().map(|it| {
        ReportRow::ratio(
            format!("{what}, {}", it.store),
            "creates/s",
            &of(&bursts(it).large),
            ("the empty store", &of(&bursts(it).empty)),
            Some(reach),
        )
    });
    rows.collect()
}

/// Returns a row for the write-ahead log of a create of each large store.
fn wal_rows(
    what: &str,
    stores: &[Comparison],
    bursts: impl Fn(&Comparison) -> &InTurn<Burst>,
    reach: TargetValue,
) -> Vec<ReportRow> {
    let rows = stores.iter().map(|it| {
        let bursts = &bursts(it).large;
        let kilobytes: Vec<f64> = bursts.iter().map(|burst| burst.wal_kb).collect();
        ReportRow::absolute(
            format!("{what}, {}", it.store),
            "kB",
            &kilobytes,
            Some(reach),
        )
    });
    rows.collect()
}

fn notes(stores: &[Comparison]) -> Vec<String> {
    let median = |bursts: &[Burst]| {
        let images: Vec<f64> = bursts.iter().map(|burst| burst.page_images).collect();
        Spread::of(&images).median
    };
    let of_each = stores.iter().map(|it| {
        format!(
            "{}: {:.0} creates arrive per second while latencies are measured; full-page images of a create: \
             {:.2} after a checkpoint, {:.2} steady.",
            it.store,
            it.arrivals,
            median(&it.after_checkpoint.large),
            median(&it.steady.large)
        )
    });
    let of_all = [
        format!(
            "A list is the newest page of an account; redirects are to {} links of each store, asked once and \
             then over and over.",
            store::FOLLOWED_LINKS
        ),
        "In the rounds of steady stores the empty store is another one each time; the others grow by what is created."
            .to_owned(),
    ];
    of_all.into_iter().chain(of_each).collect()
}
