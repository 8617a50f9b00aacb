//! How much memory do the services take, and how soon are they ready?

mod memory;
mod services;

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use crate::{
    accounts::LoadAccount,
    answer::{QuestionAnswer, ReportRow, TargetValue},
    bench::BenchContext,
    data_set::{self, DataSet},
    load::{self, LoadTarget},
    requests,
};
use memory::{most_while, resident_mib};
use services::{NAMES, Services};

const MEMORY: TargetValue = TargetValue::AtMost(64.0);
const READY: TargetValue = TargetValue::AtMost(1_000.0);
const CONNECTIONS: usize = 64;
/// Time from readiness until the memory at rest is measured.
const REST: Duration = Duration::from_secs(1);
const WARM_UP: Duration = Duration::from_secs(1);
/// Size of the cache: room for the links of `HOT` and little more. The links take the whole size of
/// the cache.
const HOT_CACHE_MIB: u32 = 156;
/// Data set whose links are followed once each, so that all links are in the cache.
const HOT: DataSet = DataSet::ONE_ACCOUNT;
/// Default size of the redirect cache.
const CACHE_MIB: u32 = 64;

/// Figures of a round, by service: milliseconds until ready, MiB at rest, MiB under load.
struct Round {
    ready_after_ms: [f64; 3],
    at_rest_mib: [f64; 3],
    loaded_mib: [f64; 3],
    creates_per_second: f64,
}

pub(super) async fn ask(bench: &BenchContext) -> anyhow::Result<QuestionAnswer> {
    let mut rounds = Vec::new();
    for _ in bench.rounds("footprint") {
        rounds.push(round(bench).await?);
    }
    let hot_mib = hot_mib(bench).await?;
    let creates: Vec<f64> = rounds.iter().map(|it| it.creates_per_second).collect();
    let mut rows = Vec::new();
    for (nth, name) in NAMES.into_iter().enumerate() {
        let mut row = |what: &str, unit, figure: fn(&Round) -> [f64; 3], reach| {
            let figures: Vec<f64> = rounds.iter().map(|round| figure(round)[nth]).collect();
            rows.push(ReportRow::absolute(
                format!("{name}, {what}"),
                unit,
                &figures,
                Some(reach),
            ));
        };
        row("start to ready", "ms", |it| it.ready_after_ms, READY);
        row("at rest", "MiB", |it| it.at_rest_mib, MEMORY);
        row("at full load", "MiB", |it| it.loaded_mib, MEMORY);
    }
    let what = format!(
        "query-api, {} hot links, besides its cache's bound",
        HOT.links()
    );
    rows.push(ReportRow::absolute(what, "MiB", &[hot_mib], Some(MEMORY)));
    rows.push(ReportRow::absolute(
        "the load meanwhile",
        "creates/s",
        &creates,
        None,
    ));
    Ok(QuestionAnswer {
        question: "footprint",
        title: "Memory of each service, and its start",
        rows,
        latencies: Vec::new(),
        notes: vec![
            "Memory is what is resident (Rss of smaps_rollup), the program's own pages included."
                .to_owned(),
            format!(
                "The hot links fill a cache of {HOT_CACHE_MIB} MiB, which is what is left out; \
                 measured once."
            ),
        ],
    })
}

async fn round(bench: &BenchContext) -> anyhow::Result<Round> {
    let url = DataSet::NO_LINKS
        .copy(&bench.server, "bench_footprint")
        .await?;
    let accounts = data_set::accounts(&url).await?;
    let services = Services::start(bench, &url, CACHE_MIB).await?;
    sleep(REST).await;
    let processes = services.processes()?;
    let mut at_rest_mib = [0.0; 3];
    for (mib, process) in at_rest_mib.iter_mut().zip(processes) {
        *mib = resident_mib(process)?;
    }
    let creates = creates(&services, &accounts);
    let load = load::closed_loop(&creates, WARM_UP, bench.duration());
    let (outcome, loaded_mib) = most_while(processes, load).await?;
    let ready_after_ms = services.ready_after_ms();
    services.stop().await?;
    Ok(Round {
        ready_after_ms,
        at_rest_mib,
        loaded_mib,
        creates_per_second: outcome.all_expected()?.per_second(),
    })
}

fn creates(services: &Services, accounts: &[LoadAccount]) -> LoadTarget {
    LoadTarget {
        address: services.api,
        connections: CONNECTIONS,
        requests: requests::creates(accounts),
        expected_status: 201,
    }
}

/// Measures the memory of query-api beyond the size of its full cache, in MiB.
async fn hot_mib(bench: &BenchContext) -> anyhow::Result<f64> {
    let url = HOT.copy(&bench.server, "bench_footprint").await?;
    let services = Services::start(bench, &url, HOT_CACHE_MIB).await?;
    let redirects = LoadTarget {
        address: services.short_host,
        connections: CONNECTIONS,
        requests: Arc::new(|number, buffer| {
            requests::visit(&DataSet::slug(number + 1), buffer);
        }),
        expected_status: 302,
    };
    let [_, _, query_api] = services.processes()?;
    let load = load::each_once(&redirects, HOT.links());
    let (outcome, [most]) = most_while([query_api], load).await?;
    outcome.all_expected()?;
    services.stop().await?;
    Ok(most - f64::from(HOT_CACHE_MIB))
}
