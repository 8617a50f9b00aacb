//! Does linkledger slow down while its log grows?

mod store;

use crate::{
    answer::{QuestionAnswer, ReportRow, TargetValue},
    bench::BenchContext,
    data_set::DataSet,
    load,
    rounds::Spread,
};
use store::{Burst, Figures, Store};

/// Measures of a steady store, and the targets relative to the empty store.
const MEASURES: [(&str, &str, TargetValue); 6] = [
    ("creates", "creates/s", FAST),
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
const STORES: usize = 1 + LARGE.len();

/// Figures of the empty store and of the large ones, each of all rounds.
type OfStores<T> = [Vec<T>; STORES];

pub(super) async fn ask(bench: &BenchContext) -> anyhow::Result<QuestionAnswer> {
    // All copies are made first: Postgres makes a checkpoint with each copy, and after a checkpoint
    // would log whole pages of the large stores again, in every round.
    let mut empty = Vec::new();
    for round in 0..=bench.options.rounds {
        empty.push(Store::copy(bench, DataSet::NO_LINKS, round).await?);
    }
    let mut large = Vec::new();
    for (_, set) in LARGE {
        large.push(Store::copy(bench, set, 0).await?);
    }
    let after_checkpoint = after_checkpoint(bench, &empty[0], &large).await?;
    let mut steady_bursts = Vec::new();
    for store in &large {
        steady_bursts.push(store.warm_up(bench).await?);
    }
    let arrivals = half_of_the_maximum(bench, &empty[0]).await?;
    let mut steady: OfStores<Figures> = Default::default();
    for (_, empty) in bench.rounds("growth").zip(&empty[1..]) {
        for (store, rounds) in [empty].into_iter().chain(&large).zip(&mut steady) {
            rounds.push(store.measure(bench, arrivals).await?);
        }
    }
    let mut rows = steady_rows(&steady);
    rows.extend(burst_rows(&after_checkpoint, &steady_bursts));
    Ok(QuestionAnswer {
        question: "growth",
        title: "Growth: large stores beside an empty one",
        rows,
        latencies: Vec::new(),
        notes: notes(arrivals, &after_checkpoint, &steady_bursts),
    })
}

/// Measures creates right after a checkpoint, on each store in turn.
async fn after_checkpoint(
    bench: &BenchContext,
    empty: &Store,
    large: &[Store],
) -> anyhow::Result<OfStores<Burst>> {
    let mut bursts: OfStores<Burst> = Default::default();
    for _ in bench.rounds("growth, after a checkpoint") {
        for (store, rounds) in [empty].into_iter().chain(large).zip(&mut bursts) {
            bench.server.checkpoint().await?;
            rounds.push(store.burst(bench).await?);
        }
    }
    Ok(bursts)
}

/// Measures the rate of the empty store; half of the rate is the load for every store.
async fn half_of_the_maximum(bench: &BenchContext, empty: &Store) -> anyhow::Result<f64> {
    let stack = empty.start(bench).await?;
    let outcome =
        load::closed_loop(&empty.creates(&stack), store::WARM_UP, bench.duration()).await?;
    stack.stop().await?;
    Ok(outcome.all_expected()?.per_second() / 2.0)
}

fn steady_rows(measured: &OfStores<Figures>) -> Vec<ReportRow> {
    let figures = |store: usize, measure: usize| -> Vec<f64> {
        measured[store].iter().map(|it| it[measure]).collect()
    };
    let mut rows = Vec::new();
    for (measure, (what, unit, reach)) in MEASURES.into_iter().enumerate() {
        for (nth, (name, _)) in LARGE.iter().enumerate() {
            rows.push(ReportRow::ratio(
                format!("{what}, {name}"),
                unit,
                &figures(nth + 1, measure),
                ("the empty store", &figures(0, measure)),
                Some(reach),
            ));
        }
    }
    rows
}

fn burst_rows(after_checkpoint: &OfStores<Burst>, steady: &[Burst]) -> Vec<ReportRow> {
    let figures = |store: usize, figure: fn(&Burst) -> f64| -> Vec<f64> {
        after_checkpoint[store].iter().map(figure).collect()
    };
    let rate: fn(&Burst) -> f64 = |burst| burst.creates_per_second;
    let mut rows = Vec::new();
    for (nth, (name, _)) in LARGE.iter().enumerate() {
        rows.push(ReportRow::ratio(
            format!("creates after a checkpoint, {name}"),
            "creates/s",
            &figures(nth + 1, rate),
            ("the empty store", &figures(0, rate)),
            Some(FAST_AFTER_CHECKPOINT),
        ));
    }
    for (nth, (name, _)) in LARGE.iter().enumerate() {
        rows.push(ReportRow::absolute(
            format!("write-ahead log of a create after a checkpoint, {name}"),
            "kB",
            &figures(nth + 1, |burst| burst.wal_kb),
            Some(WAL_AFTER_CHECKPOINT),
        ));
    }
    for ((name, _), burst) in LARGE.iter().zip(steady) {
        rows.push(ReportRow::absolute(
            format!("write-ahead log of a create, {name}"),
            "kB",
            &[burst.wal_kb],
            Some(WAL_STEADY),
        ));
    }
    rows
}

fn notes(arrivals: f64, after_checkpoint: &OfStores<Burst>, steady: &[Burst]) -> Vec<String> {
    let images = LARGE.iter().zip(&after_checkpoint[1..]).zip(steady);
    let images = images.map(|(((name, _), after), steady)| {
        let after: Vec<f64> = after.iter().map(|burst| burst.page_images).collect();
        let after = Spread::of(&after).median;
        format!(
            "{name}: {after:.2} after a checkpoint, {:.2} steady",
            steady.page_images
        )
    });
    vec![
        format!("Latencies of creates: {arrivals:.0} arrive per second at every store."),
        format!(
            "A list is the newest page of an account; redirects are to {} links of each store, asked once and \
             then over and over.",
            store::FOLLOWED_LINKS
        ),
        "The empty store is another one in each round; the others grow by what is created."
            .to_owned(),
        format!(
            "Full-page images of a create: {}.",
            images.collect::<Vec<_>>().join("; ")
        ),
    ]
}
