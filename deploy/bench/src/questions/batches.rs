//! Links created in batches: rate, processor time, and the delay of single creates beside batches.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde::Deserialize;

use crate::{
    accounts::LoadAccount,
    answer::{QuestionAnswer, ReportRow, TargetValue},
    baseline::creates::{self as baseline, CREATES_AT_ONCE},
    bench::BenchContext,
    command_api::CommandApiProcess,
    data_set::{self, DataSet},
    load::{self, HttpConnection, LoadOutcome, LoadTarget, RequestWriter},
    processor_time::processor_seconds,
    read_tables::ReadTables,
    requests,
    stack::{BrokerKind, StackProcess},
};

/// Number of links of a batch, the most that a request may have.
const ITEMS: usize = CREATES_AT_ONCE as usize;
/// Connections that send batches.
const BATCH_CONNECTIONS: usize = 16;
/// Connections that create single links.
const CONNECTIONS: usize = 64;
/// Creates per second whose latency is measured.
const SINGLE_PER_SECOND: f64 = 200.0;
const DATABASE: &str = "bench_batches";

/// Figures of all rounds.
#[derive(Default)]
struct Figures {
    /// Links per second.
    batches: Vec<f64>,
    roof: Vec<f64>,
    /// Processor time of command-api for 100 links, in ms.
    batch_cost: Vec<f64>,
    single_cost: Vec<f64>,
    /// p99 of a single create, in ms.
    alone: Vec<f64>,
    beside_batches: Vec<f64>,
}

pub(super) async fn ask(bench: &BenchContext) -> anyhow::Result<QuestionAnswer> {
    let mut figures = Figures::default();
    for _ in bench.rounds("batches") {
        figures.add_round(bench).await?;
    }
    Ok(figures.answer())
}

impl Figures {
    async fn add_round(&mut self, bench: &BenchContext) -> anyhow::Result<()> {
        let (url, accounts) = without_links(bench).await?;
        let roof = baseline::many_at_once_per_second(&url, &accounts, bench.duration()).await?;
        self.roof.push(roof);
        let service = Service::start(bench).await?;
        service.check_batch().await?;
        let (alone, beside_batches) = service.latencies(bench).await?;
        self.alone.push(alone.latency_ms(0.99));
        self.beside_batches.push(beside_batches.latency_ms(0.99));
        let (_, cost) = service.measure(bench, Requests::Singles).await?;
        self.single_cost.push(cost);
        let (batches, cost) = service.measure(bench, Requests::Batches).await?;
        self.batches.push(batches);
        self.batch_cost.push(cost);
        service.stack.stop().await
    }

    fn answer(&self) -> QuestionAnswer {
        let roof = ("pgbench, 100 each", self.roof.as_slice());
        let requests = ("100 requests", self.single_cost.as_slice());
        let alone = ("without batches", self.alone.as_slice());
        QuestionAnswer {
            question: "batches",
            title: "Links created in batches",
            rows: vec![
                ReportRow::ratio(
                    format!("batches of {ITEMS}, {BATCH_CONNECTIONS} connections, to the roof"),
                    "links/s",
                    &self.batches,
                    roof,
                    Some(TargetValue::AtLeast(0.6)),
                ),
                ReportRow::ratio(
                    format!("processor time of command-api for a batch of {ITEMS}"),
                    "ms",
                    &self.batch_cost,
                    requests,
                    Some(TargetValue::AtMost(0.2)),
                ),
                ReportRow::ratio(
                    "p99 of a single create beside a client that sends batch after batch",
                    "ms",
                    &self.beside_batches,
                    alone,
                    Some(TargetValue::AtMost(1.5)),
                ),
            ],
            latencies: Vec::new(),
            notes: vec![format!(
                "1,000 accounts; relay, projector and query-api run as well. Latencies: {SINGLE_PER_SECOND} single \
                 creates a second."
            )],
        }
    }
}

