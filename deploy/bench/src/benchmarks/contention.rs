//! Benchmark of contention: creates of one account by several processes, and of a quiet account
//! beside a busy one.

use std::time::Duration;

use futures::future::try_join_all;

use crate::{
    bench::BenchContext,
    data_set::DataSet,
    figures::Figures,
    load::{LoadOutcome, LoadTarget},
    report::Report,
    requests,
    stack::BrokerKind,
};

/// Connections to all processes together that create links of one account.
const CONNECTIONS: usize = 128;
/// Connections of a busy account beside a quiet one.
const BUSY_CONNECTIONS: usize = 500;
/// Creates per second of the quiet account.
const QUIET_PER_SECOND: f64 = 50.0;
/// Numbers of command-apis on one database.
const PROCESSES: [usize; 3] = [1, 2, 4];
const ALONE: &str = "the account alone";
const BESIDE: &str = "another account beside 500 connections: p50";

pub(super) async fn run(bench: &BenchContext) -> anyhow::Result<Report> {
    let mut figures = Figures::default();
    for _ in bench.rounds("contention") {
        for processes in PROCESSES {
            let outcome = one_account(bench, processes).await?;
            figures.add(&creates(processes), outcome.per_second());
            figures.add(&p99(processes), outcome.latency_ms(0.99));
        }
        quiet_account(bench, &mut figures).await?;
    }
    let [one, others @ ..] = PROCESSES;
    let mut rows = vec![
        figures.row(&creates(one), "creates/s"),
        figures.row(&p99(one), "ms"),
    ];
    for processes in others {
        let rates = figures.ratio(&creates(processes), "creates/s", &creates(one));
        rows.push(rates.to("one process").at_least(0.95));
        let latencies = figures.ratio(&p99(processes), "ms", &p99(one));
        rows.push(latencies.to("one process").at_most(1.5));
    }
    rows.push(figures.ratio(BESIDE, "ms", ALONE).at_most(2.0));
    Ok(Report::new("contention", "Creates of one account", rows))
}

fn creates(processes: usize) -> String {
    format!("one account, {processes} processes: creates")
}

fn p99(processes: usize) -> String {
    format!("one account, {processes} processes: p99")
}

/// Measures creates of one account by several processes.
async fn one_account(bench: &BenchContext, processes: usize) -> anyhow::Result<LoadOutcome> {
    let stage = bench.stage(DataSet::NO_LINKS, BrokerKind::Embedded).await?;
    let mut addresses = vec![stage.stack.api];
    let mut others = Vec::new();
    for number in 1..processes {
        let (process, api) = stage.stack.another_command_api(bench, number).await?;
        addresses.push(api);
        others.push(process);
    }
    let creates = requests::creates(&stage.accounts[..1]);
    let targets = addresses.into_iter();
    let targets: Vec<LoadTarget> = targets
        .map(|address| creates.to(address, CONNECTIONS / processes))
        .collect();
    let loads = targets.iter().map(|it| it.maximum(bench.duration()));
    let outcomes = try_join_all(loads).await?;
    drop(others);
    stage.stack.stop().await?;
    let mut all = LoadOutcome::default();
    all.seconds = bench.duration().as_secs_f64();
    for outcome in outcomes {
        all.add(&outcome);
    }
    Ok(all)
}

/// Measures creates of a quiet account: alone, and beside a busy account.
async fn quiet_account(bench: &BenchContext, figures: &mut Figures) -> anyhow::Result<()> {
    let stage = bench.stage(DataSet::NO_LINKS, BrokerKind::Embedded).await?;
    let quiet = requests::creates(&stage.accounts[1..2]).to(stage.stack.api, 16);
    let busy = requests::creates(&stage.accounts[..1]).to(stage.stack.api, BUSY_CONNECTIONS);
    let alone = quiet.open_loop(QUIET_PER_SECOND, bench.duration()).await?;
    let (_, beside) = tokio::try_join!(
        busy.closed_loop(Duration::ZERO, bench.duration()),
        quiet.open_loop(QUIET_PER_SECOND, bench.duration()),
    )?;
    stage.stack.stop().await?;
    figures.add(ALONE, alone.latency_ms(0.5));
    figures.add(BESIDE, beside.latency_ms(0.5));
    Ok(())
}
