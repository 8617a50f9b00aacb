//! Keeps the read models up to date with the event log.
//!
//! Records of the topic come in through [`consumer`], [`progress`] tells which of their events
//! are next in line, [`engine`] applies them in one transaction per cycle ([`apply`]) to all
//! [`projections`], and reads from the event store what the topic lacks. A [`checkpoint`] moves in
//! the same transaction as the rows, so that a crash, a duplicate or a second projector has no
//! effect. An account one of whose events can't be applied waits aside ([`parking`]). Redirect
//! caches follow [`redirect_changes`].

pub mod admin;
pub mod apply;
pub mod checkpoint;
pub mod config;
pub mod consumer;
pub mod engine;
pub mod parking;
pub mod poison;
pub mod progress;
pub mod projections;
pub mod redirect_changes;
pub mod retry;
pub mod run;

use anyhow::Context as _;
use linkledger_core::{
    event_store::{self, SessionKind},
    lifecycle::{self, Readiness, Tasks},
    metrics::recorder::Recorder,
    migrations,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use crate::config::Config;
use crate::{consumer::Consumer, engine::Engine};

/// The sockets of the service.
pub struct Listeners {
    /// Probes and metrics.
    pub internal: TcpListener,
}

/// A projector that runs in this process.
pub struct Projector {
    /// Ready once partitions are assigned and their checkpoints are loaded.
    pub readiness: Readiness,
}

/// Starts the projector among `tasks`; it ends with them.
///
/// # Errors
/// When the database does not answer, a migration is pending, or a setting is refused.
pub async fn start(config: Config, tasks: &mut Tasks) -> anyhow::Result<Projector> {
    // What can be seen without a database is told first.
    drop(config.kafka.client_settings()?);
    let pool = event_store::pool(
        config.database_url.reveal(),
        SessionKind::Projector,
        config.connections_max,
    )
    .context("can't read the address of the database")?;
    migrations::check(&pool).await?;
    let consumer = Consumer::join(&config.kafka, &config.group_id, config.group_protocol)?;
    let readiness = Readiness::default();
    tasks.spawn(
        "pruning of redirect changes",
        redirect_changes::keep_pruned(pool.clone(), tasks.shutdown()),
    );
    let (engine, shutdown) = (Engine::new(pool), tasks.shutdown());
    tasks.spawn(
        "projector",
        run::run(consumer, engine, readiness.clone(), shutdown),
    );
    Ok(Projector { readiness })
}

/// Runs the projector and its internal listener until the shutdown.
///
/// # Errors
/// Whatever has ended it before.
pub async fn serve(
    config: Config,
    listeners: Listeners,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let mut tasks = Tasks::new(shutdown.clone());
    let recorder = Recorder::install(&mut tasks)?;
    lifecycle::shutdown_on_signal(&mut tasks)?;
    let projector = start(config, &mut tasks).await?;
    let router = lifecycle::internal_router(projector.readiness, shutdown, recorder);
    lifecycle::serve(&mut tasks, "internal listener", listeners.internal, router);
    tasks.join().await
}
