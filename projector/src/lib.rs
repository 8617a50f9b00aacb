//! Keeps the read models up to date with the event log.
//!
//! Records of the topic come in through [`consumer`], [`progress`] tells which of their events
//! are next in line, [`engine`] applies them in a transaction or two per cycle ([`apply`]) to all
//! [`projections`], and reads from the event store what the topic lacks. A [`checkpoint`] moves in
//! the same transaction as the rows, so that a crash, a duplicate or a second projector has no
//! effect. An account one of whose events can't be applied waits aside ([`parking`]). Redirect
//! caches follow [`redirect_changes`]. Operators look at it all in the [`console`].

pub mod admin;
pub mod apply;
pub mod checkpoint;
pub mod command_line;
pub mod config;
pub mod console;
pub mod consumer;
pub mod doctor;
pub mod engine;
mod figures;
pub mod heartbeat;
pub mod operation;
pub mod parking;
pub mod pause;
mod periodic;
pub mod poison;
pub mod progress;
pub mod progress_report;
pub mod projections;
pub mod rebuild;
pub mod redirect_changes;
pub mod retry;
pub mod run;
pub mod status;
pub mod verify;
pub mod why;

use anyhow::Context as _;
use axum::Router;
use futures::future::BoxFuture;
use linkledger_core::{
    doctor::server,
    event_store::{self, SessionKind},
    lifecycle::{self, Readiness, Tasks},
    metrics::{
        CATCH_UPS_TOTAL, CHECKPOINTS_LOST_TOTAL, GAPS_REPAIRED_TOTAL, RECORDS_FOREIGN_TOTAL,
        RECORDS_UNREADABLE_TOTAL, recorder::Recorder,
    },
    migrations,
    shard::Shard,
};
use metrics::counter;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use crate::config::Config;
use crate::{consumer::Consumer, engine::Engine, heartbeat::Heartbeat};

/// The sockets of the service.
pub struct Listeners {
    /// Probes, metrics, and the operators' console.
    pub internal: TcpListener,
}

/// A projector that runs in this process.
pub struct Projector {
    /// Ready once partitions are assigned and their checkpoints are loaded.
    pub readiness: Readiness,
    /// The operators' console, for the internal listener.
    pub console: Router,
}

/// Starts the projector among `tasks`; it ends with them.
///
/// # Errors
/// When the database does not answer, a migration is pending, or a setting is refused.
// Boxed, so that the future is compiled in this crate and not in each that awaits it.
pub fn start(config: Config, tasks: &mut Tasks) -> BoxFuture<'_, anyhow::Result<Projector>> {
    Box::pin(start_among(config, tasks))
}

async fn start_among(config: Config, tasks: &mut Tasks) -> anyhow::Result<Projector> {
    // What can be seen without a database is told first.
    drop(config.kafka.client_settings()?);
    let database_url = config.database_url.reveal();
    let pool = event_store::pool(database_url, SessionKind::Projector, config.connections_max)
        .context("can't read the address of the database")?;
    let allows_unsafe = config.allow_unsafe_postgres;
    server::admit(database_url, SessionKind::Projector, allows_unsafe).await?;
    migrations::check(&pool).await?;
    begin_counters();
    let consumer = Consumer::join(&config)?;
    let readiness = Readiness::default();
    tasks.spawn(
        "pruning of redirect changes",
        redirect_changes::keep_pruned(pool.clone(), tasks.shutdown()),
    );
    tasks.spawn(
        "the age of the oldest snapshot",
        status::snapshot::keep_reported(pool.clone(), tasks.shutdown()),
    );
    tasks.spawn(
        "what was verified last",
        verify::outcome::keep_reported(pool.clone(), tasks.shutdown()),
    );
    tasks.spawn(
        "what operators' commands have come to",
        operation::report::keep_reported(pool.clone(), tasks.shutdown()),
    );
    let projector = run::Loop {
        consumer,
        heartbeat: Heartbeat::new(pool.clone(), heartbeat::this_process()),
        engine: Engine::new(pool),
        readiness: readiness.clone(),
    };
    tasks.spawn("projector", projector.run(tasks.shutdown()));
    let console = console::start(database_url, config.console_hosts, tasks)
        .context("can't read the address of the database")?;
    Ok(Projector { readiness, console })
}

/// What alerts look at is counted from 0: its first time is an increase.
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

/// Runs the projector and its internal listener until the shutdown.
///
/// # Errors
/// Whatever has ended it before.
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
    let mut tasks = Tasks::new(shutdown.clone());
    let recorder = Recorder::install(&mut tasks)?;
    lifecycle::shutdown_on_signal(&mut tasks)?;
    let projector = start(config, &mut tasks).await?;
    let router = lifecycle::internal_router(projector.readiness, shutdown, recorder)
        .merge(projector.console);
    lifecycle::serve(&mut tasks, "internal listener", listeners.internal, router);
    tasks.join().await
}
