//! The dispatcher of webhooks: sends messages about events to the addresses that owners and operators have named.
//!
//! The log is the queue (ADR 28). A cursor of each webhook says that everything before it is delivered, kept as a
//! delivery, or not wanted; it only moves forward, so that a crash repeats messages and loses none. That is true in one
//! history of the log; after a restore, the store of what was read before is refused. One process sends, by a `lease`.
//! The `supervisor` runs one task for each webhook, an `endpoint`, which makes turns: deliveries that are `due` by a
//! schedule of their own, then a `page` of messages, which `delivery` sends by `attempt`s. What the answers mean is
//! decided in `health` and in `linkledger_core::webhook`; the `connector` reaches only addresses that are allowed.
//!
//! A slow or dead receiver delays no other: nothing but the number of requests at a time is shared, of which each
//! account has a small part.

mod attempt;
pub mod config;
mod connector;
mod delivery;
mod due;
mod endpoint;
mod health;
mod lease;
mod page;
mod supervisor;

use std::{mem, sync::Arc, time::Duration};

use anyhow::Context as _;
use futures::future::BoxFuture;
use linkledger_core::{
    clock::{Clock, SystemClock, new_uuid},
    id::WebhookId,
    webhook::{MasterKeys, Webhook},
};
use linkledger_event_store::{
    SessionKind,
    migrations::{self, Schema},
    time_limit::{ANSWER_TIME_MAX, within},
};
use linkledger_http::per_account_limit::PerAccountLimit;
use linkledger_service::{
    doctor::server,
    internal_listener::{self, Readiness},
    lifecycle::{self, Tasks, host_name},
    log_activity::{self, LogActivity},
    metrics::WEBHOOK_ATTEMPTS_TOTAL,
    metrics_recorder::MetricsRecorder,
};
use metrics::counter;
use sqlx::PgPool;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub use self::connector::{LookUp, system_look_up};
use self::{
    attempt::{Attempt, OUTCOMES, Sender, SentMessage, Signer},
    config::{WebhooksConfig, WebhooksListeners},
    connector::Connector,
    lease::{Lease, LeaseKeeper},
    supervisor::Supervisor,
};

/// Sessions of the lease: a session that falls silent must not end it.
const LEASE_CONNECTIONS: u32 = 2;
/// Sessions of the watch of the log.
const ACTIVITY_CONNECTIONS: u32 = 1;
/// Maximum number of requests at a time, of all webhooks of owners. Those of operators are few, and each is bounded by
/// its own window.
const ATTEMPTS_MAX: usize = 2_048;
/// Maximum number of requests at a time of one account.
const ATTEMPTS_OF_ACCOUNT_MAX: usize = 16;
/// Pause after a failed store of what was sent.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Longest time of one attempt, from the beginning of the connection to the end of the answer.
const ATTEMPT_TIME_MAX: Duration = Duration::from_secs(20);

/// Sessions of a dispatcher with the log, besides those of `webhooks_database_pool_size`.
pub const FURTHER_CONNECTIONS: u32 = LEASE_CONNECTIONS + ACTIVITY_CONNECTIONS;

/// World around a dispatcher, which tests replace.
pub struct Surroundings {
    /// Clock of schedules, probes and signatures.
    pub clock: Arc<dyn Clock>,
    /// Look-up of host names.
    pub look_up: LookUp,
    /// Longest time of one attempt.
    pub attempt_time_max: Duration,
}

impl Default for Surroundings {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            look_up: system_look_up(),
            attempt_time_max: ATTEMPT_TIME_MAX,
        }
    }
}

/// Parts that the tasks of all webhooks share.
struct Dispatch {
    pool: PgPool,
    clock: Arc<dyn Clock>,
    keys: MasterKeys,
    sender: Sender,
    activity: Arc<LogActivity>,
    lease: Lease,
    shares: PerAccountLimit,
}

impl Dispatch {
    /// Makes one attempt. Returns `None`, without a request, if the lease is lost or `closed` is cancelled.
    async fn attempt(
        &self,
        webhook: &Webhook,
        signer: &Signer,
        message: SentMessage<'_>,
        closed: &CancellationToken,
    ) -> Option<Attempt> {
        let share = async {
            if webhook.all_accounts {
                None
            } else {
                self.shares.acquire(webhook.account_id).await
            }
        };
        let _share = closed.run_until_cancelled(share).await?;
        // After the wait for the share.
        if closed.is_cancelled() || !self.lease.is_valid() {
            return None;
        }
        let clock = &*self.clock;
        Some(self.sender.send(&webhook.url, signer, message, clock).await)
    }

    /// Repeats a store until it succeeds, or `stop` is cancelled: what was sent would be sent again without it.
    async fn store<T, F: Future<Output = sqlx::Result<T>>>(
        &self,
        webhook_id: WebhookId,
        stop: &CancellationToken,
        mut store: impl FnMut() -> F,
    ) -> sqlx::Result<T> {
        let mut is_logged = false;
        loop {
            let stored = within(ANSWER_TIME_MAX, store()).await;
            let Err(error) = &stored else { return stored };
            if stop.is_cancelled() {
                return stored;
            }
            if !mem::replace(&mut is_logged, true) {
                let error = error as &dyn std::error::Error;
                tracing::warn!(webhook.id = %webhook_id, error, "cannot store what was sent; retrying");
            }
            timeout(STORE_RETRY_DELAY, stop.cancelled()).await.ok();
        }
    }
}

