//! How many visitors can follow links in a second?

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::ensure;
use linkledger_core::metrics::CACHE_REQUESTS_TOTAL;
use nix::unistd::Pid;

use crate::{
    answer::{QuestionAnswer, ReportRow, TargetValue},
    bare_redirect::{BareRedirect, BareServer, are_alike},
    bench::BenchContext,
    data_set::{self, DataSet},
    links::DataSetLinks,
    load::{self, HttpConnection, LoadOutcome, LoadTarget, RequestWriter},
    processor_time::processor_seconds,
    requests,
    stack::{BrokerKind, StackProcess},
    visits::{EXPONENT, SEED, Visits},
};

const CONNECTIONS: usize = 64;
/// Number of threads of the runtime of the binary `linkledger`.
const STACK_THREADS: usize = 8;
/// Warm-up before each measurement.
const SETTLE: Duration = Duration::from_secs(1);

pub(super) async fn ask(bench: &BenchContext) -> anyhow::Result<QuestionAnswer> {
    let url = DataSet::ONE_ACCOUNT
        .copy(&bench.server, "bench_redirects")
        .await?;
    let account = data_set::accounts(&url).await?.remove(0);
    let links = DataSetLinks::of_account(&url, account.account_id)
        .await?
        .slugs;
    let links: Arc<[String]> = links.into();
    let visits = visits(Arc::clone(&links))?;
    let stack = StackProcess::start(bench, &url, BrokerKind::Embedded).await?;
    bench.server.checkpoint().await?;
    let ours = Server {
        process: stack.pid()?,
        target: target(stack.short_host, &visits),
    };
    let bare = bare_server(&ours.target, &visits).await?;
    let baseline = Server {
        process: bare.pid()?,
        target: target(bare.address, &visits),
    };

    warm_up(&ours.target, &links).await?;
    let before = CacheUse::of(&stack).await?;
    let (mut measured, mut floor) = (Vec::new(), Vec::new());
    for _ in bench.rounds("redirects") {
        measured.push(ours.measure(bench.duration()).await?);
        floor.push(baseline.measure(bench.duration()).await?);
    }
    let hits = CacheUse::of(&stack).await?.since(before).hit_share();
    stack.stop().await?;

    let each = |rounds: &[Round], figure: fn(&Round) -> f64| -> Vec<f64> {
        rounds.iter().map(figure).collect()
    };
    let what = format!("Zipf over {} links, {CONNECTIONS} connections", links.len());
    Ok(QuestionAnswer {
        question: "redirects",
        title: "Redirects per second",
        rows: vec![
            ReportRow::ratio(
                what,
                "redirects/s",
                &each(&measured, |round| round.per_second),
                ("bare axum handler", &each(&floor, |round| round.per_second)),
                Some(TargetValue::AtLeast(0.8)),
            ),
            ReportRow::ratio(
                "processor time of the server for each",
                "µs",
                &each(&measured, |round| round.server_us),
                ("bare axum handler", &each(&floor, |round| round.server_us)),
                None,
            ),
        ],
        latencies: Vec::new(),
        notes: vec![
            format!("Visits: Zipf distribution, exponent {EXPONENT}, seed {SEED}."),
            format!(
                "Every link was visited once before; {:.1} % of the measured redirects came from \
                 memory.",
                100.0 * hits
            ),
            load_note(&measured, &floor),
        ],
    })
}

/// A server that gets visits.
struct Server {
    process: Pid,
    target: LoadTarget,
}

/// Figures of a server in a round.
struct Round {
    per_second: f64,
    /// Processor time of the server for each redirect, in microseconds.
    server_us: f64,
    /// Processor time of the load, as a share of one core.
    load_share: f64,
}

impl Server {
    async fn measure(&self, duration: Duration) -> anyhow::Result<Round> {
        visit(&self.target, SETTLE).await?;
        let times = || {
            anyhow::Ok((
                processor_seconds(self.process)?,
                processor_seconds(Pid::this())?,
            ))
        };
        let before = times()?;
        let outcome = visit(&self.target, duration).await?;
        let after = times()?;
        let answers = outcome.per_second() * outcome.seconds;
        Ok(Round {
            per_second: outcome.per_second(),
            server_us: (after.0 - before.0) / answers * 1e6,
            load_share: (after.1 - before.1) / outcome.seconds,
        })
    }
}

async fn visit(target: &LoadTarget, duration: Duration) -> anyhow::Result<LoadOutcome> {
    load::closed_loop(target, Duration::ZERO, duration)
        .await?
        .all_expected()
}

