//! How many links can be created in a second, in many accounts and in one?

use std::time::Duration;

use crate::{
    accounts::LoadAccount,
    answer::{QuestionAnswer, ReportRow, TargetValue},
    baseline::creates as baseline,
    bench::BenchContext,
    data_set::{self, DataSet},
    load::{self, LoadTarget},
    pgbench::CLIENTS,
    processor_time::{family_seconds, processor_seconds},
    requests,
    rounds::Spread,
    stack::{BrokerKind, StackProcess},
};

const ACCOUNTS: usize = DataSet::NO_LINKS.accounts as usize;
const WARM_UP: Duration = Duration::from_secs(1);
const DATABASE: &str = "bench_creates";

/// Creates per second by kind of measurement, of all rounds.
#[derive(Default)]
struct Figures {
    connections_64: Vec<f64>,
    /// Processor time of a create on 64 connections, in µs.
    processor_us: Vec<f64>,
    connections_256: Vec<f64>,
    one_account: Vec<f64>,
    one_by_one: [Vec<f64>; CLIENTS.len()],
    many_at_once: Vec<f64>,
}

pub(super) async fn ask(bench: &BenchContext) -> anyhow::Result<QuestionAnswer> {
    let mut figures = Figures::default();
    for _ in bench.rounds("creates") {
        figures.add_round(bench).await?;
    }
    Ok(figures.answer())
}

impl Figures {
    /// Measures baselines and service in turn, so that a disturbance in a part of the round affects
    /// both.
    async fn add_round(&mut self, bench: &BenchContext) -> anyhow::Result<()> {
        let [clients_16, clients_32, clients_64] = &mut self.one_by_one;
        clients_16.push(one_by_one(bench, CLIENTS[0]).await?);
        let (per_second, processor_us) = service(bench, 64, ACCOUNTS).await?;
        self.connections_64.push(per_second);
        self.processor_us.push(processor_us);
        clients_32.push(one_by_one(bench, CLIENTS[1]).await?);
        self.connections_256
            .push(service(bench, 256, ACCOUNTS).await?.0);
        clients_64.push(one_by_one(bench, CLIENTS[2]).await?);
        self.one_account.push(service(bench, 64, 1).await?.0);
        self.many_at_once.push(many_at_once(bench).await?);
        Ok(())
    }

    fn answer(&self) -> QuestionAnswer {
        let best = self.best_one_by_one();
        let row = |what: &str, measured: &[f64], baseline: (&str, &[f64]), least: f64| {
            let reach = Some(TargetValue::AtLeast(least));
            ReportRow::ratio(what, "creates/s", measured, baseline, reach)
        };
        let one_by_one = ("pgbench, one each", best.as_slice());
        let many_at_once = ("pgbench, 100 each", self.many_at_once.as_slice());
        let (of_64, of_256) = (&self.connections_64, &self.connections_256);
        let many_accounts = ("1,000 accounts", of_64.as_slice());
        QuestionAnswer {
            question: "creates",
            title: "Creates per second",
            rows: vec![
                row("64 connections", of_64, one_by_one, 2.5),
                row("256 connections", of_256, one_by_one, 2.5),
                row("64 connections, to the roof", of_64, many_at_once, 0.45),
                row("256 connections, to the roof", of_256, many_at_once, 0.45),
                row(
                    "64 connections, one account",
                    &self.one_account,
                    many_accounts,
                    0.8,
                ),
                ReportRow::absolute(
                    "processor time of services, broker and Postgres for each",
                    "µs",
                    &self.processor_us,
                    Some(TargetValue::AtMost(150.0)),
                ),
            ],
            latencies: Vec::new(),
            notes: vec![self.note()],
        }
    }

    /// Returns the best rate of pgbench in each round.
    fn best_one_by_one(&self) -> Vec<f64> {
        let [clients_16, clients_32, clients_64] = &self.one_by_one;
        clients_16
            .iter()
            .zip(clients_32)
            .zip(clients_64)
            .map(|((a, b), c)| a.max(*b).max(*c))
            .collect()
    }

    fn note(&self) -> String {
        let tried = CLIENTS.iter().zip(&self.one_by_one);
        let medians: Vec<String> = tried
            .map(|(clients, rounds)| format!("{clients}: {:.0}", Spread::of(rounds).median))
            .collect();
        format!(
            "Creates per second of pgbench, one in each transaction, by its clients (medians): {}.",
            medians.join(", ")
        )
    }
}

async fn one_by_one(bench: &BenchContext, clients: u32) -> anyhow::Result<f64> {
    let (url, accounts) = without_links(bench).await?;
    baseline::one_by_one_per_second(&url, &accounts, clients, bench.duration()).await
}

async fn many_at_once(bench: &BenchContext) -> anyhow::Result<f64> {
    let (url, accounts) = without_links(bench).await?;
    baseline::many_at_once_per_second(&url, &accounts, bench.duration()).await
}

/// Returns the creates per second of the stack, and the processor time of each in µs.
async fn service(
    bench: &BenchContext,
    connections: usize,
    accounts: usize,
) -> anyhow::Result<(f64, f64)> {
    let (url, all) = without_links(bench).await?;
    let stack = StackProcess::start(bench, &url, BrokerKind::Embedded).await?;
    let target = LoadTarget {
        address: stack.api,
        connections,
        requests: requests::creates(&all[..accounts]),
        expected_status: 201,
    };
    let warm_up = load::closed_loop(&target, Duration::ZERO, WARM_UP).await?;
    warm_up.all_expected()?;
    let postgres = bench.server.pid();
    let used = || anyhow::Ok(processor_seconds(stack.pid()?)? + family_seconds(postgres)?);
    let before = used()?;
    let outcome = load::closed_loop(&target, Duration::ZERO, bench.duration()).await?;
    let used = used()? - before;
    stack.stop().await?;
    let outcome = outcome.all_expected()?;
    let creates = outcome.per_second() * outcome.seconds;
    Ok((outcome.per_second(), 1e6 * used / creates))
}

/// Makes a database without links.
async fn without_links(bench: &BenchContext) -> anyhow::Result<(String, Vec<LoadAccount>)> {
    let url = DataSet::NO_LINKS.copy(&bench.server, DATABASE).await?;
    let accounts = data_set::accounts(&url).await?;
    Ok((url, accounts))
}
