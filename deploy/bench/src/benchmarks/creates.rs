//! Benchmark of creates: links per second, in many accounts and in one.

use std::time::Duration;

use crate::{
    bench::BenchContext,
    create_baseline as baseline,
    data_set::DataSet,
    figures::Figures,
    load::WARM_UP,
    pgbench::CLIENTS,
    processor_time::{family_seconds, processor_seconds},
    report::Report,
    requests,
    stack::BrokerKind,
};

const ACCOUNTS: usize = DataSet::NO_LINKS.accounts as usize;
const OF_64: &str = "64 connections";
const OF_256: &str = "256 connections";
const ONE_ACCOUNT: &str = "64 connections, one account";
const PROCESSOR_TIME: &str = "processor time of services, broker and Postgres for each";
const ONE_EACH: &str = "pgbench, one each";
const MANY_EACH: &str = "pgbench, 100 each";

pub(super) async fn run(bench: &BenchContext) -> anyhow::Result<Report> {
    let mut figures = Figures::default();
    for _ in bench.rounds("creates") {
        add_round(bench, &mut figures).await?;
    }
    let row = |what, baseline| figures.ratio(what, "creates/s", baseline);
    let roof = |what| row(what, MANY_EACH).named(format!("{what}, to the roof"));
    let rows = [
        row(OF_64, ONE_EACH).at_least(2.5),
        row(OF_256, ONE_EACH).at_least(2.5),
        roof(OF_64).at_least(0.45),
        roof(OF_256).at_least(0.45),
        row(ONE_ACCOUNT, OF_64).to("1,000 accounts").at_least(0.8),
        figures.row(PROCESSOR_TIME, "µs").at_most(150.0),
    ];
    let medians = CLIENTS.map(|it| format!("{it}: {:.0}", figures.median(&one_each(it))));
    Ok(
        Report::new("creates", "Creates per second", rows).note(format!(
            "Creates per second of pgbench, one in each transaction, by its clients (medians): {}.",
            medians.join(", ")
        )),
    )
}

fn one_each(clients: u32) -> String {
    format!("pgbench, {clients} clients")
}

/// Measures baselines and service in turn, so that a disturbance in a part of the round affects
/// both.
async fn add_round(bench: &BenchContext, figures: &mut Figures) -> anyhow::Result<()> {
    let mut best: f64 = 0.0;
    let loads = [
        (OF_64, 64, ACCOUNTS),
        (OF_256, 256, ACCOUNTS),
        (ONE_ACCOUNT, 64, 1),
    ];
    for (clients, (what, connections, accounts)) in CLIENTS.into_iter().zip(loads) {
        let (url, all) = bench.copy(DataSet::NO_LINKS).await?;
        let rate = baseline::one_by_one_per_second(&url, &all, clients, bench.duration()).await?;
        figures.add(&one_each(clients), rate);
        best = best.max(rate);
        let (per_second, processor_us) = service(bench, connections, accounts).await?;
        figures.add(what, per_second);
        if what == OF_64 {
            figures.add(PROCESSOR_TIME, processor_us);
        }
    }
    figures.add(ONE_EACH, best);
    let (url, all) = bench.copy(DataSet::NO_LINKS).await?;
    let rate = baseline::many_at_once_per_second(&url, &all, bench.duration()).await?;
    figures.add(MANY_EACH, rate);
    Ok(())
}

/// Returns the creates per second of the stack, and the processor time of each in µs.
async fn service(
    bench: &BenchContext,
    connections: usize,
    accounts: usize,
) -> anyhow::Result<(f64, f64)> {
    let stage = bench.stage(DataSet::NO_LINKS, BrokerKind::Embedded).await?;
    let creates = requests::creates(&stage.accounts[..accounts]);
    let target = creates.to(stage.stack.api, connections);
    target.closed_loop(Duration::ZERO, WARM_UP).await?;
    let (stack, postgres) = (stage.stack.pid()?, bench.server.pid());
    let used = || anyhow::Ok(processor_seconds(stack)? + family_seconds(postgres)?);
    let before = used()?;
    let outcome = target.closed_loop(Duration::ZERO, bench.duration()).await?;
    let used = used()? - before;
    stage.stack.stop().await?;
    let creates = outcome.per_second() * outcome.seconds;
    Ok((outcome.per_second(), 1e6 * used / creates))
}
