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
    for store in &large {
        store.warm_up(bench).await?;
    }
    let maxima: Vec<f64> = after_checkpoint[0].iter().map(Burst::rate).collect();
    let arrivals = Spread::of(&maxima).median / 2.0;
    let mut bursts: OfStores<Burst> = Default::default();
    let mut steady: OfStores<Figures> = Default::default();
    for (_, empty) in bench.rounds("growth").zip(&empty[1..]) {
        let stores = [empty].into_iter().chain(&large);
        for ((store, bursts), figures) in stores.zip(&mut bursts).zip(&mut steady) {
            bursts.push(store.burst(bench).await?);
            figures.push(store.measure(bench, arrivals).await?);
        }
    }
    for bursts in &bursts[1..] {
        for burst in bursts {
            burst.ensure_steady()?;
        }
    }
    let mut rows = rates("creates", &bursts, FAST);
    rows.extend(steady_rows(&steady));
    rows.extend(wal_rows("write-ahead log of a create", &bursts, WAL_STEADY));
    rows.extend(rates(
        "creates after a checkpoint",
        &after_checkpoint,
        FAST_AFTER_CHECKPOINT,
    ));
    rows.extend(wal_rows(
        "write-ahead log of a create after a checkpoint",
        &after_checkpoint,
        WAL_AFTER_CHECKPOINT,
    ));
    Ok(QuestionAnswer {
        question: "growth",
        title: "Growth: large stores beside an empty one",
        rows,
        latencies: Vec::new(),
        notes: notes(arrivals, &after_checkpoint, &bursts),
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

/// Returns a row for the rate of creates of each large store.
fn rates(what: &str, bursts: &OfStores<Burst>, reach: TargetValue) -> Vec<ReportRow> {
    let rates = bursts
        .each_ref()
        .map(|bursts| bursts.iter().map(Burst::rate).collect::<Vec<_>>());
    let [empty, large @ ..] = &rates;
    let rows = LARGE.iter().zip(large).map(|((name, _), rates)| {
        let baseline = ("the empty store", &empty[..]);
        ReportRow::ratio(
            format!("{what}, {name}"),
            "creates/s",
            rates,
            baseline,
            Some(reach),
        )
    });
    rows.collect()
}

/// Returns a row for the write-ahead log of a create of each large store.
fn wal_rows(what: &str, bursts: &OfStores<Burst>, reach: TargetValue) -> Vec<ReportRow> {
    let rows = LARGE.iter().zip(&bursts[1..]).map(|((name, _), bursts)| {
        let kilobytes: Vec<f64> = bursts.iter().map(|burst| burst.wal_kb).collect();
        ReportRow::absolute(format!("{what}, {name}"), "kB", &kilobytes, Some(reach))
    });
    rows.collect()
}

fn notes(
    arrivals: f64,
    after_checkpoint: &OfStores<Burst>,
    steady: &OfStores<Burst>,
) -> Vec<String> {
    let median = |bursts: &[Burst]| {
        let images: Vec<f64> = bursts.iter().map(|burst| burst.page_images).collect();
        Spread::of(&images).median
    };
    let stores = LARGE.iter().zip(&after_checkpoint[1..]).zip(&steady[1..]);
    let images = stores.map(|(((name, _), after), steady)| {
        let (after, steady) = (median(after), median(steady));
        format!("{name}: {after:.2} after a checkpoint, {steady:.2} steady")
    });
    vec![
        format!("Latencies of creates: {arrivals:.0} arrive per second at every store."),
        format!(
            "A list is the newest page of an account; redirects are to {} links of each store, asked once and \
             then over and over.",
            store::FOLLOWED_LINKS
        ),
        "In the rounds of steady stores the empty store is another one each time; the others grow by what is created."
            .to_owned(),
        format!(
            "Full-page images of a create: {}.",
            images.collect::<Vec<_>>().join("; ")
        ),
    ]
}
