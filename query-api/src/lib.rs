//! The query side: answers reads from the read tables, and follows short links.
//!
//! query-api writes the time at which each API key was last used, and the clicks that it records: records in Kafka,
//! and heartbeats of its recorder beside the statistics. query-api reads the epoch and the API keys from the event
//! store. When a read table lacks a row, query-api asks the event store before it answers 404. The reads of the admin
//! API are answered by the event store alone. Event store and read tables may be on two servers.

pub mod admin_routes;
mod cache_control;
mod checkpoint_watcher;
mod clicks;
pub mod command_line;
pub mod config;
mod consistency;
mod console;
mod docs;
pub mod doctor;
mod feed;
mod history_reads;
mod paging;
mod parameters;
mod problem_page;
mod qr_codes;
mod read_model;
mod read_servers;
mod redirect;
mod redirect_cache;
mod redirect_changes;
pub mod routes;
mod short_host;
mod slow_reads;
mod statistics_reads;
pub mod webhook_routes;

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::Router;
use futures::future::BoxFuture;
use linkledger_core::{
    api_key::Scope,
    clock::{Clock, SystemClock},
};
use linkledger_event_store::SessionKind;
use linkledger_http::{
    admin_gate::AdminGate, answer::AnswerSettings, authentication::Authenticator, cors,
    gate::RouteGate, observe::ServiceName, per_account_limit::PerAccountLimit,
    rate_limit::RequestClass, served_hosts::ServedHosts,
};
use linkledger_service::{
    databases::Databases,
    doctor::admission,
    internal_listener::{self, Readiness},
    lifecycle::{self, Tasks},
    metrics_recorder::MetricsRecorder,
};
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use utoipa::openapi::OpenApi;

use crate::{
    admin_routes::AdminState,
    checkpoint_watcher::CheckpointWatcher,
    clicks::Clicks,
    feed::Feed,
    history_reads::HistoryReads,
    qr_codes::QrCodes,
    read_servers::ReadServers,
    redirect::{FollowLink, Redirects},
    redirect_cache::RedirectCache,
    redirect_changes::ChangeFollower,
    routes::ApiState,
    statistics_reads::StatisticsReads,
    webhook_routes::{OperatorsWebhooks, OwnersWebhooks},
};
pub use clicks::ClickSettings;
pub use config::{QueryApiConfig, QueryApiInternalListen, QueryApiListenConfig, QueryApiSettings};
pub use short_host::ShortHost;

/// Maximum number of sessions of the follower that invalidates the redirect cache: one, and one more while
/// the server does not answer the ping of the other ([`linkledger_event_store::pool`]).
const FOLLOWER_CONNECTIONS: u32 = 2;

/// Maximum number of sessions for statistics of clicks. A costly read delays neither other reads nor
/// redirects.
const STATISTICS_CONNECTIONS: u32 = 4;

/// Maximum number of sessions for histories of links. An old instant of a link with many changes delays
/// no other read.
const HISTORY_CONNECTIONS: u32 = 4;

/// Maximum number of sessions for feeds of events, and for webhooks. Readers that wait for events hold none.
const FEED_CONNECTIONS: u32 = 4;

/// Maximum number of searches and pages of tags that an account may read at a time, in the sessions of the API;
/// half of the sessions, if there are fewer.
const COSTLY_PAGES_MAX: usize = 4;

/// Maximum number of sessions of the short host, for redirects that are not cached. The API has
/// separate sessions, so that a flood of unknown slugs does not delay the API.
const SHORT_HOST_CONNECTIONS: u32 = 6;

/// Maximum number of sessions of the admin API. Its reads of many events delay no owner.
const ADMIN_CONNECTIONS: u32 = 4;

/// The running service without its sockets.
pub struct QueryApi {
    /// Routes of the API.
    pub api: Router,
    /// Routes of the admin API that read, and the console for operators.
    pub admin: Router,
    /// Service of the short host.
    pub short_host: ShortHost,
    /// Readiness of the API and of the short host.
    pub readiness: Readiness,
}

/// Sockets of query-api as a separate process.
pub struct QueryApiListeners {
    /// Socket of the API.
    pub api: TcpListener,
    /// Socket of the short host.
    pub short_host: TcpListener,
    /// Socket of the admin API; `None` for no admin API.
    pub admin: Option<TcpListener>,
    /// Socket of probes and metrics; never reachable from outside.
    pub internal: TcpListener,
}

