//! command-api: decides commands, appends events, and relays the events to Kafka.
//!
//! Entry points: [`serve`] runs the service, [`start`] builds the service into another process,
//! [`admin`] holds the operator's commands.

pub mod admin;
pub mod admin_routes;
pub mod command_handler;
pub mod command_line;
pub mod command_queue;
pub mod committed_events;
pub mod config;
pub mod doctor;
pub mod epoch;
pub mod log_end;
pub mod observer;
pub mod relay;
pub mod renderer;
pub mod routes;
pub mod sealing;
pub mod webhook_routes;

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::Router;
use futures::future::BoxFuture;
use linkledger_core::{
    api_key::Scope, clock::Clock, commands::CreateTerms, link::DestinationRules,
};
use linkledger_event_store::{
    SessionKind, log_meta,
    migrations::{self, Schema},
    time_limit::{ANSWER_TIME_MAX, within},
};
use linkledger_http::{
    admin_gate::AdminGate, answer::AnswerSettings, authentication::Authenticator, cors,
    gate::RouteGate, observe::ServiceName, rate_limit::RequestClass, served_hosts::ServedHosts,
};
use linkledger_service::{
    doctor::{same_database, server},
    internal_listener::{self, Readiness},
    lifecycle::{self, Tasks},
    metrics_recorder::MetricsRecorder,
};
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use utoipa::openapi::OpenApi;

use admin_routes::{AdminState, enter_console::ConsoleEntrance};
use command_handler::CommandHandler;
use command_queue::{CommandQueue, SESSIONS_PER_WRITER};
use committed_events::CommittedEvents;
use config::CommandApiConfig;
use log_end::LogEpoch;
use observer::Observer;
use relay::{Relay, publisher::KafkaPublisher};
use routes::WriteState;
use sealing::Sealer;
use webhook_routes::{WebhookSettings, WebhookWrites};

/// Maximum number of sessions for looking up API keys.
const READER_CONNECTIONS_MAX: u32 = 6;
/// Maximum number of sessions of the relay. The relay has a separate pool, so that a flood of
/// invented keys does not delay events.
const RELAY_CONNECTIONS_MAX: u32 = 2;
/// Maximum number of sessions of the sealer, which runs one statement at a time: one, and one more while the
/// server does not answer the ping of the other ([`linkledger_event_store::pool`]).
const SEALER_CONNECTIONS_MAX: u32 = 2;
/// Maximum number of sessions of the observer, which uses one at a time like the sealer.
const OBSERVER_CONNECTIONS_MAX: u32 = 2;

/// Maximum number of sessions of the admin API, whose requests wait for each other and never for links.
const ADMIN_CONNECTIONS_MAX: u32 = 4;
/// Maximum number of sessions that write webhooks of owners. Those of one account wait for each other anyway.
const WEBHOOK_CONNECTIONS_MAX: u32 = 4;
/// Maximum number of sessions that exchange the codes of console sessions, which anybody may send.
const ENTRANCE_CONNECTIONS_MAX: u32 = 2;

/// The running service without its sockets.
pub struct CommandApi {
    /// Routes of the API that write.
    pub router: Router,
    /// Routes of the admin API that write.
    pub admin: Router,
    /// Readiness of the service.
    pub readiness: Readiness,
}

/// Sockets of command-api as a separate process.
pub struct CommandApiListeners {
    /// Socket of the API, behind the ingress.
    pub api: TcpListener,
    /// Socket of the admin API; `None` for no admin API.
    pub admin: Option<TcpListener>,
    /// Socket of operators, probes and Prometheus.
    pub internal: TcpListener,
}

/// Returns the OpenAPI document of the operations of command-api on the public API.
pub fn openapi() -> OpenApi {
    routes::openapi().merge_from(webhook_routes::openapi_of_owners())
}

/// Returns the OpenAPI document of the operations of command-api on the admin API.
pub fn admin_openapi() -> OpenApi {
    admin_routes::openapi().merge_from(webhook_routes::openapi_of_operators())
}

/// Connects, checks that the migrations were run, and starts the writers, the relay, the sealer, the observer,
/// and the task that follows the end of the log. The writers end when the router is dropped.
///
/// # Errors
/// Returns an error if a setting is invalid, or if the database fails or lacks migrations.
// Boxed, so that the future is compiled in this crate and not in each that awaits it.
pub fn start(
    config: CommandApiConfig,
    clock: Arc<dyn Clock>,
    tasks: &mut Tasks,
) -> BoxFuture<'_, anyhow::Result<CommandApi>> {
    Box::pin(start_unboxed(config, clock, tasks))
}

