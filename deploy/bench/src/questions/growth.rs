//! Does linkledger slow down while its log grows?

mod store;

use crate::{
    answer::{Answer, Reach, Row},
    bench::Bench,
    data_set::DataSet,
    load,
};
use store::{Figures, Store};

/// What is measured on each store, and how far it may be from the empty one.
const MEASURES: [(&str, &str, Reach); 6] = [
    ("creates", "creates/s", FAST),
    ("create, p50", "ms", PROMPT),
    ("create, p99", "ms", PROMPT),
    ("list", "lists/s", FAST),
    ("redirects, links not in memory", "redirects/s", FAST),
    ("redirects, links in memory", "redirects/s", FAST),
];
const FAST: Reach = Reach::AtLeast(0.9);
const PROMPT: Reach = Reach::AtMost(1.1);

/// The stores beside the empty one.
const LARGE: [(&str, DataSet); 2] = [
    ("1 million events", DataSet::MILLION_EVENTS),
    ("10 million events", DataSet::TEN_MILLION_EVENTS),
];

pub(super) async fn ask(bench: &Bench) -> anyhow::Result<Answer> {
    // All copies first: Postgres makes a checkpoint with each, after which it would log the pages
    // of the large stores whole once more, in every round.
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
    Ok(Answer {
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

/// What the empty store takes, by which every store is asked the same.
async fn half_of_the_maximum(bench: &Bench, empty: &Store) -> anyhow::Result<f64> {
    let stack = empty.start(bench).await?;
    let outcome =
        load::closed_loop(&empty.creates(&stack), store::WARM_UP, bench.duration()).await?;
    stack.stop().await?;
    Ok(outcome.all_expected()?.per_second() / 2.0)
}

fn rows(measured: &[Vec<Figures>; 3]) -> Vec<Row> {
    let figures = |store: usize, measure: usize| -> Vec<f64> {
        measured[store].iter().map(|it| it[measure]).collect()
    };
    let mut rows = Vec::new();
    for (measure, (what, unit, reach)) in MEASURES.into_iter().enumerate() {
        for (nth, (name, _)) in LARGE.iter().enumerate() {
            rows.push(Row::ratio(
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
