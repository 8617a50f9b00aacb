//! Redirects from the cache, from the bytes of a request to the bytes of the response; with clicks,
//! the request notes its click in memory. The recorder works on another thread, and is not counted.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use anyhow::Context as _;
use linkledger_clicks::CLICK_PARTITIONS;
use linkledger_core::clock::SystemClock;
use linkledger_http::authentication::KEYS_CACHED_MAX;
use linkledger_query_api::{ClickSettings, QueryApiConfig, ShortHost};
use linkledger_service::{
    databases::DatabaseSettings,
    internal_listener::AdminAllowedHosts,
    kafka_config::ClicksConfig,
    lifecycle::{self, Tasks},
};
use rdkafka::{mocking::MockCluster, producer::DefaultProducerContext};
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_util::sync::CancellationToken;

use crate::{Counted, RATE_LIMIT, REQUESTS_PER_ROUND, server::Counters, visitors::Visitors};

/// Number of rounds in which each slug occurs once.
const DISTINCT_ROUNDS: usize = 1;
/// Number of repetitions of these rounds.
const REPETITIONS: usize = 8;
/// Largest number of tries, 20 ms apart, until a round is answered by the cache.
const TRIES_MAX: usize = 500;
const PAUSE: Duration = Duration::from_millis(20);
const USER_AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

/// Counts redirects without clicks.
pub(crate) fn count(runtime: &Runtime, server: &Counters) -> anyhow::Result<Counted> {
    count_with(runtime, server, ClickSettings::off())
}

/// Counts redirects whose clicks are recorded, and published to a broker of this process.
pub(crate) fn count_with_clicks(runtime: &Runtime, server: &Counters) -> anyhow::Result<Counted> {
    let stream = ClicksConfig::default();
    let broker: MockCluster<'_, DefaultProducerContext> = MockCluster::new(1)?;
    broker.create_topic(stream.clicks_topic.as_str(), CLICK_PARTITIONS.into(), 1)?;
    let clicks = ClickSettings {
        stream,
        kafka_brokers: Some(broker.bootstrap_servers()),
        ..ClickSettings::off()
    };
    count_with(runtime, server, clicks)
}

fn count_with(
    runtime: &Runtime,
    server: &Counters,
    clicks: ClickSettings,
) -> anyhow::Result<Counted> {
    let beside = Beside::start(server.url.clone(), clicks)?;
    let mut tasks = runtime.block_on(async { Tasks::new(CancellationToken::new()) });
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
    let address = listener.local_addr()?;
    runtime.block_on(async {
        lifecycle::serve(
            &mut tasks,
            "short host",
            listener,
            beside.short_host.clone(),
        );
    });
    let visitors = runtime.block_on(Visitors::connect(address, REQUESTS_PER_ROUND))?;
    let rounds = runtime.block_on(rounds(server))?;
    // One after the other: under callgrind sessions begin too slowly for many cache misses at once.
    let follow = |round: &[Vec<u8>]| {
        for request in round.chunks(1) {
            visitors.send(request)?;
            runtime.block_on(visitors.answered(1))?;
            visitors.receive(1, "302")?;
        }
        anyhow::Ok(())
    };
    let mut loads = 0;
    for round in rounds.iter().cycle().take(REPETITIONS * rounds.len()) {
        // Loads links that are not in the cache, and waits while the cache is bypassed, as at the
        // beginning.
        until_nothing_is_loaded(runtime, server, || follow(round))?;
        let loads_begin = runtime.block_on(server.redirects_loaded())?;
        visitors.send(round)?;
        visitors.let_serve(runtime)?;
        visitors.receive(REQUESTS_PER_ROUND, "302")?;
        loads += runtime.block_on(server.redirects_loaded())? - loads_begin;
    }
    let requests = REPETITIONS * rounds.len() * REQUESTS_PER_ROUND;
    anyhow::ensure!(
        loads == 0,
        "{loads} of {requests} redirects were not in the cache; is the machine very busy?"
    );
    beside.stop()?;
    Ok(Counted {
        done: requests,
        spent: None,
    })
}

fn until_nothing_is_loaded(
    runtime: &Runtime,
    server: &Counters,
    follow: impl Fn() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for _ in 0..TRIES_MAX {
        let loads_begin = runtime.block_on(server.redirects_loaded())?;
        let followed = follow();
        if followed.is_ok() && runtime.block_on(server.redirects_loaded())? == loads_begin {
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
    anyhow::bail!("the cache of redirects is not used")
}

async fn rounds(server: &Counters) -> anyhow::Result<Vec<Vec<Vec<u8>>>> {
    let slugs: Vec<String> =
        sqlx::query_scalar("SELECT slug FROM event_store.slugs ORDER BY slug_key LIMIT $1")
            .bind(i64::try_from(DISTINCT_ROUNDS * REQUESTS_PER_ROUND)?)
            .fetch_all(&server.pool)
            .await?;
    let requests: Vec<Vec<u8>> = slugs.iter().map(|slug| request(slug)).collect();
    Ok(requests
        .chunks(REQUESTS_PER_ROUND)
        .map(<[_]>::to_vec)
        .collect())
}

fn request(slug: &str) -> Vec<u8> {
    format!(
        "GET /{slug} HTTP/1.1\r\nhost: sho.rt\r\nuser-agent: {USER_AGENT}\r\naccept: text/html,*/*\r\n\
         accept-language: en\r\naccept-encoding: gzip\r\nreferer: https://news.example/a\r\n\r\n"
    )
    .into_bytes()
}

/// The service without its listener, on a thread of its own, so that its work that depends on the
/// clock is not counted.
struct Beside {
    short_host: ShortHost,
    shutdown: CancellationToken,
    thread: thread::JoinHandle<anyhow::Result<()>>,
}

impl Beside {
    fn start(database_url: String, clicks: ClickSettings) -> anyhow::Result<Self> {
        let shutdown = CancellationToken::new();
        let until = shutdown.clone();
        let (sender, receiver) = mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let mut tasks = Tasks::new(until);
                let clock = Arc::new(SystemClock);
                let config = config(database_url, clicks);
                let service = linkledger_query_api::start(config, clock, &mut tasks).await?;
                sender.send(service.short_host)?;
                tasks.join().await
            })
        });
        let short_host = receiver.recv().context("query-api does not start")?;
        Ok(Self {
            short_host,
            shutdown,
            thread,
        })
    }

    fn stop(self) -> anyhow::Result<()> {
        self.shutdown.cancel();
        self.thread.join().expect("it does not panic")
    }
}

fn config(database_url: String, clicks: ClickSettings) -> QueryApiConfig {
    QueryApiConfig {
        databases: DatabaseSettings::one(database_url),
        read_replica_urls: Vec::new(),
        allow_unsafe_postgres: true,
        base_url: "https://api.sho.rt".parse().expect("an address"),
        short_base_url: "https://sho.rt".parse().expect("an address"),
        rate_limit: RATE_LIMIT,
        allowed_hosts: Vec::new(),
        cors_allowed_origins: Vec::new(),
        redirect_status: "302".parse().expect("a status of a redirect"),
        redirect_cache_mib: 64,
        redirect_staleness_max_ms: 500,
        database_pool_size: 4,
        api_keys_cached_max: KEYS_CACHED_MAX,
        clicks,
        admin_allowed_hosts: AdminAllowedHosts::default(),
    }
}
