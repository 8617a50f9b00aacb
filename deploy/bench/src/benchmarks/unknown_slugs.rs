//! Benchmark of visits to slugs without a link: their cost, and the delay of other requests beside them.

use std::time::Duration;

use linkledger_core::clock;

use super::get_link;
use crate::{
    bench::BenchContext,
    data_set::DataSet,
    figures::Figures,
    links::{ConsecutiveIds, DataSetLinks},
    load::{LoadTarget, Requests},
    report::Report,
    requests,
    stack::BrokerKind,
};

const CONNECTIONS: usize = 64;
/// Visits to unknown slugs per second, beside other requests.
const UNKNOWN_PER_SECOND: f64 = 10_000.0;
/// Other requests per second.
const OTHERS_PER_SECOND: f64 = 100.0;
/// Slugs that are visited as hits: few, so that all of them are in memory after the warm-up.
const KNOWN_SLUGS: usize = 1_000;
const UNKNOWN: &str = "unknown slugs, 64 connections";
const KNOWN: &str = "redirects from memory";
/// Requests alone, and beside unknown slugs: a read by id, and a redirect.
const ALONE: [&str; 2] = ["a link by id, alone", "a redirect, alone"];
const BESIDE: [&str; 2] = [
    "a link by id, beside 10000 unknown slugs/s: p99",
    "a redirect, beside 10000 unknown slugs/s: p99",
];

pub(super) async fn run(bench: &BenchContext) -> anyhow::Result<Report> {
    let stage = bench
        .stage(DataSet::ONE_ACCOUNT, BrokerKind::Embedded)
        .await?;
    let account = &stage.accounts[0];
    let mut links = DataSetLinks::of_account(&stage.url, account.account_id).await?;
    let ids = ConsecutiveIds::of(&links.ids)?;
    links.slugs.truncate(KNOWN_SLUGS);
    bench.server.checkpoint().await?;
    let unknown = Requests::new(404, |_, buffer| {
        let slug = clock::random_text(b"abcdefghijklmnopqrstuvwxyz", 12);
        requests::visit(&slug, "", buffer);
    });
    let unknown = unknown.to(stage.stack.short_host, CONNECTIONS);
    let known = requests::visits(links.slugs.into()).to(stage.stack.short_host, CONNECTIONS);
    let read = get_link::target(stage.stack.api, account, &ids);

    let mut figures = Figures::default();
    for _ in bench.rounds("unknown-slugs") {
        let duration = bench.duration();
        figures.add(KNOWN, known.maximum(duration).await?.per_second());
        figures.add(UNKNOWN, unknown.maximum(duration).await?.per_second());
        add_p99(
            &mut figures,
            ALONE,
            others([&read, &known], duration).await?,
        );
        let (_, beside) = tokio::try_join!(
            unknown.open_loop(UNKNOWN_PER_SECOND, duration),
            others([&read, &known], duration),
        )?;
        add_p99(&mut figures, BESIDE, beside);
    }
    stage.stack.stop().await?;
    let beside = |nth: usize| {
        let row = figures.ratio(BESIDE[nth], "ms", ALONE[nth]);
        row.to("alone").at_most(2.0)
    };
    let unknown = figures.ratio(UNKNOWN, "answers/s", KNOWN).at_least(0.3);
    let rows = [unknown, beside(1), beside(0)];
    Ok(
        Report::new("unknown-slugs", "Visits to unknown slugs", rows)
            .note("Every unknown slug is another one, well-formed."),
    )
}

/// Measures a few reads by id and a few redirects, and returns the 99th percentile of each.
async fn others(targets: [&LoadTarget; 2], duration: Duration) -> anyhow::Result<[f64; 2]> {
    let [reads, hits] = targets.map(|target| target.open_loop(OTHERS_PER_SECOND, duration));
    let (reads, hits) = tokio::try_join!(reads, hits)?;
    Ok([reads.latency_ms(0.99), hits.latency_ms(0.99)])
}

fn add_p99(figures: &mut Figures, names: [&str; 2], p99_ms: [f64; 2]) {
    for (name, ms) in names.into_iter().zip(p99_ms) {
        figures.add(name, ms);
    }
}