async fn start_unboxed(
    config: CommandApiConfig,
    clock: Arc<dyn Clock>,
    tasks: &mut Tasks,
) -> anyhow::Result<CommandApi> {
    let publisher = KafkaPublisher::new(&config.kafka, &config.kafka_compression)?;
    let url = config.database.log_url();
    let readers = linkledger_event_store::pool(url, SessionKind::Reader, READER_CONNECTIONS_MAX)?;
    check_servers(&config).await?;
    let log_epoch = prepare_log(&readers, config.link_price).await?;

    let committed = Arc::<CommittedEvents>::default();
    let handler = || {
        // Each writer has sessions of its own, since they belong to the thread of the writer.
        let pool = linkledger_event_store::pool(url, SessionKind::Writer, SESSIONS_PER_WRITER)?;
        Ok(CommandHandler {
            pool,
            terms: CreateTerms {
                link_price: config.link_price,
                short_base_url: config.short_base_url.as_str().to_owned(),
            },
            clock: Arc::clone(&clock),
            committed: Arc::clone(&committed),
        })
    };
    let handlers: sqlx::Result<Vec<_>> = (0..config.writer_threads.max(1))
        .map(|_| handler())
        .collect();
    let (queue, writers) = CommandQueue::new(handlers?);
    for writer in writers {
        tasks.spawn_essential_on_thread("writer", writer.run(tasks.shutdown()));
    }

    start_relay(&config, publisher, committed, tasks)?;
    start_sealer(url, tasks)?;
    start_observer(url, tasks)?;

    let end = log_end::follow(readers.clone(), log_epoch.clone(), tasks.shutdown());
    tasks.spawn_essential("end of the log", end);

    let webhooks = webhook_writes(&config, &clock, &log_epoch)?;
    let admin = admin_router(&config, readers.clone(), &webhooks)?;
    let entrance = ConsoleEntrance {
        pool: linkledger_event_store::pool(url, SessionKind::Writer, ENTRANCE_CONNECTIONS_MAX)?,
        clock: Arc::clone(&clock),
    };
    let authenticator = Authenticator::new(readers, clock, config.api_keys_cached_max, tasks);
    authenticator.record_uses(tasks);
    let (class, scope) = (RequestClass::Write, Scope::LinksWrite);
    let gate = RouteGate::new(authenticator, config.rate_limit, class, scope);
    let state = WriteState {
        queue,
        destination_rules: Arc::new(destination_rules(&config)),
        log_epoch,
        short_base_url: config.short_base_url.as_str().into(),
        base_url: config.base_url.as_str().into(),
        bodies: Arc::default(),
        rate_limits: gate.rate_limits(),
    };
    let settings = AnswerSettings {
        base_url: config.base_url.as_str().into(),
        short_base_url: config.short_base_url.as_str().into(),
        hosts: ServedHosts::new(&config.base_url, &config.allowed_hosts),
        service: ServiceName::CommandApi,
    };
    let others = entrance
        .router()
        .merge(webhook_routes::of_owners(webhooks, &gate));
    let routes = routes::router(state, gate, others, settings);
    let readiness = Readiness::default();
    readiness.set_ready();
    Ok(CommandApi {
        router: cors::allow(routes, &config.cors_allowed_origins),
        admin,
        readiness,
    })
}

/// Starts the relay.
fn start_relay(
    config: &CommandApiConfig,
    publisher: KafkaPublisher,
    committed: Arc<CommittedEvents>,
    tasks: &mut Tasks,
) -> sqlx::Result<()> {
    let url = config.relay_database_url();
    // `SessionKind::Reader` fits sessions that read, and that write single rows.
    let pool = linkledger_event_store::pool(url, SessionKind::Reader, RELAY_CONNECTIONS_MAX)?;
    let owner = config.instance_id.clone();
    let owner = owner.unwrap_or_else(|| format!("{}:command-api", lifecycle::host_name()));
    let mut relay = Relay::new(pool, publisher, owner, committed);
    relay.batch_interval_max = Duration::from_millis(config.relay_batch_interval_ms.into());
    tasks.spawn_essential("relay", relay.run(tasks.shutdown()));
    Ok(())
}

/// Starts the sealer.
fn start_sealer(url: &str, tasks: &mut Tasks) -> sqlx::Result<()> {
    // A reader like the relay: the sealer reads, and writes single rows.
    let pool = linkledger_event_store::pool(url, SessionKind::Reader, SEALER_CONNECTIONS_MAX)?;
    tasks.spawn_housekeeping("sealer", move |shutdown| {
        Sealer::new(pool.clone()).run(shutdown)
    });
    Ok(())
}

/// Starts the observer.
fn start_observer(url: &str, tasks: &mut Tasks) -> sqlx::Result<()> {
    let pool = linkledger_event_store::pool(url, SessionKind::Writer, OBSERVER_CONNECTIONS_MAX)?;
    tasks.spawn_housekeeping("observer", move |shutdown| {
        Observer::new(pool.clone()).run(shutdown)
    });
    Ok(())
}

