//! Benchmark of batches of creates: rate, processor time, and the delay of single creates beside batches.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::ensure;
use serde::Deserialize;

use crate::{
    bench::{BenchContext, Stage},
    create_baseline::{self as baseline, CREATES_AT_ONCE},
    data_set::DataSet,
    figures::Figures,
    load::{HttpConnection, LoadTarget},
    process::ServiceProcess,
    processor_time::processor_seconds,
    read_tables::ReadTables,
    report::Report,
    requests,
    stack::BrokerKind,
};

/// Number of links of a batch, the most that a request may have.
const ITEMS: usize = CREATES_AT_ONCE as usize;
/// Connections that send batches.
const BATCH_CONNECTIONS: usize = 16;
/// Connections that create single links.
const CONNECTIONS: usize = 64;
/// Creates per second whose latency is measured.
const SINGLE_PER_SECOND: f64 = 200.0;

const BATCHES: &str = "batches of 100, 16 connections, to the roof";
const ROOF: &str = "pgbench, 100 each";
const BATCH_TIME: &str = "processor time of command-api for a batch of 100";
const SINGLES_TIME: &str = "100 requests";
const BESIDE: &str = "p99 of a single create beside a client that sends batch after batch";
const ALONE: &str = "without batches";

pub(super) async fn run(bench: &BenchContext) -> anyhow::Result<Report> {
    let mut figures = Figures::default();
    for _ in bench.rounds("batches") {
        add_round(bench, &mut figures).await?;
    }
    let rows = [
        figures.ratio(BATCHES, "links/s", ROOF).at_least(0.6),
        figures.ratio(BATCH_TIME, "ms", SINGLES_TIME).at_most(0.2),
        figures.ratio(BESIDE, "ms", ALONE).at_most(1.5),
    ];
    Ok(Report::new("batches", "Links created in batches", rows).note(format!(
        "1,000 accounts; relay, projector and query-api run as well. Latencies: {SINGLE_PER_SECOND} single \
         creates a second."
    )))
}

async fn add_round(bench: &BenchContext, figures: &mut Figures) -> anyhow::Result<()> {
    let (url, accounts) = bench.copy(DataSet::NO_LINKS).await?;
    let roof = baseline::many_at_once_per_second(&url, &accounts, bench.duration()).await?;
    figures.add(ROOF, roof);
    let service = Service::start(bench).await?;
    service.check_batch().await?;
    service.add_latencies(bench, figures).await?;
    let singles = requests::creates(&service.stage.accounts).to(service.api, CONNECTIONS);
    let (_, time_ms) = service.measure(bench, &singles).await?;
    figures.add(SINGLES_TIME, time_ms);
    let batches = requests::batches(&service.stage.accounts, ITEMS);
    let batches = batches.to(service.api, BATCH_CONNECTIONS);
    let (per_second, time_ms) = service.measure(bench, &batches).await?;
    figures.add(BATCHES, per_second);
    figures.add(BATCH_TIME, time_ms);
    service.stage.stack.stop().await
}

/// A stack without links, and a command-api of its own for the requests.
struct Service {
    stage: Stage,
    command_api: ServiceProcess,
    api: SocketAddr,
}

/// Members of the answer to a batch.
#[derive(Deserialize)]
struct Shown {
    items: Vec<ShownItem>,
}

#[derive(Deserialize)]
struct ShownItem {
    status: u16,
}

impl Service {
    async fn start(bench: &BenchContext) -> anyhow::Result<Self> {
        let stage = bench.stage(DataSet::NO_LINKS, BrokerKind::Embedded).await?;
        let (command_api, api) = stage.stack.another_command_api(bench, 1).await?;
        Ok(Self {
            stage,
            command_api,
            api,
        })
    }

    /// Checks that a batch creates all of its links: the load looks at the status of the answer only, which is the
    /// same if items are refused.
    async fn check_batch(&self) -> anyhow::Result<()> {
        let mut request = Vec::new();
        (requests::batches(&self.stage.accounts, ITEMS).write)(0, &mut request);
        let mut connection = HttpConnection::open(self.api).await?;
        let shown: Shown = connection.json(&request, 207).await?;
        ensure!(
            shown.items.len() == ITEMS && shown.items.iter().all(|item| item.status == 201),
            "a batch does not create all of its links"
        );
        Ok(())
    }

    /// Measures links per second, and the processor time of command-api for 100 links in ms. The log has the number
    /// of links: a batch is answered with the same status if some of its items are refused.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    async fn measure(
        &self,
        bench: &BenchContext,
        target: &LoadTarget,
    ) -> anyhow::Result<(f64, f64)> {
        self.stage.stack.until_settled().await?;
        let mut tables = ReadTables::connect(&self.stage.url).await?;
        let process = self.command_api.pid()?;
        let (events, used) = (tables.events().await?, processor_seconds(process)?);
        let begun = Instant::now();
        target.closed_loop(Duration::ZERO, bench.duration()).await?;
        let seconds = begun.elapsed().as_secs_f64();
        let used = processor_seconds(process)? - used;
        // A create appends two events.
        let links = ((tables.events().await? - events) / 2) as f64;
        Ok((links / seconds, used * 1e3 * ITEMS as f64 / links))
    }

    /// Measures single creates: alone, and beside batches of other accounts on one connection.
    async fn add_latencies(
        &self,
        bench: &BenchContext,
        figures: &mut Figures,
    ) -> anyhow::Result<()> {
        let accounts = &self.stage.accounts;
        let (of_singles, of_batches) = accounts.split_at(accounts.len() / 2);
        let singles = requests::creates(of_singles).to(self.api, CONNECTIONS);
        let batches = requests::batches(of_batches, ITEMS).to(self.api, 1);
        let alone = singles
            .open_loop(SINGLE_PER_SECOND, bench.duration())
            .await?;
        let (beside, _) = tokio::try_join!(
            singles.open_loop(SINGLE_PER_SECOND, bench.duration()),
            batches.closed_loop(Duration::ZERO, bench.duration()),
        )?;
        figures.add(ALONE, alone.latency_ms(0.99));
        figures.add(BESIDE, beside.latency_ms(0.99));
        Ok(())
    }
}
