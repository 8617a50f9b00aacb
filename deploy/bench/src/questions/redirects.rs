//! How many visitors can follow links in a second, with and without a record of their clicks?

mod query_api;
mod round;

use std::{net::SocketAddr, sync::Arc};

use anyhow::ensure;

use crate::{
    answer::{QuestionAnswer, ReportRow, TargetValue},
    bare_redirect::{BareRedirect, BareServer, are_alike},
    bench::BenchContext,
    click_positions::ClickPositions,
    data_set::{self, DataSet},
    links::DataSetLinks,
    load::{HttpConnection, LoadTarget, RequestWriter},
    requests,
    stack::{BrokerKind, StackProcess},
    visits::{EXPONENT, SEED},
};
use query_api::{ClickUse, QueryApi};
use round::{Round, VisitedServer};

const CONNECTIONS: usize = 64;

const LEAST_RATE: f64 = 0.8;
/// Largest ratio of the processor time of a redirect, with clicks to without.
const MOST_TIME: f64 = 1.8;
/// Largest ratio of the 99th percentile, with clicks to without.
const MOST_P99: f64 = 1.2;

/// Rounds of all servers.
#[derive(Default)]
struct Rounds {
    recorded: Vec<Round>,
    unrecorded: Vec<Round>,
    bare: Vec<Round>,
    /// 99th percentiles at half of the rate with clicks, in milliseconds.
    recorded_p99_ms: Vec<f64>,
    unrecorded_p99_ms: Vec<f64>,
}

pub(super) async fn ask(bench: &BenchContext) -> anyhow::Result<QuestionAnswer> {
    let url = DataSet::ONE_ACCOUNT
        .copy(&bench.server, "bench_redirects")
        .await?;
    let account = data_set::accounts(&url).await?.remove(0);
    let links = DataSetLinks::of_account(&url, account.account_id).await?;
    let links: Arc<[String]> = links.slugs.into();
    let visits = requests::clicks(Arc::clone(&links))?;
    // The stack is the broker, and makes the salts; its short host is not visited. Clicks are not
    // counted here: a backlog would slow down the servers that come next.
    let stack = StackProcess::start(bench, &url, BrokerKind::Embedded).await?;
    ClickPositions::connect(&url).await?.pause().await?;
    let recording = QueryApi::start(bench, (&stack, &url), true).await?;
    let not_recording = QueryApi::start(bench, (&stack, &url), false).await?;
    bench.server.checkpoint().await?;
    let recorded = VisitedServer {
        process: recording.process.pid()?,
        target: target(recording.short_host, &visits),
    };
    let unrecorded = VisitedServer {
        process: not_recording.process.pid()?,
        target: target(not_recording.short_host, &visits),
    };
    let bare = bare_server(&unrecorded.target, &visits).await?;
    let baseline = VisitedServer {
        process: bare.pid()?,
        target: target(bare.address, &visits),
    };

    for server in [&recorded, &unrecorded] {
        round::visit_each(&server.target, &links).await?;
    }
    let mut rounds = Rounds::default();
    let clicks = ClickUse::of(&recording).await?;
    for _ in bench.rounds("redirects") {
        let duration = bench.duration();
        let round = recorded.measure(duration).await?;
        let half = round.per_second / 2.0;
        rounds.recorded.push(round);
        recording.until_published().await?;
        rounds.unrecorded.push(unrecorded.measure(duration).await?);
        rounds.bare.push(baseline.measure(duration).await?);
        let p99_ms = recorded.p99_ms(half, duration).await?;
        rounds.recorded_p99_ms.push(p99_ms);
        recording.until_published().await?;
        let p99_ms = unrecorded.p99_ms(half, duration).await?;
        rounds.unrecorded_p99_ms.push(p99_ms);
    }
    let clicks = ClickUse::of(&recording).await?.since(clicks);
    recording.process.stop().await?;
    not_recording.process.stop().await?;
    stack.stop().await?;
    Ok(answer(&rounds, &links, clicks))
}