/// Returns the state of the routes of owners' webhooks, with sessions of their own.
fn webhook_writes(
    config: &CommandApiConfig,
    clock: &Arc<dyn Clock>,
    log_epoch: &LogEpoch,
) -> anyhow::Result<WebhookWrites> {
    let url = config.database.log_url();
    let pool = linkledger_event_store::pool(url, SessionKind::Writer, WEBHOOK_CONNECTIONS_MAX)?;
    let settings = WebhookSettings {
        master_keys: config.webhooks.master_keys()?,
        url_rules: config.webhooks.url_rules(),
    };
    let (clock, log_epoch) = (Arc::clone(clock), log_epoch.clone());
    Ok(WebhookWrites::new(pool, clock, log_epoch, settings))
}

/// Returns the routes of the admin API, with sessions of their own. Keys are looked up by `readers`: commands that wait
/// for a locked account must not keep anybody from revoking a key.
fn admin_router(
    config: &CommandApiConfig,
    readers: PgPool,
    webhooks: &WebhookWrites,
) -> sqlx::Result<Router> {
    let url = config.database.log_url();
    let pool = linkledger_event_store::pool(url, SessionKind::Writer, ADMIN_CONNECTIONS_MAX)?;
    let webhooks = webhooks.on(pool.clone());
    let state = AdminState {
        pool,
        clock: Arc::clone(&webhooks.clock),
        log_epoch: webhooks.log_epoch.clone(),
        base_url: config.base_url.as_str().into(),
    };
    let gate = AdminGate::new(readers, Arc::clone(&state.clock), RequestClass::Write);
    let settings = AnswerSettings {
        base_url: config.base_url.as_str().into(),
        short_base_url: config.short_base_url.as_str().into(),
        hosts: ServedHosts::internal(config.admin_allowed_hosts.clone()),
        service: ServiceName::AdminApi,
    };
    let webhooks = webhook_routes::of_operators(webhooks, &gate);
    Ok(admin_routes::router(state, &gate, webhooks, settings))
}

/// Returns the rules for destinations. A link to a name under which this installation answers could loop.
fn destination_rules(config: &CommandApiConfig) -> DestinationRules {
    DestinationRules::new(
        [config.base_url.url(), config.short_base_url.url()],
        config.destination_schemes.clone(),
        config.destination_hosts,
    )
    .with_names(&config.allowed_hosts)
}

/// Checks that the migrations were run, stores the price of a link, and returns the epoch of the log.
async fn prepare_log(pool: &PgPool, link_price: i64) -> anyhow::Result<LogEpoch> {
    migrations::check(pool, &[Schema::EventStore]).await?;
    // A commit waits for the synchronous standby without a limit of its own.
    let stored = within(
        ANSWER_TIME_MAX,
        log_meta::store_link_price(pool, link_price),
    )
    .await;
    stored.context(
        "cannot store the price of a link; if a right is missing, run deploy/postgres/roles.sql",
    )?;
    let log_epoch = log_meta::epoch(pool).await;
    Ok(LogEpoch::new(
        log_epoch.context("cannot read the epoch of the log")?,
    ))
}

/// Checks that the servers do not lose committed events, and that the relay uses the same database.
async fn check_servers(config: &CommandApiConfig) -> anyhow::Result<()> {
    let url = config.database.log_url();
    let allows_unsafe = config.allow_unsafe_postgres;
    server::admit(url, SessionKind::Writer, allows_unsafe).await?;
    if config.relay_database_url.is_some() {
        let relay_url = config.relay_database_url();
        server::admit(relay_url, SessionKind::Reader, allows_unsafe).await?;
        same_database::admit(url, relay_url).await?;
    }
    Ok(())
}

/// Runs command-api as a separate process, until the shutdown or a signal. Accepted commands are
/// finished.
///
/// # Errors
/// Returns an error if the service cannot start, or if one of its tasks fails.
// Boxed for the reason of `start`.
pub fn serve(
    config: CommandApiConfig,
    clock: Arc<dyn Clock>,
    listeners: CommandApiListeners,
    shutdown: CancellationToken,
) -> BoxFuture<'static, anyhow::Result<()>> {
    Box::pin(async move {
        lifecycle::set_process_limits();
        let mut tasks = Tasks::new(shutdown);
        let recorder = MetricsRecorder::install(&mut tasks)?;
        lifecycle::shutdown_on_signal(&mut tasks)?;
        let hosts = config.admin_allowed_hosts.clone();
        let service = start(config, clock, &mut tasks).await?;
        let internal =
            internal_listener::router(service.readiness, tasks.shutdown(), recorder, hosts);
        lifecycle::serve(
            &mut tasks,
            "internal listener",
            listeners.internal,
            internal,
        );
        lifecycle::serve_behind_ingress(&mut tasks, "api listener", listeners.api, service.router);
        if let Some(listener) = listeners.admin {
            lifecycle::serve_behind_ingress(&mut tasks, "admin listener", listener, service.admin);
        }
        tasks.join().await
    })
}
