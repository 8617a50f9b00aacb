//! command-api: decides commands, appends events, and relays them to Kafka.
//!
//! Entry points: [`serve`] runs the service, [`start`] builds it into another process,
//! [`admin`] holds the operator's commands.

pub mod admin;
pub mod command_handler;
pub mod command_line;
pub mod command_queue;
pub mod config;
pub mod doctor;
pub mod epoch;
pub mod log_end;
pub mod openapi;
pub mod relay;
pub mod renderer;
pub mod routes;
pub mod sealing;

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::Router;
use futures::future::BoxFuture;
use linkledger_core::{
    batch::Terms,
    clock::Clock,
    doctor::{same_database, server},
    event_store::{self, SessionKind, log},
    http::{authentication::Authenticator, cors},
    lifecycle::{self, Readiness, Tasks},
    link::OwnHosts,
    metrics::recorder::Recorder,
    migrations,
};
use tokio::{net::TcpListener, sync::Notify};
use tokio_util::sync::CancellationToken;

use command_handler::CommandHandler;
use command_queue::CommandQueue;
use config::Config;
use log_end::LogEpoch;
use relay::{Relay, batch_interval::BatchInterval, publisher::KafkaPublisher};
use routes::{AppState, Guards};
use sealing::Sealer;

/// Sessions for looking up API keys.
const READER_CONNECTIONS_MAX: u32 = 6;
/// Sessions of the relay: its own, so that a flood of unknown keys does not delay events.
const RELAY_CONNECTIONS_MAX: u32 = 2;
/// Sessions of what seals the log: it does one thing at a time.
const SEALER_CONNECTIONS_MAX: u32 = 1;

/// The service, ready to be served.
pub struct CommandApi {
    /// The routes of the API that change something.
    pub router: Router,
    /// Whether requests may be sent to it.
    pub readiness: Readiness,
}

/// The sockets of the service.
pub struct Listeners {
    /// For API clients, behind the ingress.
    pub api: TcpListener,
    /// For operators, probes and Prometheus.
    pub internal: TcpListener,
}

/// Connects, checks the schema, and starts the writers and the relay. The writers end when the
/// router is dropped.
///
/// # Errors
/// When a setting is refused, or the database does not answer or lacks migrations.
// Boxed, so that the future is compiled in this crate and not in each that awaits it.
pub fn start(
    config: Config,
    clock: Arc<dyn Clock>,
    tasks: &mut Tasks,
) -> BoxFuture<'_, anyhow::Result<CommandApi>> {
    Box::pin(start_among(config, clock, tasks))
}

async fn start_among(
    config: Config,
    clock: Arc<dyn Clock>,
    tasks: &mut Tasks,
) -> anyhow::Result<CommandApi> {
    let publisher = KafkaPublisher::new(&config.kafka, &config.kafka_compression)?;
    let url = config.database.database_url.reveal();
    let writers = event_store::pool(url, SessionKind::Writer, u32::from(config.writers))?;
    let readers = event_store::pool(url, SessionKind::Reader, READER_CONNECTIONS_MAX)?;
    admit(&config).await?;
    migrations::check(&readers).await?;
    let log_epoch = log::epoch(&readers).await;
    let log_epoch = LogEpoch::new(log_epoch.context("can't read the log's epoch")?);

    let appended = Arc::new(Notify::new());
    let handler = CommandHandler {
        pool: writers.clone(),
        terms: Terms {
            link_price: config.link_price,
            short_base_url: config.short_base_url.as_str().to_owned(),
        },
        clock: Arc::clone(&clock),
        appended: Arc::clone(&appended),
    };
    let queue = CommandQueue::start(handler, usize::from(config.writers), tasks);

    let relay_url = config.relay_database_url();
    let relay_pool = event_store::pool(relay_url, SessionKind::Reader, RELAY_CONNECTIONS_MAX)?;
    let owner = config
        .instance_id
        .clone()
        .unwrap_or_else(default_instance_id);
    let batch_interval_max = Duration::from_millis(config.relay_batch_interval_ms.into());
    let relay = Relay::new(relay_pool, publisher, owner, appended)
        .with_batch_interval(BatchInterval::up_to(batch_interval_max));
    tasks.spawn("relay", relay.run(tasks.shutdown()));

    let sealer_pool = event_store::pool(url, SessionKind::Reader, SEALER_CONNECTIONS_MAX)?;
    let sealer = Sealer::new(sealer_pool, Arc::clone(&clock));
    tasks.spawn("sealer", sealer.run(tasks.shutdown()));

    let end = log_end::follow(readers.clone(), log_epoch.clone(), tasks.shutdown());
    tasks.spawn("end of the log", end);

    let own_hosts = OwnHosts::of([config.base_url.url(), config.short_base_url.url()]);
    let state = AppState {
        queue,
        own_hosts: Arc::new(own_hosts),
        log_epoch,
        short_base_url: config.short_base_url.as_str().into(),
    };
    let authenticator = Arc::new(Authenticator::new(readers, clock));
    let (usage, drained) = (authenticator.usage(), tasks.drained());
    tasks.spawn_until_drained("key usage", async move {
        usage.run(drained).await;
        Ok(())
    });
    let guards = Guards {
        authenticator,
        rate_limit: config.rate_limit,
        base_url: config.base_url.as_str().into(),
    };
    let readiness = Readiness::default();
    readiness.set_ready();
    Ok(CommandApi {
        router: cors::allow(routes::router(state, guards), &config.cors_allowed_origins),
        readiness,
    })
}

/// Whether events are safe on these servers.
async fn admit(config: &Config) -> anyhow::Result<()> {
    let url = config.database.database_url.reveal();
    let allows_unsafe = config.allow_unsafe_postgres;
    server::admit(url, SessionKind::Writer, allows_unsafe).await?;
    if config.relay_database_url.is_some() {
        let relay_url = config.relay_database_url();
        server::admit(relay_url, SessionKind::Reader, allows_unsafe).await?;
        same_database::admit(url, relay_url).await?;
    }
    Ok(())
}

/// Runs the service until the shutdown; what was accepted by then is finished.
///
/// # Errors
/// When it can't start, or one of its tasks fails.
// Boxed for the reason of `start`.
pub fn serve(
    config: Config,
    clock: Arc<dyn Clock>,
    listeners: Listeners,
    shutdown: CancellationToken,
) -> BoxFuture<'static, anyhow::Result<()>> {
    Box::pin(serve_until(config, clock, listeners, shutdown))
}

async fn serve_until(
    config: Config,
    clock: Arc<dyn Clock>,
    listeners: Listeners,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    lifecycle::raise_open_files_limit();
    let mut tasks = Tasks::new(shutdown);
    let recorder = Recorder::install(&mut tasks)?;
    lifecycle::shutdown_on_signal(&mut tasks)?;
    let service = start(config, clock, &mut tasks).await?;
    let internal = lifecycle::internal_router(service.readiness, tasks.shutdown(), recorder);
    lifecycle::serve(
        &mut tasks,
        "internal listener",
        listeners.internal,
        internal,
    );
    lifecycle::serve_behind_ingress(&mut tasks, "api listener", listeners.api, service.router);
    tasks.join().await
}

fn default_instance_id() -> String {
    format!("{}:command-api", lifecycle::host_name())
}
