//! The three services and the dispatcher of webhooks inside the process of the stack, each with an internal listener on
//! a free port.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use linkledger_command_api::{
    self as command_api,
    config::{CommandApiConfig, DatabaseConfig},
};
use linkledger_core::clock::Clock;
use linkledger_projector::{
    self as projector,
    webhooks::config::{LogDatabase, WebhooksConfig},
};
use linkledger_query_api as query_api;
use linkledger_service::{
    databases::DatabaseSettings,
    internal_listener::{self, AdminAllowedHosts, Readiness},
    kafka_config::{ClicksConfig, KafkaConfig},
    lifecycle::{self, Tasks, listen},
    metrics_recorder::MetricsRecorder,
    webhook_config::WebhookConfig,
};
use tokio_util::sync::CancellationToken;

use super::{StackSockets, loopback, service_environment::ServiceConfigs};
use crate::ingress;

/// Interval of the warning that the services are not ready yet.
const SLOW_START: Duration = Duration::from_secs(15);
const READY_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Settings of the services: those of the environment, and the values that the stack decides.
pub(super) struct ServiceSettings {
    pub(super) configs: ServiceConfigs,
    pub(super) database_url: String,
    pub(super) allow_unsafe_postgres: bool,
    pub(super) kafka: KafkaConfig,
    pub(super) clicks: ClicksConfig,
    pub(super) relay: RelaySettings,
    pub(super) kafka_fetch_wait_max_ms: u16,
    pub(super) base_url: String,
    pub(super) short_base_url: String,
    pub(super) link_price: i64,
    pub(super) rate_limit: u32,
    /// File with the master key of webhooks.
    pub(super) webhook_keys_file: PathBuf,
}

/// Settings of the relay that depend on the broker.
pub(super) struct RelaySettings {
    pub(super) compression: &'static str,
    pub(super) batch_interval_ms: u16,
}

impl RelaySettings {
    /// Settings for Apache Kafka, and for brokers that the user names.
    pub(super) const KAFKA: Self = Self {
        compression: "lz4",
        batch_interval_ms: 5,
    };
    /// Settings for the embedded broker. The embedded broker keeps the batches of a partition in a
    /// list, and walks the list for each batch that a consumer fetches: few large batches cost far
    /// less than many small batches.
    pub(super) const EMBEDDED: Self = Self {
        compression: "none",
        batch_interval_ms: 20,
    };
}

/// The running services, with the addresses of their internal listeners.
pub(super) struct RunningServices {
    pub(super) command_internal: SocketAddr,
    pub(super) projector_internal: SocketAddr,
    pub(super) query_internal: SocketAddr,
    pub(super) webhooks_internal: SocketAddr,
    /// Listener of operators: their console, and the admin API of all services.
    pub(super) admin: SocketAddr,
    readiness: [Readiness; 4],
}

/// Starts the services and their listeners as members of `tasks`.
pub(super) async fn start(
    settings: &ServiceSettings,
    clock: Arc<dyn Clock>,
    sockets: StackSockets,
    tasks: &mut Tasks,
) -> anyhow::Result<RunningServices> {
    lifecycle::set_process_limits();
    let recorder = MetricsRecorder::install(tasks)?;
    // The embedded broker ends with the stack: its clicks are counted before.
    let stop = projector::clicks::AggregationStop::AtEndOfTopic;
    let projector = projector::start(settings.projector()?, stop, tasks).await?;
    let command_api =
        command_api::start(settings.command_api()?, Arc::clone(&clock), tasks).await?;
    let query_api = query_api::start(settings.query_api()?, clock, tasks).await?;
    let webhooks = projector::start_webhooks(settings.dispatcher(), tasks).await?;
    let readiness = [
        projector.readiness,
        command_api.readiness,
        query_api.readiness,
        webhooks,
    ];
    let [projector_ready, command_ready, query_ready, webhooks_ready] = readiness.clone();
    let mut internal = InternalListeners {
        tasks: &mut *tasks,
        recorder: &recorder,
        hosts: settings.configs.projector.admin_allowed_hosts.clone(),
    };
    let services = RunningServices {
        command_internal: internal.serve(command_ready).await?,
        projector_internal: internal.serve(projector_ready).await?,
        query_internal: internal.serve(query_ready).await?,
        webhooks_internal: internal.serve(webhooks_ready).await?,
        admin: sockets.admin.local_addr()?,
        readiness,
    };
    let api = ingress::router(command_api.router, query_api.api);
    lifecycle::serve(tasks, "ingress", sockets.api, api);
    let others = ingress::router(command_api.admin, query_api.admin);
    let of_operators = ingress::with_projector(projector.admin, others);
    lifecycle::serve(tasks, "admin", sockets.admin, of_operators);
    lifecycle::serve(
        tasks,
        "short host",
        sockets.short_host,
        query_api.short_host,
    );
    Ok(services)
}

