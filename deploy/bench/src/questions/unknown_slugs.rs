//! Visits to slugs without a link: their cost, and the delay of other requests beside them.

use std::{sync::Arc, time::Duration};

use linkledger_core::clock;

use super::get_link;
use crate::{
    answer::{QuestionAnswer, ReportRow, TargetValue},
    bench::BenchContext,
    data_set::{self, DataSet},
    links::{ConsecutiveIds, DataSetLinks},
    load::{self, LoadOutcome, LoadTarget},
    requests,
    stack::{BrokerKind, StackProcess},
};

const CONNECTIONS: usize = 64;
const WARM_UP: Duration = Duration::from_secs(1);
/// Visits to unknown slugs per second, beside other requests.
const UNKNOWN_PER_SECOND: f64 = 10_000.0;
/// Other requests per second.
const OTHERS_PER_SECOND: f64 = 100.0;
/// Slugs that are visited as hits: few, so that all of them are in memory after the warm-up.
const KNOWN_SLUGS: usize = 1_000;

/// The targets of the loads.
struct Targets {
    unknown: LoadTarget,
    known: LoadTarget,
    api: LoadTarget,
}

pub(super) async fn ask(bench: &BenchContext) -> anyhow::Result<QuestionAnswer> {
    let url = DataSet::ONE_ACCOUNT
        .copy(&bench.server, "bench_unknown_slugs")
        .await?;
    let account = data_set::accounts(&url).await?.remove(0);
    let mut links = DataSetLinks::of_account(&url, account.account_id).await?;
    let ids = ConsecutiveIds::of(&links.ids)?;
    links.slugs.truncate(KNOWN_SLUGS);
    let stack = StackProcess::start(bench, &url, BrokerKind::Embedded).await?;
    bench.server.checkpoint().await?;
    let targets = Targets {
        unknown: unknown(&stack),
        known: LoadTarget {
            address: stack.short_host,
            connections: CONNECTIONS,
            requests: requests::visits(links.slugs.into()),
            expected_status: 302,
        },
        api: get_link::target(stack.api, &account, &ids),
    };

    let mut figures = Figures::default();
    for _ in bench.rounds("unknown-slugs") {
        figures.add_round(&targets, bench.duration()).await?;
    }
    stack.stop().await?;
    Ok(figures.answer())
}

/// Makes visits to random slugs.
fn unknown(stack: &StackProcess) -> LoadTarget {
    LoadTarget {
        address: stack.short_host,
        connections: CONNECTIONS,
        requests: Arc::new(|_, buffer| {
            let slug = clock::random_text(b"abcdefghijklmnopqrstuvwxyz", 12);
            requests::visit(&slug, buffer);
        }),
        expected_status: 404,
    }
}

/// Figures of all rounds: rates per second, and 99th percentiles in milliseconds.
#[derive(Default)]
struct Figures {
    hits: Vec<f64>,
    misses: Vec<f64>,
    hit_alone: Vec<f64>,
    hit_beside: Vec<f64>,
    read_alone: Vec<f64>,
    read_beside: Vec<f64>,
}

impl Figures {
    async fn add_round(&mut self, targets: &Targets, duration: Duration) -> anyhow::Result<()> {
        let hits = load::closed_loop(&targets.known, WARM_UP, duration).await?;
        self.hits.push(hits.all_expected()?.per_second());
        let misses = load::closed_loop(&targets.unknown, WARM_UP, duration).await?;
        self.misses.push(misses.all_expected()?.per_second());
        let (read, hit) = others(targets, duration).await?;
        self.read_alone.push(read);
        self.hit_alone.push(hit);
        let (unknown, others) = tokio::join!(
            load::open_loop(&targets.unknown, UNKNOWN_PER_SECOND, duration),
            others(targets, duration),
        );
        unknown?.all_expected()?;
        let (read, hit) = others?;
        self.read_beside.push(read);
        self.hit_beside.push(hit);
        Ok(())
    }

    fn answer(&self) -> QuestionAnswer {
        let beside = |what, measured, alone: &[f64]| {
            let most = Some(TargetValue::AtMost(2.0));
            let what = format!("{what}, beside {UNKNOWN_PER_SECOND} unknown slugs/s: p99");
            ReportRow::ratio(what, "ms", measured, ("alone", alone), most)
        };
        QuestionAnswer {
            question: "unknown-slugs",
            title: "Visits to unknown slugs",
            rows: vec![
                ReportRow::ratio(
                    format!("unknown slugs, {CONNECTIONS} connections"),
                    "answers/s",
                    &self.misses,
                    ("redirects from memory", &self.hits),
                    Some(TargetValue::AtLeast(0.3)),
                ),
                beside("a redirect", &self.hit_beside, &self.hit_alone),
                beside("a link by id", &self.read_beside, &self.read_alone),
            ],
            latencies: Vec::new(),
            notes: vec!["Every unknown slug is another one, well-formed.".to_owned()],
        }
    }
}

/// Measures a few reads by id and a few redirects, and returns the 99th percentile of each.
async fn others(targets: &Targets, duration: Duration) -> anyhow::Result<(f64, f64)> {
    let (reads, hits) = tokio::join!(
        load::open_loop(&targets.api, OTHERS_PER_SECOND, duration),
        load::open_loop(&targets.known, OTHERS_PER_SECOND, duration),
    );
    let p99 = |outcome: LoadOutcome| anyhow::Ok(outcome.all_expected()?.latency_ms(0.99));
    Ok((p99(reads?)?, p99(hits?)?))
}
