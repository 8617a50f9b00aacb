//! Benchmark of redirects: visits per second, with and without a record of their clicks.

use std::{net::SocketAddr, sync::Arc, thread::available_parallelism, time::Duration};

use anyhow::{Context as _, ensure};
use linkledger_servers::free_address;
use linkledger_service::metrics::{
    CACHE_REQUESTS_TOTAL, CLICKS_LOST_TOTAL, CLICKS_MERGED_TOTAL, CLICKS_RECORDED_TOTAL,
    CLICKS_UNACKNOWLEDGED,
};
use nix::unistd::Pid;
use tokio::time::{sleep, timeout};

use crate::{
    bare_redirect::{self, BareServer, are_alike},
    bench::{BenchContext, Stage},
    click_positions::ClickPositions,
    data_set::DataSet,
    figures::Figures,
    links::DataSetLinks,
    load::{HttpConnection, LoadTarget, Requests, WARM_UP},
    metrics,
    process::ServiceProcess,
    processor_time::processor_seconds,
    report::Report,
    requests,
    stack::BrokerKind,
    visits::{EXPONENT, SEED},
};

const CONNECTIONS: usize = 64;
/// Cache of redirects, with room for all links.
const CACHE_MIB: &str = "256";
const PUBLISH_TIMEOUT: Duration = Duration::from_mins(1);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

const RATE: &str = "Zipf over 1000000 links, 64 connections, no clicks";
const RATE_WITH_CLICKS: &str = "Zipf over 1000000 links, 64 connections, clicks recorded";
const BARE: &str = "bare axum handler";
const TIME: &str = "processor time of query-api for each, no clicks";
const TIME_WITH_CLICKS: &str = "processor time of query-api for each, clicks recorded";
const P99: &str = "p99 at half load, no clicks";
const P99_WITH_CLICKS: &str = "p99 at half load, clicks recorded";

pub(super) async fn run(bench: &BenchContext) -> anyhow::Result<Report> {
    // The stack is the broker, and makes the salts; its short host is not visited. Clicks are not
    // counted here: a backlog would slow down the servers that come next.
    let stage = bench
        .stage(DataSet::ONE_ACCOUNT, BrokerKind::Embedded)
        .await?;
    let links = DataSetLinks::of_account(&stage.url, stage.accounts[0].account_id).await?;
    let links: Arc<[String]> = links.slugs.into();
    let visits = requests::clicks(Arc::clone(&links))?;
    ClickPositions::connect(&stage.url).await?.pause().await?;
    let recording = QueryApi::start(bench, &stage, &visits, "on").await?;
    let not_recording = QueryApi::start(bench, &stage, &visits, "off").await?;
    bench.server.checkpoint().await?;
    let bare = bare_server(&not_recording.target).await?;
    let baseline = visits.to(bare.address, CONNECTIONS);
    // Visitors of a long-running service have visited every link.
    for server in [&recording, &not_recording] {
        let once = requests::visits(Arc::clone(&links)).to(server.target.address, CONNECTIONS);
        once.each_once(links.len() as u64).await?;
    }
    let mut figures = Figures::default();
    let mut busiest: f64 = 0.0;
    let metrics = recording.process.metrics().await?;
    for _ in bench.rounds("redirects") {
        let duration = bench.duration();
        let names = [RATE_WITH_CLICKS, TIME_WITH_CLICKS];
        let (rate, share) = recording.measure(duration, &mut figures, names).await?;
        let half = rate / 2.0;
        recording.until_published().await?;
        let names = [RATE, TIME];
        let (_, other_share) = not_recording.measure(duration, &mut figures, names).await?;
        busiest = busiest.max(share).max(other_share);
        figures.add(BARE, baseline.maximum(duration).await?.per_second());
        let seen = recording.target.open_loop(half, duration).await?;
        figures.add(P99_WITH_CLICKS, seen.latency_ms(0.99));
        recording.until_published().await?;
        let seen = not_recording.target.open_loop(half, duration).await?;
        figures.add(P99, seen.latency_ms(0.99));
    }
    let notes = notes(&metrics, &recording.process.metrics().await?);
    recording.process.stop().await?;
    not_recording.process.stop().await?;
    stage.stack.stop().await?;
    let rows = [
        figures.ratio(RATE, "redirects/s", BARE).at_least(0.8),
        figures.ratio(RATE_WITH_CLICKS, "redirects/s", BARE),
        figures.row(TIME, "µs"),
        figures
            .ratio(TIME_WITH_CLICKS, "µs", TIME)
            .to("no clicks")
            .at_most(1.8),
        figures
            .ratio(P99_WITH_CLICKS, "ms", P99)
            .to("no clicks")
            .at_most(1.2),
    ];
    let title = "Redirects per second, and what a recorded click adds";
    let report = Report::new("redirects", title, rows).note(notes);
    // A load without a free core would hide the speed of the servers.
    Ok(report.note(format!(
        "The load is one thread; in its busiest round it used {:.0} % of a core against query-api.",
        100.0 * busiest
    )))
}

