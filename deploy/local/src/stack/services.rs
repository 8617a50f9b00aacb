//! The three services inside this process, each with an internal listener on a free port.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::Router;
use linkledger_command_api as command_api;
use linkledger_core::{
    clock::Clock,
    kafka_config::KafkaConfig,
    lifecycle::{self, Readiness, Tasks, listen},
    metrics::recorder::Recorder,
};
use linkledger_projector::{self as projector, consumer::GroupProtocol};
use linkledger_query_api as query_api;
use tokio_util::sync::CancellationToken;

use super::{Sockets, loopback};
use crate::ingress;

/// Price of a link on the local stack, in credits.
const LINK_PRICE: i64 = 1;
/// Enough for a million links.
const REDIRECT_CACHE_MIB: u32 = 256;
/// A start that takes longer is told of, each time.
const SLOW_START: Duration = Duration::from_secs(15);
const READY_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// What the services are told.
pub(super) struct Settings {
    pub(super) database_url: String,
    pub(super) allow_unsafe_postgres: bool,
    pub(super) kafka: KafkaConfig,
    pub(super) relay: RelaySettings,
    pub(super) group_protocol: GroupProtocol,
    pub(super) fetch_wait_max_ms: u16,
    pub(super) base_url: String,
    pub(super) short_base_url: String,
    pub(super) cursor_keys: String,
    pub(super) rate_limit: u32,
}

/// How the relay suits the broker.
pub(super) struct RelaySettings {
    pub(super) compression: &'static str,
    pub(super) batch_interval_ms: u16,
}

impl RelaySettings {
    /// For brokers of the user's own.
    pub(super) const KAFKA: Self = Self {
        compression: "lz4",
        batch_interval_ms: 5,
    };
    /// For the embedded broker. It keeps a number of bytes as a list of batches, and walks that
    /// list for each batch that a consumer fetches: fewer and larger ones cost it far less.
    pub(super) const EMBEDDED: Self = Self {
        compression: "none",
        batch_interval_ms: 20,
    };
}

/// The running services.
pub(super) struct Services {
    pub(super) command_internal: SocketAddr,
    pub(super) projector_internal: SocketAddr,
    pub(super) query_internal: SocketAddr,
    readiness: [Readiness; 3],
}

/// Starts the services and their listeners among `tasks`.
pub(super) async fn start(
    settings: &Settings,
    clock: Arc<dyn Clock>,
    sockets: Sockets,
    tasks: &mut Tasks,
) -> anyhow::Result<Services> {
    lifecycle::raise_open_files_limit();
    let recorder = Recorder::install(tasks)?;
    let projector = projector::start(settings.projector(), tasks).await?;
    let command_api =
        command_api::start(settings.command_api()?, Arc::clone(&clock), tasks).await?;
    let query_api = query_api::start(settings.query_api()?, clock, tasks).await?;
    let readiness = [
        projector.readiness,
        command_api.readiness,
        query_api.readiness,
    ];
    let [projector_ready, command_ready, query_ready] = readiness.clone();
    let services = Services {
        command_internal: internal(tasks, command_ready, &recorder, Router::new()).await?,
        projector_internal: internal(tasks, projector_ready, &recorder, projector.console).await?,
        query_internal: internal(tasks, query_ready, &recorder, Router::new()).await?,
        readiness,
    };
    let api = ingress::router(command_api.router, query_api.api);
    lifecycle::serve(tasks, "ingress", sockets.api, api);
    lifecycle::serve(
        tasks,
        "short host",
        sockets.short_host,
        query_api.short_host,
    );
    Ok(services)
}

async fn internal(
    tasks: &mut Tasks,
    readiness: Readiness,
    recorder: &Recorder,
    pages: Router,
) -> anyhow::Result<SocketAddr> {
    let listener = listen(loopback(0)).await?;
    let address = listener.local_addr()?;
    let router = lifecycle::internal_router(readiness, tasks.shutdown(), recorder.clone());
    let router = router.merge(pages);
    lifecycle::serve(tasks, "internal listener", listener, router);
    Ok(address)
}

impl Settings {
    fn command_api(&self) -> anyhow::Result<command_api::config::CommandApiConfig> {
        Ok(command_api::config::CommandApiConfig {
            database: command_api::config::DatabaseConfig {
                database_url: self.database_url.clone().into(),
            },
            relay_database_url: None,
            allow_unsafe_postgres: self.allow_unsafe_postgres,
            kafka: self.kafka.clone(),
            kafka_compression: self.relay.compression.to_owned(),
            relay_batch_interval_ms: self.relay.batch_interval_ms,
            base_url: self.base_url.parse()?,
            short_base_url: self.short_base_url.parse()?,
            link_price: LINK_PRICE,
            rate_limit: self.rate_limit,
            cors_allowed_origins: Vec::new(),
            writers: 1,
            // There is one stack per database: it takes its own leases back at once.
            instance_id: Some("local stack".to_owned()),
        })
    }

    fn projector(&self) -> projector::Config {
        projector::Config {
            database_url: self.database_url.clone().into(),
            allow_unsafe_postgres: self.allow_unsafe_postgres,
            kafka: self.kafka.clone(),
            group_id: "linkledger-projector".to_owned(),
            group_protocol: self.group_protocol,
            fetch_wait_max_ms: self.fetch_wait_max_ms,
            connections_max: 2,
            console_hosts: Vec::new(),
        }
    }

    fn query_api(&self) -> anyhow::Result<query_api::QueryApiConfig> {
        Ok(query_api::QueryApiConfig {
            database_url: self.database_url.clone().into(),
            allow_unsafe_postgres: self.allow_unsafe_postgres,
            base_url: self.base_url.parse()?,
            short_base_url: self.short_base_url.parse()?,
            cursor_keys: self.cursor_keys.clone().into(),
            rate_limit: self.rate_limit,
            cors_allowed_origins: Vec::new(),
            redirect_status: "302".parse().map_err(anyhow::Error::msg)?,
            redirect_cache_mib: REDIRECT_CACHE_MIB,
            connections_max: 16,
        })
    }
}

impl Services {
    /// Where one of the internal listeners shows its metrics.
    pub(super) fn metrics_url(internal: SocketAddr) -> String {
        format!("http://{internal}/metrics")
    }

    /// Waits until all three may be sent requests, or the shutdown.
    pub(super) async fn are_ready(&self, shutdown: &CancellationToken) {
        let mut is_slow = Instant::now() + SLOW_START;
        while !shutdown.is_cancelled() && !self.readiness.iter().all(Readiness::is_ready) {
            if Instant::now() >= is_slow {
                tracing::warn!("not ready yet: are the Kafka brokers and their topic there?");
                is_slow += SLOW_START;
            }
            tokio::time::sleep(READY_POLL_INTERVAL).await;
        }
    }
}