/// Starts the dispatcher as tasks of `tasks`.
///
/// # Errors
/// Returns an error if the database fails, a migration is pending, or a setting is refused.
// Boxed, so that the future is compiled in this crate and not in each that awaits it.
pub fn start_webhooks(
    config: WebhooksConfig,
    tasks: &mut Tasks,
) -> BoxFuture<'_, anyhow::Result<Readiness>> {
    start_webhooks_in(config, Surroundings::default(), tasks)
}

/// Starts the dispatcher like [`start_webhooks`], in other surroundings.
///
/// # Errors
/// Those of [`start_webhooks`].
pub fn start_webhooks_in(
    config: WebhooksConfig,
    surroundings: Surroundings,
    tasks: &mut Tasks,
) -> BoxFuture<'_, anyhow::Result<Readiness>> {
    Box::pin(async move {
        // Settings can be refused without a database, and are refused first.
        let keys = config.master_keys()?;
        let connector = Connector::new(
            config.webhooks.url_rules(),
            surroundings.look_up,
            config.webhook_proxy_url.as_ref(),
        )?;
        let pools = Pools::of(&config)?;
        server::admit(
            config.database.log_url(),
            SessionKind::Writer,
            config.allow_unsafe_postgres,
        )
        .await?;
        migrations::check(&pools.work, &[Schema::EventStore]).await?;
        for outcome in OUTCOMES {
            counter!(WEBHOOK_ATTEMPTS_TOTAL, "outcome" => outcome).increment(0);
        }
        let (keeper, lease) = LeaseKeeper::new(pools.lease, owner());
        let activity = Arc::<LogActivity>::default();
        spawn_watch(Arc::clone(&activity), pools.activity, tasks);
        let dispatch = Dispatch {
            pool: pools.work,
            clock: surroundings.clock,
            keys,
            sender: Sender {
                connector,
                time_max: surroundings.attempt_time_max,
            },
            activity,
            lease,
            shares: PerAccountLimit::new(ATTEMPTS_OF_ACCOUNT_MAX, ATTEMPTS_MAX),
        };
        let supervisor = Supervisor::new(Arc::new(dispatch));
        let ended = CancellationToken::new();
        tasks.spawn_essential("webhooks: lease", keeper.run(ended.clone()));
        let running = supervisor.run(tasks.shutdown(), ended);
        tasks.spawn_essential("webhooks", running);
        let readiness = Readiness::default();
        readiness.set_ready();
        Ok(readiness)
    })
}

/// Pools of sessions with the log: work that waits must not delay the lease.
struct Pools {
    work: PgPool,
    lease: PgPool,
    activity: PgPool,
}

impl Pools {
    fn of(config: &WebhooksConfig) -> anyhow::Result<Self> {
        let url = config.database.log_url();
        let pool = |kind, connections_max| {
            let pool = linkledger_event_store::pool(url, kind, connections_max);
            pool.context("cannot parse the address of the database")
        };
        Ok(Self {
            work: pool(SessionKind::Writer, config.webhooks_database_pool_size)?,
            lease: pool(SessionKind::Writer, LEASE_CONNECTIONS)?,
            activity: pool(SessionKind::Reader, ACTIVITY_CONNECTIONS)?,
        })
    }
}

/// Returns the name of this dispatcher, which no other one has, not even in the same process.
fn owner() -> String {
    let id = new_uuid(SystemClock.now());
    format!("{}:{}:{id}", host_name(), std::process::id())
}

fn spawn_watch(activity: Arc<LogActivity>, pool: PgPool, tasks: &mut Tasks) {
    tasks.spawn_housekeeping("webhooks: activity", move |shutdown| {
        log_activity::follow(Arc::clone(&activity), pool.clone(), shutdown)
    });
}

/// Runs the dispatcher until the shutdown.
///
/// # Errors
/// Returns the error that ended the dispatcher before the shutdown.
// Boxed for the reason of `start_webhooks`.
pub fn serve_webhooks(
    config: WebhooksConfig,
    listeners: WebhooksListeners,
    shutdown: CancellationToken,
) -> BoxFuture<'static, anyhow::Result<()>> {
    Box::pin(async move {
        let mut tasks = Tasks::new(shutdown.clone());
        let recorder = MetricsRecorder::install(&mut tasks)?;
        lifecycle::shutdown_on_signal(&mut tasks)?;
        lifecycle::set_process_limits();
        let hosts = config.admin_allowed_hosts.clone();
        let readiness = start_webhooks(config, &mut tasks).await?;
        let internal = internal_listener::router(readiness, shutdown, recorder, hosts);
        lifecycle::serve(
            &mut tasks,
            "internal listener",
            listeners.internal,
            internal,
        );
        tasks.join().await
    })
}