/// Returns the OpenAPI document of the operations of query-api on the public API.
pub fn openapi() -> OpenApi {
    routes::openapi().merge_from(webhook_routes::openapi_of_owners())
}

/// Returns the OpenAPI document of the operations of query-api on the admin API.
pub fn admin_openapi() -> OpenApi {
    admin_routes::openapi().merge_from(webhook_routes::openapi_of_operators())
}

/// Connects, checks that the migrations were run, and starts the background tasks.
///
/// # Errors
/// Returns an error if the database fails or lacks migrations, or if a setting is
/// invalid.
// Boxed, so that the future is compiled in this crate and not in each that awaits it.
pub fn start(
    config: QueryApiConfig,
    clock: Arc<dyn Clock>,
    tasks: &mut Tasks,
) -> BoxFuture<'_, anyhow::Result<QueryApi>> {
    Box::pin(async move {
        let settings = &config.databases;
        let databases = settings
            .pools(SessionKind::Reader, config.database_pool_size)
            .context("invalid address of a database")?;
        let allows_unsafe = config.allow_unsafe_postgres;
        admission::admit(settings, SessionKind::Reader, allows_unsafe).await?;
        let watcher = CheckpointWatcher::start(databases.clone(), tasks).await?;

        let base_url: Arc<str> = config.base_url.as_str().into();
        let short_base_url: Arc<str> = config.short_base_url.as_str().into();
        let settings = |service, address| AnswerSettings {
            base_url: Arc::clone(&base_url),
            short_base_url: Arc::clone(&short_base_url),
            hosts: ServedHosts::new(address, &config.allowed_hosts),
            service,
        };
        let short_host = config.short_base_url.url().host_str();
        let clicks = Clicks::start(&config.clicks, &config.databases, short_host, &clock, tasks);
        let clicks = clicks.await?;
        let authenticator = Authenticator::new(
            databases.log.clone(),
            Arc::clone(&clock),
            config.api_keys_cached_max,
            tasks,
        );
        authenticator.record_uses(tasks);
        let (class, scope) = (RequestClass::Read, Scope::LinksRead);
        let gate = RouteGate::new(authenticator, config.rate_limit, class, scope);
        let follow = follow_link(&config, &watcher, (clicks, &clock), tasks)?;
        let short_host = ShortHost::new(
            follow,
            settings(ServiceName::ShortHost, &config.short_base_url),
        );
        let statistics = own_pool(&config, config.databases.read_url(), STATISTICS_CONNECTIONS)?;
        let histories = own_pool(&config, config.databases.log_url(), HISTORY_CONNECTIONS)?;
        let feed = own_pool(&config, config.databases.log_url(), FEED_CONNECTIONS)?;
        let feed = Feed::start(feed, tasks);
        let webhooks = OwnersWebhooks {
            reads: feed.reads().with_advice(webhook_routes::ADVICE),
            watcher: Arc::clone(&watcher),
            base_url: Arc::clone(&base_url),
        };
        let webhooks = webhook_routes::of_owners(webhooks, &gate);
        let api = ApiState {
            statistics: StatisticsReads::new(statistics),
            histories: HistoryReads::new(histories),
            feed,
            costly_pages: costly_pages(config.database_pool_size as usize),
            qr_codes: QrCodes::new(),
            clock: Arc::clone(&clock),
            read: ReadServers::start(databases.read, &config, tasks)?,
            log: databases.log,
            watcher,
            base_url: Arc::clone(&base_url),
            short_base_url: Arc::clone(&short_base_url),
        };
        let settings = settings(ServiceName::QueryApi, &config.base_url);
        let routes = routes::router(api, gate, webhooks, settings);
        let readiness = Readiness::default();
        readiness.set_ready();
        Ok(QueryApi {
            api: cors::allow(routes, &config.cors_allowed_origins),
            admin: admin_router(&config, clock)?,
            short_host,
            readiness,
        })
    })
}

/// Starts what following a link needs.
fn follow_link(
    config: &QueryApiConfig,
    watcher: &Arc<CheckpointWatcher>,
    (clicks, clock): (Clicks, &Arc<dyn Clock>),
    tasks: &mut Tasks,
) -> anyhow::Result<FollowLink> {
    let cache = start_redirect_cache(config, tasks)?;
    let databases = short_host_databases(config)?;
    let redirects = Redirects::start(&databases, Arc::clone(watcher), cache, tasks);
    Ok(FollowLink {
        redirects: Arc::new(redirects),
        status: config.redirect_status,
        clicks,
        clock: Arc::clone(clock),
    })
}

