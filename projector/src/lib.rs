//! Keeps the read models up to date with the event log.
//!
//! Six folders:
//!
//! - [`pipeline`] runs all day. A process claims shards ([`pipeline::claims`]), and each projection there is a follower
//!   of the log ([`pipeline::followers`]): records of the topic come in through [`pipeline::consumer`], and the log
//!   itself is read where the topic lacks the next event. One or two transactions per cycle apply the events
//!   ([`pipeline::apply`]). A [`pipeline::checkpoint`] moves in the same transaction as the rows, so that a crash, a
//!   duplicate or a second projector has no effect. An account with an event that cannot be applied is parked
//!   ([`pipeline::parking`]).
//! - [`clicks`] counts clicks: it reads a topic of its own, and writes statistics of links and accounts.
//! - [`webhooks`] sends messages about events to receivers outside: a process of its own, `projector webhooks`, which
//!   needs nothing but the log.
//! - [`read_models`] holds the read tables, and the projection of an event onto each of them.
//!   Redirect caches follow [`read_models::redirects::RedirectChanges`].
//! - [`operations`] holds the operator's functions: rebuild, verify, pause, recount, status.
//! - [`cli`] and [`admin_routes`] offer them, on the command line and over HTTP.
//!
//! `pipeline` imports from `read_models`, `clicks` claims, clients and retries of `pipeline`, `operations` from all of
//! them, `cli` and `admin_routes` from all, and nothing the other way round.

pub mod admin_routes;
pub mod cli;
pub mod clicks;
pub mod command_line;
pub mod config;
pub mod doctor;
pub mod operations;
pub mod pipeline;
pub mod progress;
pub mod read_models;
pub mod webhooks;

use anyhow::Context as _;
use axum::Router;
use futures::future::BoxFuture;
use linkledger_core::shard::Shard;
use linkledger_event_store::SessionKind;
use linkledger_service::{
    databases::Databases,
    doctor::admission,
    internal_listener::{self, Readiness},
    lifecycle::{self, Tasks},
    metrics::{
        CATCH_UPS_TOTAL, CHECKPOINTS_LOST_TOTAL, GAPS_REPAIRED_TOTAL, RECORDS_FOREIGN_TOTAL,
        RECORDS_UNREADABLE_TOTAL,
    },
    metrics_recorder::MetricsRecorder,
};
use metrics::counter;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    clicks::AggregationStop,
    operations::{audit, status, verify},
    pipeline::{claims::Claims, consumer::Consumer, followers::Followers, redirect_changes, run},
};
pub use crate::{
    config::Config,
    webhooks::{serve_webhooks, start_webhooks},
};

/// A projector that runs in this process.
pub struct Projector {
    /// Ready once its shards are claimed and their checkpoints are loaded.
    pub readiness: Readiness,
    /// Routes of the admin API: the status, and pauses of followers.
    pub admin: Router,
}

/// Sockets of the projector as a separate process.
pub struct ProjectorListeners {
    /// Socket of the admin API; `None` for no admin API.
    pub admin: Option<TcpListener>,
    /// Socket of probes and metrics; never reachable from outside.
    pub internal: TcpListener,
}

/// Starts the projector as tasks of `tasks`.
///
/// # Errors
/// Returns an error if the database fails, a migration is pending, or a setting is
/// refused.
// Boxed, so that the future is compiled in this crate and not in each that awaits it.
pub fn start(
    config: Config,
    aggregation_stop: AggregationStop,
    tasks: &mut Tasks,
) -> BoxFuture<'_, anyhow::Result<Projector>> {
    Box::pin(async move {
        // Kafka settings can be refused without a database, and are refused first.
        drop(config.kafka.client_settings()?);
        let settings = &config.databases;
        let databases = settings
            .pools(SessionKind::Projector, config.database_pool_size)
            .context("cannot parse the address of the database")?;
        let allows_unsafe = config.allow_unsafe_postgres;
        admission::admit(settings, SessionKind::Projector, allows_unsafe).await?;
        begin_counters();
        let consumer = Consumer::new(&config, databases.log.clone())?;
        let readiness = Readiness::default();
        spawn_housekeeping(&databases, tasks);
        let claims = Claims::new(databases.read.clone(), Claims::process_name());
        let log = databases.log.clone();
        clicks::start(&config, log, &claims.shards(), aggregation_stop, tasks)?;
        let projector = run::RunLoop {
            consumer,
            claims,
            followers: Followers::new(databases),
            readiness: readiness.clone(),
        };
        tasks.spawn_essential("projector", projector.run(tasks.shutdown()));
        let admin =
            admin_routes::router(&config).context("cannot parse the address of the database")?;
        Ok(Projector { readiness, admin })
    })
}

fn spawn_housekeeping(databases: &Databases, tasks: &mut Tasks) {
    let read = databases.read.clone();
    tasks.spawn_housekeeping("pruning of redirect changes", move |shutdown| {
        redirect_changes::keep_pruned(read.clone(), shutdown)
    });
    let read = databases.read.clone();
    tasks.spawn_housekeeping("age of the oldest snapshot", move |shutdown| {
        status::snapshot::keep_reported(read.clone(), shutdown)
    });
    let read = databases.read.clone();
    tasks.spawn_housekeeping("last verifications", move |shutdown| {
        verify::outcome::keep_reported(read.clone(), shutdown)
    });
    let read = databases.read.clone();
    tasks.spawn_housekeeping("outcomes of operators' commands", move |shutdown| {
        audit::report::keep_reported(read.clone(), shutdown)
    });
}

/// Starts the counters of alerts at 0, so that the first event is an increase.
fn begin_counters() {
    counter!(RECORDS_UNREADABLE_TOTAL).increment(0);
    for name in [
        GAPS_REPAIRED_TOTAL,
        RECORDS_FOREIGN_TOTAL,
        CATCH_UPS_TOTAL,
        CHECKPOINTS_LOST_TOTAL,
    ] {
        for shard in Shard::all() {
            counter!(name, "shard" => shard.to_string()).increment(0);
        }
    }
}

/// Runs the projector until the shutdown.
///
/// # Errors
/// Returns the error that ended the projector before the shutdown.
// Boxed for the reason of `start`.
pub fn serve(
    config: Config,
    listeners: ProjectorListeners,
    shutdown: CancellationToken,
) -> BoxFuture<'static, anyhow::Result<()>> {
    Box::pin(async move {
        let mut tasks = Tasks::new(shutdown.clone());
        let recorder = MetricsRecorder::install(&mut tasks)?;
        lifecycle::shutdown_on_signal(&mut tasks)?;
        let hosts = config.admin_allowed_hosts.clone();
        let projector = start(config, AggregationStop::AtShutdown, &mut tasks).await?;
        let internal = internal_listener::router(projector.readiness, shutdown, recorder, hosts);
        if let Some(listener) = listeners.admin {
            lifecycle::serve_behind_ingress(&mut tasks, "admin", listener, projector.admin);
        }
        lifecycle::serve(
            &mut tasks,
            "internal listener",
            listeners.internal,
            internal,
        );
        tasks.join().await
    })
}
