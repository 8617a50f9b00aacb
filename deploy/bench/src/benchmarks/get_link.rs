//! Benchmark of reading a link by its id: reads per second.

use std::{net::SocketAddr, time::Duration};

use linkledger_http::route_table;
use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};

use crate::{
    accounts::LoadAccount,
    bench::BenchContext,
    data_set::DataSet,
    figures::Figures,
    links::{ConsecutiveIds, DataSetLinks},
    load::{LoadTarget, Requests},
    pgbench::{self, PgbenchScript},
    report::Report,
    requests,
    stack::BrokerKind,
};

const CONNECTIONS: usize = 64;
/// Duration of pgbench with each number of clients that is tried.
pub(super) const TRIAL: Duration = Duration::from_secs(2);
/// Seed of the random numbers, so that every run reads the same links.
const SEED: u64 = 1;
const READS: &str = "GET /v1/links/{id}, 64 connections";
const SELECT: &str = "pgbench, SELECT of the row";

pub(super) async fn run(bench: &BenchContext) -> anyhow::Result<Report> {
    let stage = bench
        .stage(DataSet::ONE_ACCOUNT, BrokerKind::Embedded)
        .await?;
    let (url, account) = (&stage.url, &stage.accounts[0]);
    let links = DataSetLinks::of_account(url, account.account_id).await?;
    let ids = ConsecutiveIds::of(&links.ids)?;
    bench.server.checkpoint().await?;
    let target = target(stage.stack.api, account, &ids);
    let select = select(account, &ids);
    let script = format!("\\set ms random({}, {})\n{select}", ids.first, ids.last);
    let script = PgbenchScript {
        clients: pgbench::fastest_clients(url, &script, TRIAL).await?,
        text: &script,
        variables: &[],
    };
    let mut figures = Figures::default();
    for _ in bench.rounds("get-link") {
        figures.add(READS, target.maximum(bench.duration()).await?.per_second());
        let rate = pgbench::transactions_per_second(url, script, bench.duration()).await?;
        figures.add(SELECT, rate);
    }
    stage.stack.stop().await?;
    let row = figures.ratio(READS, "reads/s", SELECT).at_least(0.8);
    let row = row.to(format!("{SELECT}, {} clients", script.clients));
    Ok(
        Report::new("get-link", "Reads of a link by its id", [row]).note(format!(
            "Any of {} links with the same probability, seed {SEED}.",
            ids.count()
        )),
    )
}

/// Makes requests that each read a random link.
pub(super) fn target(
    address: SocketAddr,
    account: &LoadAccount,
    ids: &ConsecutiveIds,
) -> LoadTarget {
    let (ids, account) = (ids.clone(), account.clone());
    let reads = Requests::new(200, move |number, buffer| {
        let id = ids.nth(SmallRng::seed_from_u64(SEED ^ number).random_range(0..ids.count()));
        let path = format!("{}/{id}", route_table::LINKS);
        buffer.extend_from_slice(requests::get(&account, &path).as_bytes());
    });
    reads.to(address, CONNECTIONS)
}

/// Returns the statement that reads the link with the milliseconds `:ms` by its primary key. The
/// further statements of the service (position of the read table, parked account) are not part of
/// the baseline.
pub(super) fn select(account: &LoadAccount, ids: &ConsecutiveIds) -> String {
    format!(
        "SELECT link_id, slug, destination_url, version, created_at FROM read_model.links \
         WHERE generation = 1 AND account_id = '{}' AND link_id = {};",
        account.account_id.uuid(),
        ids.in_sql(":ms")
    )
}
