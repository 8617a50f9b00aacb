//! How often can a link be read by its id in a second?

use std::{io::Write as _, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::ensure;
use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};

use crate::{
    accounts::LoadAccount,
    answer::{QuestionAnswer, ReportRow, TargetValue},
    bench::BenchContext,
    data_set::{self, DataSet},
    links::{ConsecutiveIds, DataSetLinks},
    load::{self, LoadTarget, RequestWriter},
    pgbench::{self, PgbenchScript},
    stack::{BrokerKind, StackProcess},
    statement,
};

const CONNECTIONS: usize = 64;
/// Warm-up before each measurement.
const WARM_UP: Duration = Duration::from_secs(1);
/// Duration of pgbench with each number of clients that is tried.
const TRIAL: Duration = Duration::from_secs(2);
/// Seed of the random numbers, so that every run reads the same links.
const SEED: u64 = 1;

pub(super) async fn ask(bench: &BenchContext) -> anyhow::Result<QuestionAnswer> {
    let url = DataSet::ONE_ACCOUNT
        .copy(&bench.server, "bench_get_link")
        .await?;
    let account = data_set::accounts(&url).await?.remove(0);
    let ids = ConsecutiveIds::of(
        &DataSetLinks::of_account(&url, account.account_id)
            .await?
            .ids,
    )?;
    let stack = StackProcess::start(bench, &url, BrokerKind::Embedded).await?;
    bench.server.checkpoint().await?;
    let target = target(stack.api, &account, &ids);
    let select = select(&url, (&account, &ids)).await?;
    let script = format!("\\set ms random({}, {})\n{select}", ids.first, ids.last);
    let script = PgbenchScript {
        clients: pgbench::fastest_clients(&url, &script, TRIAL).await?,
        text: &script,
        variables: &[],
    };

    let (mut measured, mut floor) = (Vec::new(), Vec::new());
    for _ in bench.rounds("get-link") {
        let outcome = load::closed_loop(&target, WARM_UP, bench.duration()).await?;
        measured.push(outcome.all_expected()?.per_second());
        floor.push(pgbench::transactions_per_second(&url, script, bench.duration()).await?);
    }
    stack.stop().await?;

    let baseline = format!("pgbench, SELECT of the row, {} clients", script.clients);
    Ok(QuestionAnswer {
        question: "get-link",
        title: "Reads of a link by its id",
        rows: vec![ReportRow::ratio(
            format!("GET /v1/links/{{id}}, {CONNECTIONS} connections"),
            "reads/s",
            &measured,
            (&baseline, &floor),
            Some(TargetValue::AtLeast(0.8)),
        )],
        latencies: Vec::new(),
        notes: vec![format!(
            "Any of {} links with the same probability, seed {SEED}.",
            ids.count()
        )],
    })
}

pub(super) fn target(
    address: SocketAddr,
    account: &LoadAccount,
    ids: &ConsecutiveIds,
) -> LoadTarget {
    LoadTarget {
        address,
        connections: CONNECTIONS,
        requests: gets(account, ids),
        expected_status: 200,
    }
}

/// Makes requests that each read a random link.
fn gets(account: &LoadAccount, ids: &ConsecutiveIds) -> RequestWriter {
    let (ids, key) = (ids.clone(), account.api_key.reveal().to_owned());
    Arc::new(move |number, buffer| {
        let id = ids.nth(SmallRng::seed_from_u64(SEED ^ number).random_range(0..ids.count()));
        write!(
            buffer,
            "GET /v1/links/{id} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n"
        )
        .expect("writing to a buffer never fails");
    })
}

/// Returns the statement that reads the link with the milliseconds `:ms` by its primary key. The
/// further statements of the service (position of the read table, parked account) are not part of
/// the baseline.
pub(super) async fn select(
    url: &str,
    (account, ids): (&LoadAccount, &ConsecutiveIds),
) -> anyhow::Result<String> {
    let select = format!(
        "SELECT link_id, slug, destination_url, version, created_at FROM read_model.links \
         WHERE generation = 1 AND account_id = '{}' AND link_id = {};",
        account.account_id.uuid(),
        ids.in_sql(":ms")
    );
    for index in [0, ids.count() / 2, ids.count() - 1] {
        let id = ids.nth(index);
        let milliseconds = (ids.first + index).to_string();
        let found = statement::link_ids(url, &select.replace(":ms", &milliseconds)).await?;
        ensure!(
            found == [id.uuid()],
            "pgbench would read {found:?} in place of {id}"
        );
    }
    Ok(select)
}
