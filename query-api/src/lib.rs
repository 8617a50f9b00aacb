//! The query side: answers reads from the read tables, and follows short links.
//!
//! Writes nothing but when API keys were last used. From the event store it reads the epoch, API keys, and, when a read table lacks
//! something, whether that exists at all: a miss is not yet a 404.

mod checkpoint_watcher;
pub mod command_line;
pub mod config;
mod consistency;
mod docs;
pub mod doctor;
pub mod openapi;
mod paging;
mod parameters;
mod problem_page;
mod read_model;
mod redirect;
mod redirect_cache;
mod redirect_changes;
mod routes;
mod shared_reads;
mod short_host;

use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use futures::future::BoxFuture;
use linkledger_core::{
    clock::{Clock, SystemClock},
    cursor::CursorKeys,
    doctor::server,
    event_store::{self, SessionKind},
    http::{
        answer::AnswerSettings, authentication::Authenticator, cors, observe::Service,
        rate_limit::RateLimits,
    },
    lifecycle::{self, Readiness, Tasks},
    metrics::recorder::Recorder,
    migrations,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    checkpoint_watcher::CheckpointWatcher,
    redirect::{FollowLink, Redirects},
    redirect_cache::RedirectCache,
    redirect_changes::Follower,
    routes::Api,
    shared_reads::SharedReads,
};
pub use config::{Config, InternalListen, ListenConfig};
pub use short_host::ShortHost;

/// Sessions of what follows changes for the redirect cache.
const FOLLOWER_CONNECTIONS: u32 = 1;

/// The running service, but for the sockets.
pub struct QueryApi {
    /// What the API's address serves.
    pub api: Router,
    /// What the short host serves.
    pub short_host: ShortHost,
    /// Whether requests may be sent to the two.
    pub readiness: Readiness,
}

/// The sockets of a process of its own.
pub struct Listeners {
    /// Of the API.
    pub api: TcpListener,
    /// Of the short host.
    pub short_host: TcpListener,
    /// Of probes and metrics; never reachable from outside.
    pub internal: TcpListener,
}

/// Connects, checks that the migrations were run, and starts the background tasks.
///
/// # Errors
/// When the database does not answer or is not at the state that this release needs, or a setting
/// can't be used.
// Boxed, so that the future is compiled in this crate and not in each that awaits it.
pub fn start(
    config: Config,
    clock: Arc<dyn Clock>,
    tasks: &mut Tasks,
) -> BoxFuture<'_, anyhow::Result<QueryApi>> {
    Box::pin(start_among(config, clock, tasks))
}

async fn start_among(
    config: Config,
    clock: Arc<dyn Clock>,
    tasks: &mut Tasks,
) -> anyhow::Result<QueryApi> {
    let cursor_keys =
        CursorKeys::parse(config.cursor_keys.reveal()).context("can't use the cursor keys")?;
    let database_url = config.database_url.reveal();
    let pool = event_store::pool(database_url, SessionKind::Reader, config.connections_max)
        .context("can't use the database's address")?;
    server::admit(
        database_url,
        SessionKind::Reader,
        config.allow_unsafe_postgres,
    )
    .await?;
    migrations::check(&pool)
        .await
        .context("can't use the database")?;
    server::admit(
        database_url,
        SessionKind::Reader,
        config.allow_unsafe_postgres,
    )
    .await?;
    let watcher = CheckpointWatcher::start(pool.clone(), tasks).await?;

    let base_url: Arc<str> = config.base_url.as_str().into();
    let settings = |service| AnswerSettings {
        base_url: Arc::clone(&base_url),
        service,
    };
    let authenticator = Arc::new(Authenticator::new(pool.clone(), clock));
    let (usage, drained) = (authenticator.usage(), tasks.drained());
    tasks.spawn_until_drained("key usage", async move {
        usage.run(drained).await;
        Ok(())
    });
    let guards = routes::Guards {
        authenticator,
        rate_limits: RateLimits::new(config.rate_limit).map(Arc::new),
    };
    let cache = start_redirect_cache(&config, tasks)?;
    let follow = FollowLink {
        redirects: Arc::new(Redirects::new(pool.clone(), Arc::clone(&watcher), cache)),
        status: config.redirect_status,
    };
    let short_host = ShortHost::new(follow, settings(Service::ShortHost));
    let answers = settings(Service::QueryApi);
    let api = Api {
        links: SharedReads::start(&pool, tasks),
        link_pages: SharedReads::start(&pool, tasks),
        pool,
        watcher,
        cursor_keys,
        base_url,
        short_base_url: config.short_base_url.as_str().into(),
    };
    let readiness = Readiness::default();
    readiness.set_ready();
    Ok(QueryApi {
        api: cors::allow(
            routes::router(api, &guards, answers),
            &config.cors_allowed_origins,
        ),
        short_host,
        readiness,
    })
}

/// Without a follower, as long as the cache has no size, it is bypassed.
fn start_redirect_cache(config: &Config, tasks: &mut Tasks) -> anyhow::Result<Arc<RedirectCache>> {
    let cache = Arc::new(RedirectCache::new(config.redirect_cache_mib));
    if config.redirect_cache_mib > 0 {
        let database_url = config.database_url.reveal();
        let pool = event_store::pool(database_url, SessionKind::Reader, FOLLOWER_CONNECTIONS)?;
        let follower = Follower::new(Arc::clone(&cache), pool);
        tasks.spawn("redirect changes", follower.run(tasks.shutdown()));
    }
    Ok(cache)
}

/// Runs the service as a process of its own, until the shutdown or a signal.
///
/// # Errors
/// When it can't start, or when a task of it has failed.
// Boxed for the reason of `start`.
pub fn serve(
    config: Config,
    listeners: Listeners,
    shutdown: CancellationToken,
) -> BoxFuture<'static, anyhow::Result<()>> {
    Box::pin(serve_until(config, listeners, shutdown))
}

async fn serve_until(
    config: Config,
    listeners: Listeners,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    lifecycle::raise_open_files_limit();
    let mut tasks = Tasks::new(shutdown.clone());
    let recorder = Recorder::install(&mut tasks)?;
    lifecycle::shutdown_on_signal(&mut tasks)?;
    let service = start(config, Arc::new(SystemClock), &mut tasks).await?;
    let internal = lifecycle::internal_router(service.readiness, shutdown, recorder);
    lifecycle::serve_behind_ingress(&mut tasks, "api", listeners.api, service.api);
    lifecycle::serve_behind_ingress(
        &mut tasks,
        "short host",
        listeners.short_host,
        service.short_host,
    );
    lifecycle::serve(&mut tasks, "internal", listeners.internal, internal);
    tasks.join().await
}
