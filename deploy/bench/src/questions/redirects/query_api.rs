//! The measured query-api, as a process of its own, which records clicks or none.

use std::{net::SocketAddr, thread::available_parallelism, time::Duration};

use anyhow::Context as _;
use linkledger_servers::free_address;
use linkledger_service::metrics::{
    CACHE_REQUESTS_TOTAL, CLICKS_FOLDED_TOTAL, CLICKS_LOST_TOTAL, CLICKS_RECORDED_TOTAL,
    CLICKS_UNACKNOWLEDGED,
};
use tokio::time::{sleep, timeout};

use crate::{bench::BenchContext, metrics, service_process::ServiceProcess, stack::StackProcess};

/// Cache of redirects, with room for all links.
const CACHE_MIB: &str = "256";
const PUBLISH_TIMEOUT: Duration = Duration::from_mins(1);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A running query-api.
pub(super) struct QueryApi {
    pub(super) process: ServiceProcess,
    pub(super) short_host: SocketAddr,
}

/// Returns the number of worker threads of the program, the default of the runtime.
pub(super) fn threads() -> usize {
    available_parallelism().map_or(1, usize::from)
}

impl QueryApi {
    /// Starts query-api beside a stack, whose broker gets the clicks.
    pub(super) async fn start(
        bench: &BenchContext,
        (stack, database_url): (&StackProcess, &str),
        records_clicks: bool,
    ) -> anyhow::Result<Self> {
        let [api, short_host] = [free_address()?, free_address()?];
        let (name, no_clicks) = if records_clicks {
            ("query-api", "false")
        } else {
            ("query-api-no-clicks", "true")
        };
        let environment = [
            ("DATABASE_URL", database_url),
            ("KAFKA_BROKERS", stack.variable("KAFKA_BROKERS")?),
            ("RATE_LIMIT", "0"),
            ("NO_CLICKS", no_clicks),
            ("REDIRECT_CACHE_MIB", CACHE_MIB),
        ];
        let [api, listen] = [api, short_host].map(|address| address.to_string());
        let arguments = ["serve", "--api-listen", &api, "--short-listen", &listen];
        let program = ("query-api", name);
        Ok(Self {
            process: ServiceProcess::start(bench, program, &arguments, &environment).await?,
            short_host,
        })
    }

    /// Waits until the broker has acknowledged all clicks, which would use processor time beside
    /// the next server.
    pub(super) async fn until_published(&self) -> anyhow::Result<()> {
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

/// Numbers of redirects from the cache, and of clicks.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClickUse {
    hits: f64,
    cached: f64,
    pub(super) recorded: f64,
    pub(super) folded: f64,
    pub(super) lost: f64,
}

impl ClickUse {
    pub(super) async fn of(query_api: &QueryApi) -> anyhow::Result<Self> {
        let metrics = query_api.process.metrics().await?;
        let redirects = |labels| metrics::sum(&metrics, CACHE_REQUESTS_TOTAL, labels);
        Ok(Self {
            hits: redirects(&["\"redirects\"", "\"hit\""]),
            cached: redirects(&["\"redirects\""]),
            recorded: metrics::sum(&metrics, CLICKS_RECORDED_TOTAL, &[]),
            folded: metrics::sum(&metrics, CLICKS_FOLDED_TOTAL, &[]),
            lost: metrics::sum(&metrics, CLICKS_LOST_TOTAL, &[]),
        })
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self {
            hits: self.hits - before.hits,
            cached: self.cached - before.cached,
            recorded: self.recorded - before.recorded,
            folded: self.folded - before.folded,
            lost: self.lost - before.lost,
        }
    }

    pub(super) fn hit_share(self) -> f64 {
        self.hits / self.cached.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn query_api_has_the_default_number_of_threads() {
        let program = include_str!("../../../../../query-api/src/command_line.rs");
        assert!(program.contains("run_program(run_command_line())"));
    }
}