fn target(address: SocketAddr, requests: &RequestWriter) -> LoadTarget {
    LoadTarget {
        address,
        connections: CONNECTIONS,
        requests: Arc::clone(requests),
        expected_status: 302,
    }
}

/// Makes requests that are the next visit, to any server.
fn visits(slugs: Arc<[String]>) -> anyhow::Result<RequestWriter> {
    let visits = Visits::draw(u32::try_from(slugs.len())?)?;
    Ok(Arc::new(move |_, buffer| {
        requests::visit(&slugs[visits.next() as usize - 1], buffer);
    }))
}

/// Starts a server that answers every visit with the response of the stack to one visit.
async fn bare_server(stack: &LoadTarget, visits: &RequestWriter) -> anyhow::Result<BareServer> {
    let mut request = Vec::new();
    visits(0, &mut request);
    let mut connection = HttpConnection::open(stack.address).await?;
    let shown = connection.exchange(&request).await?;
    ensure!(
        shown.status == 302,
        "a visit is answered with {}",
        shown.status
    );
    let server = BareServer::start(&BareRedirect::answering(shown, STACK_THREADS)?).await?;
    let mut connection = HttpConnection::open(server.address).await?;
    let answer = connection.exchange(&request).await?;
    ensure!(are_alike(&answer, &shown), "the baseline answers otherwise");
    Ok(server)
}

/// Visits every link once, as visitors of a long-running service have done.
async fn warm_up(stack: &LoadTarget, slugs: &Arc<[String]>) -> anyhow::Result<()> {
    let target = LoadTarget {
        requests: requests::visits(Arc::clone(slugs)),
        ..stack.clone()
    };
    let visited = load::each_once(&target, slugs.len() as u64).await?;
    visited.all_expected()?;
    Ok(())
}

/// Number of requests to the redirect cache.
#[derive(Debug, Clone, Copy, Default)]
struct CacheUse {
    hits: f64,
    others: f64,
}

impl CacheUse {
    async fn of(stack: &StackProcess) -> anyhow::Result<Self> {
        Ok(Self::parse(&stack.metrics("QUERY_METRICS_URL").await?))
    }

    fn parse(metrics: &str) -> Self {
        let mut usage = Self::default();
        for line in metrics.lines() {
            let Some((labels, count)) = line
                .strip_prefix(CACHE_REQUESTS_TOTAL)
                .and_then(|rest| rest.rsplit_once(' '))
            else {
                continue;
            };
            let count: f64 = count.parse().unwrap_or_default();
            match (labels.contains("\"redirects\""), labels.contains("\"hit\"")) {
                (true, true) => usage.hits += count,
                (true, false) => usage.others += count,
                (false, _) => {}
            }
        }
        usage
    }

    fn since(self, before: Self) -> Self {
        Self {
            hits: self.hits - before.hits,
            others: self.others - before.others,
        }
    }

    fn hit_share(self) -> f64 {
        self.hits / (self.hits + self.others).max(1.0)
    }
}

/// Formats a note on the processor time of the load: a load without a free core would hide the
/// speed of the servers.
fn load_note(measured: &[Round], floor: &[Round]) -> String {
    let busiest =
        |rounds: &[Round]| 100.0 * rounds.iter().map(|it| it.load_share).fold(0.0, f64::max);
    format!(
        "The load is one thread; in its busiest round it used {:.0} % of a core against linkledger \
         and {:.0} % against the bare handler.",
        busiest(measured),
        busiest(floor)
    )
}

#[cfg(test)]
mod tests {
    use super::{CacheUse, STACK_THREADS};

    #[test]
    fn baseline_has_as_many_threads_as_the_stack() {
        let stack = include_str!("../../../local/src/command_line.rs");
        let threads = format!("#[tokio::main(worker_threads = {STACK_THREADS})]");
        assert!(
            stack.contains(&threads),
            "STACK_THREADS is not that of {stack}"
        );
    }

    #[test]
    fn redirect_cache_hits_are_counted_alone() {
        let usage = CacheUse::parse(
            "# TYPE linkledger_cache_requests_total counter\n\
             linkledger_cache_requests_total{cache=\"redirects\",result=\"hit\"} 6\n\
             linkledger_cache_requests_total{cache=\"api_keys\",result=\"hit\"} 100\n\
             linkledger_cache_requests_total{cache=\"redirects\",result=\"miss\"} 1\n\
             linkledger_cache_requests_total{cache=\"redirects\",result=\"bypassed\"} 1\n",
        );
        assert!((usage.hit_share() - 0.75).abs() < f64::EPSILON);
        assert!(usage.since(usage).hit_share().abs() < f64::EPSILON);
    }
}
