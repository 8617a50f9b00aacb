//! Does linkledger slow down while its log grows?

mod store;

use crate::{
    answer::{QuestionAnswer, ReportRow, TargetValue},
    bench::BenchContext,
    data_set::DataSet,
    load,
};
use store::{Figures, Store};

/// Measures on each store, and the targets relative to the empty store.
const MEASURES: [(&str, &str, TargetValue); 6] = [
    ("creates", "creates/s", FAST),
    ("create, p50", "ms", PROMPT),
    ("create, p99", "ms", PROMPT),
    ("list", "lists/s", FAST),
    ("redirects, links not in memory", "redirects/s", FAST),
    ("redirects, links in memory", "redirects/s", FAST),
];
const FAST: TargetValue = TargetValue::AtLeast(0.9);
const PROMPT: TargetValue = TargetValue::AtMost(1.1);

/// The large stores.
const LARGE: [(&str, DataSet); 2] = [
    ("1 million events", DataSet::MILLION_EVENTS),
    ("10 million events", DataSet::TEN_MILLION_EVENTS),
];

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
    for store in &large {
        store.warm_up(bench).await?;
    }
    let arrivals = half_of_the_maximum(bench, &empty[0]).await?;
    let mut measured = [const { Vec::new() }; 3];
    for (_, empty) in bench.rounds("growth").zip(&empty[1..]) {
        for (store, rounds) in [empty].into_iter().chain(&large).zip(&mut measured) {
            rounds.push(store.measure(bench, arrivals).await?);
        }
    }
    Ok(QuestionAnswer {
        question: "growth",
        title: "Growth: large stores beside an empty one",
        rows: rows(&measured),
        latencies: Vec::new(),
        notes: vec![
            format!("Latencies of creates: {arrivals:.0} arrive per second at every store."),
            format!(
                "A list is the newest page of an account; redirects are to {} links of each store, \
                 asked once and then over and over.",
                store::FOLLOWED_LINKS
            ),
            "The empty store is another one in each round; the others grow by what is created."
                .to_owned(),
        ],
    })
}

/// Measures the rate of the empty store; half of the rate is the load for every store.
async fn half_of_the_maximum(bench: &BenchContext, empty: &Store) -> anyhow::Result<f64> {
    let stack = empty.start(bench).await?;
    let outcome =
        load::closed_loop(&empty.creates(&stack), store::WARM_UP, bench.duration()).await?;
    stack.stop().await?;
    Ok(outcome.all_expected()?.per_second() / 2.0)
}

fn rows(measured: &[Vec<Figures>; 3]) -> Vec<ReportRow> {
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