/// Kinds of requests that create links.
#[derive(Debug, Clone, Copy)]
enum Requests {
    Batches,
    Singles,
}

/// A stack without links, and a command-api of its own for the requests.
struct Service {
    stack: StackProcess,
    command_api: CommandApiProcess,
    accounts: Vec<LoadAccount>,
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
        let (url, accounts) = without_links(bench).await?;
        let stack = StackProcess::start(bench, &url, BrokerKind::Embedded).await?;
        let command_api = CommandApiProcess::start(bench, &stack, 1).await?;
        Ok(Self {
            stack,
            command_api,
            accounts,
        })
    }

    /// Checks that a batch creates all of its links: the load looks at the status of the answer only, which is the
    /// same if items are refused.
    async fn check_batch(&self) -> anyhow::Result<()> {
        let mut request = Vec::new();
        requests::batches(&self.accounts, ITEMS)(0, &mut request);
        let mut connection = HttpConnection::open(self.command_api.api).await?;
        let answer = connection.exchange(&request).await?;
        let shown: Shown = serde_json::from_slice(answer.body)?;
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
        requests: Requests,
    ) -> anyhow::Result<(f64, f64)> {
        let target = self.target(requests);
        self.stack.until_settled().await?;
        let before = (
            self.links().await?,
            processor_seconds(self.command_api.pid()?)?,
        );
        let begun = Instant::now();
        let outcome = load::closed_loop(&target, Duration::ZERO, bench.duration()).await?;
        let seconds = begun.elapsed().as_secs_f64();
        let used = processor_seconds(self.command_api.pid()?)? - before.1;
        outcome.all_expected()?;
        let links = (self.links().await? - before.0) as f64;
        Ok((
            links / seconds,
            used * 1e3 * f64::from(CREATES_AT_ONCE) / links,
        ))
    }

    async fn links(&self) -> anyhow::Result<i64> {
        let mut tables = ReadTables::connect(self.stack.variable("DATABASE_URL")?).await?;
        // A create appends two events.
        Ok(tables.events().await? / 2)
    }

    /// Measures single creates: alone, and beside batches of other accounts on one connection.
    async fn latencies(&self, bench: &BenchContext) -> anyhow::Result<(LoadOutcome, LoadOutcome)> {
        let (of_singles, of_batches) = self.accounts.split_at(self.accounts.len() / 2);
        let singles = self.target_of(CONNECTIONS, 201, requests::creates(of_singles));
        let batches = self.target_of(1, 207, requests::batches(of_batches, ITEMS));
        let alone = load::open_loop(&singles, SINGLE_PER_SECOND, bench.duration()).await?;
        let (beside_batches, batches) = tokio::join!(
            load::open_loop(&singles, SINGLE_PER_SECOND, bench.duration()),
            load::closed_loop(&batches, Duration::ZERO, bench.duration()),
        );
        batches?.all_expected()?;
        Ok((alone.all_expected()?, beside_batches?.all_expected()?))
    }

    fn target(&self, requests: Requests) -> LoadTarget {
        match requests {
            Requests::Batches => self.target_of(
                BATCH_CONNECTIONS,
                207,
                requests::batches(&self.accounts, ITEMS),
            ),
            Requests::Singles => {
                self.target_of(CONNECTIONS, 201, requests::creates(&self.accounts))
            }
        }
    }

    fn target_of(
        &self,
        connections: usize,
        expected_status: u16,
        requests: RequestWriter,
    ) -> LoadTarget {
        LoadTarget {
            address: self.command_api.api,
            connections,
            requests,
            expected_status,
        }
    }
}

async fn without_links(bench: &BenchContext) -> anyhow::Result<(String, Vec<LoadAccount>)> {
    let url = DataSet::NO_LINKS.copy(&bench.server, DATABASE).await?;
    let accounts = data_set::accounts(&url).await?;
    Ok((url, accounts))
}