/// Parts that the internal listeners of all services share.
struct InternalListeners<'a> {
    tasks: &'a mut Tasks,
    recorder: &'a MetricsRecorder,
    hosts: AdminAllowedHosts,
}

impl InternalListeners<'_> {
    /// Serves the internal listener of one service, and returns its address.
    async fn serve(&mut self, readiness: Readiness) -> anyhow::Result<SocketAddr> {
        let listener = listen(loopback(0)).await?;
        let address = listener.local_addr()?;
        let (shutdown, recorder) = (self.tasks.shutdown(), self.recorder.clone());
        let router = internal_listener::router(readiness, shutdown, recorder, self.hosts.clone());
        lifecycle::serve(self.tasks, "internal listener", listener, router);
        Ok(address)
    }
}

impl ServiceSettings {
    fn command_api(&self) -> anyhow::Result<CommandApiConfig> {
        let database_url = self.database_url.clone().into();
        Ok(CommandApiConfig {
            database: DatabaseConfig {
                database_url,
                log_database_url: None,
            },
            relay_database_url: None,
            allow_unsafe_postgres: self.allow_unsafe_postgres,
            kafka: self.kafka.clone(),
            kafka_compression: self.relay.compression.to_owned(),
            relay_batch_interval_ms: self.relay.batch_interval_ms,
            base_url: self.base_url.parse()?,
            short_base_url: self.short_base_url.parse()?,
            link_price: self.link_price,
            rate_limit: self.rate_limit,
            // A fixed name, since one stack uses a database: after a restart the stack renews its
            // own leases at once, and need not wait until they expire.
            instance_id: Some("local stack".to_owned()),
            webhooks: self.webhooks(),
            ..self.configs.command_api.clone()
        })
    }

    /// Returns the settings of webhooks, with the key of the data folder.
    fn webhooks(&self) -> WebhookConfig {
        WebhookConfig {
            keys_file: Some(self.webhook_keys_file.clone()),
            ..self.configs.webhooks.webhooks.clone()
        }
    }

    /// Returns the settings of the dispatcher of webhooks.
    fn dispatcher(&self) -> WebhooksConfig {
        WebhooksConfig {
            database: LogDatabase {
                database_url: self.database_url.clone().into(),
                log_database_url: None,
            },
            allow_unsafe_postgres: self.allow_unsafe_postgres,
            webhooks: self.webhooks(),
            ..self.configs.webhooks.clone()
        }
    }

    fn projector(&self) -> anyhow::Result<projector::Config> {
        Ok(projector::Config {
            databases: DatabaseSettings::one(self.database_url.clone()),
            allow_unsafe_postgres: self.allow_unsafe_postgres,
            kafka: self.kafka.clone(),
            clicks: self.clicks.clone(),
            kafka_fetch_wait_max_ms: self.kafka_fetch_wait_max_ms,
            base_url: self.base_url.parse()?,
            ..self.configs.projector.clone()
        })
    }

    fn query_api(&self) -> anyhow::Result<query_api::QueryApiConfig> {
        let configured = self.configs.query_api.clone();
        Ok(query_api::QueryApiConfig {
            databases: DatabaseSettings::one(self.database_url.clone()),
            allow_unsafe_postgres: self.allow_unsafe_postgres,
            base_url: self.base_url.parse()?,
            short_base_url: self.short_base_url.parse()?,
            rate_limit: self.rate_limit,
            clicks: query_api::ClickSettings {
                stream: self.clicks.clone(),
                kafka_brokers: Some(self.kafka.brokers.clone()),
                kafka_security: self.kafka.security.clone(),
                ..configured.clicks
            },
            ..configured
        })
    }
}

impl RunningServices {
    /// Returns the address of the metrics of an internal listener.
    pub(super) fn metrics_url(internal: SocketAddr) -> String {
        format!("http://{internal}/metrics")
    }

    /// Waits until all services are ready, or until the shutdown.
    pub(super) async fn until_ready_or_shutdown(&self, shutdown: &CancellationToken) {
        let mut next_warning = Instant::now() + SLOW_START;
        while !shutdown.is_cancelled() && !self.readiness.iter().all(Readiness::is_ready) {
            if Instant::now() >= next_warning {
                tracing::warn!(
                    "the services are not ready yet; check that the Kafka brokers run and have \
                     the topic"
                );
                next_warning += SLOW_START;
            }
            tokio::time::sleep(READY_POLL_INTERVAL).await;
        }
    }
}
