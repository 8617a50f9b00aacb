//! Contention for one account: creates of one account by several processes, and of a quiet account
//! beside a busy one.

use std::{net::SocketAddr, time::Duration};

use futures::future::try_join_all;

use crate::{
    accounts::LoadAccount,
    answer::{QuestionAnswer, ReportRow, TargetValue},
    bench::BenchContext,
    command_api::CommandApiProcess,
    data_set::{self, DataSet},
    load::{self, LoadOutcome, LoadTarget},
    requests,
    stack::{BrokerKind, StackProcess},
};

/// Connections to all processes together that create links of one account.
const CONNECTIONS: usize = 128;
/// Connections of a busy account beside a quiet one.
const BUSY_CONNECTIONS: usize = 500;
/// Creates per second of the quiet account.
const QUIET_PER_SECOND: f64 = 50.0;
const WARM_UP: Duration = Duration::from_secs(1);
const DATABASE: &str = "bench_contention";

/// Figures by number of processes, and of a quiet account, of all rounds.
#[derive(Default)]
struct Figures {
    rates: [Vec<f64>; 3],
    p99: [Vec<f64>; 3],
    longest: [Vec<f64>; 3],
    quiet_alone: Vec<f64>,
    quiet_beside_busy: Vec<f64>,
}

/// Numbers of command-apis on one database.
const PROCESSES: [usize; 3] = [1, 2, 4];

pub(super) async fn ask(bench: &BenchContext) -> anyhow::Result<QuestionAnswer> {
    let mut figures = Figures::default();
    for _ in bench.rounds("contention") {
        figures.add_round(bench).await?;
    }
    Ok(figures.answer())
}

impl Figures {
    async fn add_round(&mut self, bench: &BenchContext) -> anyhow::Result<()> {
        for (index, processes) in PROCESSES.into_iter().enumerate() {
            let outcome = one_account(bench, processes).await?;
            self.rates[index].push(outcome.per_second());
            self.p99[index].push(outcome.latency_ms(0.99));
            self.longest[index].push(outcome.longest_ms());
        }
        let (alone, beside_busy) = quiet_account(bench).await?;
        self.quiet_alone.push(alone.latency_ms(0.5));
        self.quiet_beside_busy.push(beside_busy.latency_ms(0.5));
        Ok(())
    }

    fn answer(&self) -> QuestionAnswer {
        let mut rows = Vec::new();
        for (index, processes) in PROCESSES.into_iter().enumerate() {
            let what = |figure| format!("one account, {processes} processes: {figure}");
            let (rates, p99) = (&self.rates[index], &self.p99[index]);
            if index == 0 {
                rows.push(ReportRow::absolute(
                    what("creates"),
                    "creates/s",
                    rates,
                    None,
                ));
                rows.push(ReportRow::absolute(what("p99"), "ms", p99, None));
            } else {
                let one = ("one process", self.rates[0].as_slice());
                let least = Some(TargetValue::AtLeast(0.95));
                rows.push(ReportRow::ratio(
                    what("creates"),
                    "creates/s",
                    rates,
                    one,
                    least,
                ));
                let one = ("one process", self.p99[0].as_slice());
                let most = Some(TargetValue::AtMost(1.5));
                rows.push(ReportRow::ratio(what("p99"), "ms", p99, one, most));
            }
            rows.push(ReportRow::absolute(
                what("longest"),
                "ms",
                &self.longest[index],
                None,
            ));
        }
        let alone = ("the account alone", self.quiet_alone.as_slice());
        rows.push(ReportRow::ratio(
            "another account beside 500 connections: p50".to_owned(),
            "ms",
            &self.quiet_beside_busy,
            alone,
            Some(TargetValue::AtMost(2.0)),
        ));
        QuestionAnswer {
            question: "contention",
            title: "Creates of one account",
            rows,
            latencies: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// Measures creates of one account by several processes.
async fn one_account(bench: &BenchContext, processes: usize) -> anyhow::Result<LoadOutcome> {
    let (stack, accounts) = start(bench).await?;
    let mut addresses = vec![stack.api];
    let mut others = Vec::new();
    for number in 1..processes {
        let process = CommandApiProcess::start(bench, &stack, number).await?;
        addresses.push(process.api);
        others.push(process);
    }
    let targets: Vec<LoadTarget> = addresses
        .into_iter()
        .map(|address| creates(address, CONNECTIONS / processes, &accounts[..1]))
        .collect();
    let loads = targets
        .iter()
        .map(|target| load::closed_loop(target, WARM_UP, bench.duration()));
    let outcomes = try_join_all(loads).await?;
    drop(others);
    stack.stop().await?;
    let mut all = LoadOutcome::default();
    all.seconds = bench.duration().as_secs_f64();
    for outcome in outcomes {
        all.add(&outcome.all_expected()?);
    }
    Ok(all)
}

/// Measures creates of a quiet account: alone, and beside a busy account.
async fn quiet_account(bench: &BenchContext) -> anyhow::Result<(LoadOutcome, LoadOutcome)> {
    let (stack, accounts) = start(bench).await?;
    let quiet = creates(stack.api, 16, &accounts[1..2]);
    let busy = creates(stack.api, BUSY_CONNECTIONS, &accounts[..1]);
    let alone = load::open_loop(&quiet, QUIET_PER_SECOND, bench.duration()).await?;
    let (busy, beside_busy) = tokio::join!(
        load::closed_loop(&busy, Duration::ZERO, bench.duration()),
        load::open_loop(&quiet, QUIET_PER_SECOND, bench.duration()),
    );
    busy?.all_expected()?;
    stack.stop().await?;
    Ok((alone.all_expected()?, beside_busy?.all_expected()?))
}

fn creates(address: SocketAddr, connections: usize, accounts: &[LoadAccount]) -> LoadTarget {
    LoadTarget {
        address,
        connections,
        requests: requests::creates(accounts),
        expected_status: 201,
    }
}

async fn start(bench: &BenchContext) -> anyhow::Result<(StackProcess, Vec<LoadAccount>)> {
    let url = DataSet::NO_LINKS.copy(&bench.server, DATABASE).await?;
    let accounts = data_set::accounts(&url).await?;
    let stack = StackProcess::start(bench, &url, BrokerKind::Embedded).await?;
    Ok((stack, accounts))
}