fn answer(rounds: &Rounds, links: &[String], clicks: ClickUse) -> QuestionAnswer {
    QuestionAnswer {
        question: "redirects",
        title: "Redirects per second, and what a recorded click adds",
        rows: rounds.rows(links.len()),
        latencies: Vec::new(),
        notes: vec![
            format!("Visits: Zipf distribution, exponent {EXPONENT}, seed {SEED}."),
            format!(
                "Every link was visited once before; {:.1} % of the redirects with clicks came from \
                 memory.",
                100.0 * clicks.hit_share()
            ),
            format!(
                "Of their clicks {:.1} % were folded and {:.1} % lost; they are not counted meanwhile.",
                100.0 * clicks.folded / clicks.recorded,
                100.0 * clicks.lost / clicks.recorded,
            ),
            rounds.load_note(),
        ],
    }
}

impl Rounds {
    fn rows(&self, links: usize) -> Vec<ReportRow> {
        let each = |rounds: &[Round], figure: fn(&Round) -> f64| -> Vec<f64> {
            rounds.iter().map(figure).collect()
        };
        let rates = |rounds| each(rounds, |round| round.per_second);
        let times = |rounds| each(rounds, |round| round.server_us);
        let (bare_rates, bare_times) = (rates(&self.bare), times(&self.bare));
        let bare = "bare axum handler";
        let what = format!("Zipf over {links} links, {CONNECTIONS} connections");
        let least = Some(TargetValue::AtLeast(LEAST_RATE));
        vec![
            ReportRow::ratio(
                format!("{what}, no clicks"),
                "redirects/s",
                &rates(&self.unrecorded),
                (bare, &bare_rates),
                least,
            ),
            ReportRow::ratio(
                format!("{what}, clicks recorded"),
                "redirects/s",
                &rates(&self.recorded),
                (bare, &bare_rates),
                None,
            ),
            ReportRow::ratio(
                "processor time of query-api for each, no clicks",
                "µs",
                &times(&self.unrecorded),
                (bare, &bare_times),
                None,
            ),
            ReportRow::ratio(
                "processor time of query-api for each, clicks recorded",
                "µs",
                &times(&self.recorded),
                ("no clicks", &times(&self.unrecorded)),
                Some(TargetValue::AtMost(MOST_TIME)),
            ),
            ReportRow::ratio(
                "p99 at half load, clicks recorded",
                "ms",
                &self.recorded_p99_ms,
                ("no clicks", &self.unrecorded_p99_ms),
                Some(TargetValue::AtMost(MOST_P99)),
            ),
        ]
    }

    /// Formats a note on the processor time of the load: a load without a free core would hide the
    /// speed of the servers.
    fn load_note(&self) -> String {
        let busiest =
            |rounds: &[Round]| 100.0 * rounds.iter().map(|it| it.load_share).fold(0.0, f64::max);
        format!(
            "The load is one thread; in its busiest round it used {:.0} % of a core against query-api \
             with clicks, {:.0} % without, and {:.0} % against the bare handler.",
            busiest(&self.recorded),
            busiest(&self.unrecorded),
            busiest(&self.bare)
        )
    }
}

fn target(address: SocketAddr, requests: &RequestWriter) -> LoadTarget {
    LoadTarget {
        address,
        connections: CONNECTIONS,
        requests: Arc::clone(requests),
        expected_status: 302,
    }
}

/// Starts a server that answers every visit with the response of query-api to one visit.
async fn bare_server(ours: &LoadTarget, visits: &RequestWriter) -> anyhow::Result<BareServer> {
    let mut request = Vec::new();
    visits(0, &mut request);
    let mut connection = HttpConnection::open(ours.address).await?;
    let shown = connection.exchange(&request).await?;
    ensure!(
        shown.status == 302,
        "a visit is answered with {}",
        shown.status
    );
    let bare = BareRedirect::answering(shown, query_api::threads())?;
    let server = BareServer::start(&bare).await?;
    let mut connection = HttpConnection::open(server.address).await?;
    let answer = connection.exchange(&request).await?;
    ensure!(are_alike(&answer, &shown), "the baseline answers otherwise");
    Ok(server)
}