/// Formats what the metrics of query-api with clicks say about the rounds.
fn notes(before: &str, after: &str) -> String {
    let percent = |part: (&str, &[&str]), whole: (&str, &[&str])| {
        let more =
            |(name, labels)| metrics::sum(after, name, labels) - metrics::sum(before, name, labels);
        100.0 * more(part) / more(whole).max(1.0)
    };
    let recorded: (&str, &[&str]) = (CLICKS_RECORDED_TOTAL, &[]);
    format!(
        "Visits: Zipf distribution, exponent {EXPONENT}, seed {SEED}. Every link was visited once before; {:.1} % \
         of the redirects with clicks came from memory. Of their clicks {:.1} % were merged and {:.1} % lost; they \
         are not counted meanwhile.",
        percent(
            (CACHE_REQUESTS_TOTAL, &["\"redirects\"", "\"hit\""]),
            (CACHE_REQUESTS_TOTAL, &["\"redirects\""]),
        ),
        percent((CLICKS_MERGED_TOTAL, &[]), recorded),
        percent((CLICKS_LOST_TOTAL, &[]), recorded),
    )
}

/// A query-api as a process of its own, and visits to its links.
struct QueryApi {
    process: ServiceProcess,
    target: LoadTarget,
}

impl QueryApi {
    /// Starts query-api beside a stack, whose broker gets the clicks.
    async fn start(
        bench: &BenchContext,
        stage: &Stage,
        visits: &Requests,
        clicks: &str,
    ) -> anyhow::Result<Self> {
        let addresses: [SocketAddr; 2] = [free_address()?, free_address()?];
        let [api, short_host] = addresses.map(|address| address.to_string());
        let mut process = ServiceProcess::start(
            bench,
            ("query-api", &format!("query-api-clicks-{clicks}")),
            &["serve", "--api-listen", &api, "--short-listen", &short_host],
            &[
                ("DATABASE_URL", &stage.url),
                ("KAFKA_BROKERS", stage.stack.variable("KAFKA_BROKERS")?),
                ("RATE_LIMIT", "0"),
                ("CLICKS", clicks),
                ("REDIRECT_CACHE_MIB", CACHE_MIB),
            ],
        )?;
        process.until_ready().await?;
        Ok(Self {
            process,
            target: visits.to(addresses[1], CONNECTIONS),
        })
    }

    /// Adds redirects per second, and the processor time of each in µs. Returns the rate, and the
    /// processor time of the load as a share of one core.
    async fn measure(
        &self,
        duration: Duration,
        figures: &mut Figures,
        [rate, time]: [&str; 2],
    ) -> anyhow::Result<(f64, f64)> {
        self.target.closed_loop(Duration::ZERO, WARM_UP).await?;
        let process = self.process.pid()?;
        let used = || anyhow::Ok([processor_seconds(process)?, processor_seconds(Pid::this())?]);
        let before = used()?;
        let outcome = self.target.closed_loop(Duration::ZERO, duration).await?;
        let after = used()?;
        let answers = outcome.per_second() * outcome.seconds;
        figures.add(rate, outcome.per_second());
        figures.add(time, 1e6 * (after[0] - before[0]) / answers);
        let of_load = after[1] - before[1];
        Ok((outcome.per_second(), of_load / outcome.seconds))
    }

    /// Waits until the broker has acknowledged all clicks, which would use processor time beside
    /// the next server.
    async fn until_published(&self) -> anyhow::Result<()> {
        let published = async {
            while metrics::sum(&self.process.metrics().await?, CLICKS_UNACKNOWLEDGED, &[]) > 0.0 {
                sleep(POLL_INTERVAL).await;
            }
            anyhow::Ok(())
        };
        timeout(PUBLISH_TIMEOUT, published)
            .await
            .context("the clicks are not published within 1 min")?
    }
}

/// Starts a server that answers every visit with the response of query-api to one visit.
async fn bare_server(ours: &LoadTarget) -> anyhow::Result<BareServer> {
    let mut request = Vec::new();
    (ours.requests.write)(0, &mut request);
    let mut connection = HttpConnection::open(ours.address).await?;
    let shown = connection.exchange(&request).await?;
    let status = shown.status;
    ensure!(status == 302, "a visit is answered with {status}");
    let app = bare_redirect::answering(shown)?;
    // As many threads as the runtime of query-api has by default.
    let threads = available_parallelism().map_or(1, usize::from);
    let server = BareServer::start(app, threads).await?;
    let mut connection = HttpConnection::open(server.address).await?;
    let answer = connection.exchange(&request).await?;
    ensure!(are_alike(&answer, &shown), "the baseline answers otherwise");
    Ok(server)
}

#[cfg(test)]
mod tests {
    #[test]
    fn query_api_has_the_default_number_of_threads() {
        let program = include_str!("../../../../query-api/src/command_line.rs");
        assert!(program.contains("run_program(run_command_line())"));
    }
}