/// Returns the databases for redirects that are not cached, with sessions of their own.
fn short_host_databases(config: &QueryApiConfig) -> sqlx::Result<Databases> {
    let connections = config.database_pool_size.min(SHORT_HOST_CONNECTIONS);
    config.databases.pools(SessionKind::Reader, connections)
}

/// Returns the sessions of one kind of reads, which delays no other kind.
fn own_pool(config: &QueryApiConfig, url: &str, connections_max: u32) -> sqlx::Result<PgPool> {
    let connections = config.database_pool_size.min(connections_max);
    linkledger_event_store::pool(url, SessionKind::Reader, connections)
}

/// Returns the routes of the admin API, with sessions of their own.
fn admin_router(config: &QueryApiConfig, clock: Arc<dyn Clock>) -> sqlx::Result<Router> {
    let log = own_pool(config, config.databases.log_url(), ADMIN_CONNECTIONS)?;
    let gate = AdminGate::new(log.clone(), clock, RequestClass::Read);
    let webhooks = webhook_routes::of_operators(OperatorsWebhooks { log: log.clone() }, &gate);
    let admin = AdminState {
        log,
        short_base_url: config.short_base_url.as_str().into(),
    };
    let settings = AnswerSettings {
        base_url: config.base_url.as_str().into(),
        short_base_url: config.short_base_url.as_str().into(),
        hosts: ServedHosts::internal(config.admin_allowed_hosts.clone()),
        service: ServiceName::AdminApi,
    };
    Ok(admin_routes::router(admin, &gate, webhooks, settings))
}

/// Returns the shares of the sessions of the API for searches and pages of tags. Those of all accounts together leave
/// a quarter of the sessions to quick reads.
fn costly_pages(sessions: usize) -> PerAccountLimit {
    PerAccountLimit::new(COSTLY_PAGES_MAX.min(sessions / 2), sessions - sessions / 4)
}

/// Creates the redirect cache, and starts its follower unless the cache has size 0. Without a
/// follower, every lookup bypasses the cache.
fn start_redirect_cache(
    config: &QueryApiConfig,
    tasks: &mut Tasks,
) -> anyhow::Result<Arc<RedirectCache>> {
    let staleness_max = Duration::from_millis(config.redirect_staleness_max_ms.into());
    let cache = Arc::new(RedirectCache::new(config.redirect_cache_mib, staleness_max));
    if config.redirect_cache_mib > 0 {
        let url = config.databases.read_url();
        let pool = linkledger_event_store::pool(url, SessionKind::Reader, FOLLOWER_CONNECTIONS)?;
        let filled = Arc::clone(&cache);
        // The first poll of a new follower clears the cache.
        tasks.spawn_housekeeping("redirect changes", move |shutdown| {
            ChangeFollower::new(Arc::clone(&filled), pool.clone()).run(shutdown)
        });
    }
    Ok(cache)
}

/// Runs query-api as a separate process, until the shutdown or a signal.
///
/// # Errors
/// Returns an error if the service cannot start, or if one of its tasks fails.
// Boxed for the reason of `start`.
pub fn serve(
    config: QueryApiConfig,
    listeners: QueryApiListeners,
    shutdown: CancellationToken,
) -> BoxFuture<'static, anyhow::Result<()>> {
    Box::pin(async move {
        lifecycle::set_process_limits();
        let mut tasks = Tasks::new(shutdown.clone());
        let recorder = MetricsRecorder::install(&mut tasks)?;
        lifecycle::shutdown_on_signal(&mut tasks)?;
        let hosts = config.admin_allowed_hosts.clone();
        let service = start(config, Arc::new(SystemClock), &mut tasks).await?;
        let internal = internal_listener::router(service.readiness, shutdown, recorder, hosts);
        lifecycle::serve_behind_ingress(&mut tasks, "api", listeners.api, service.api);
        lifecycle::serve_behind_ingress(
            &mut tasks,
            "short host",
            listeners.short_host,
            service.short_host,
        );
        if let Some(listener) = listeners.admin {
            lifecycle::serve_behind_ingress(&mut tasks, "admin", listener, service.admin);
        }
        lifecycle::serve(&mut tasks, "internal", listeners.internal, internal);
        tasks.join().await
    })
}
