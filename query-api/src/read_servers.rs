//! Servers of the read tables: the primary, and streaming replicas that answer if their snapshot is
//! new enough.
//!
//! Reads of an account, except searches and tags, go to one replica. The data of an account go back in time
//! between two requests only if another server answers the second request. If the snapshot of the
//! replica is too old, or if the replica fails, the primary answers.

mod replica_monitor;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use linkledger_core::id::AccountId;
use linkledger_event_store::{SessionKind, migrations::Schema};
use linkledger_http::{dataloader::Dataloader, problem::Problem};
use linkledger_service::{databases::DatabaseOf, lifecycle::Tasks};
use sqlx::PgPool;
use tokio::time::{Instant, timeout};

use self::replica_monitor::ReplicaMonitor;
use crate::{
    config::QueryApiConfig,
    consistency::VisibilityWait,
    read_model::{
        LogPosition, SnapshotRead,
        links::{LinkRange, LinkRead},
    },
};

/// Timeout of a read of a replica: the primary has to answer in the rest of the second
/// that a request may wait.
const REPLICA_TIME_MAX: Duration = Duration::from_millis(500);

/// Time for which a replica is skipped after a failed read: its checks are cheaper than reads, and may
/// succeed meanwhile.
const SKIPPED_FOR: Duration = Duration::from_secs(10);

/// Server of the read tables, for the API.
pub(crate) struct ReadServer {
    pub(crate) pool: PgPool,
    pub(crate) links: Dataloader<LinkRead>,
    pub(crate) link_pages: Dataloader<LinkRange>,
}

impl ReadServer {
    fn start(pool: PgPool, tasks: &mut Tasks) -> Self {
        Self {
            links: Dataloader::start(&pool, tasks),
            link_pages: Dataloader::start(&pool, tasks),
            pool,
        }
    }
}

/// Streaming replica of the primary.
pub(crate) struct Replica {
    /// Host, port and database, for logs and metrics.
    name: String,
    server: ReadServer,
    /// False while the replica does not answer, is no replica of the primary, or lags too far behind.
    is_usable: AtomicBool,
    /// Time of the last failed read.
    failed_at: Mutex<Option<Instant>>,
}

impl Replica {
    /// Waits for a read of this replica. Returns nothing on an error or a timeout; the replica is then
    /// skipped for [`SKIPPED_FOR`].
    async fn result<T>(&self, reading: impl Future<Output = Result<T, Problem>>) -> Option<T> {
        if let Ok(Ok(value)) = timeout(REPLICA_TIME_MAX, reading).await {
            return Some(value);
        }
        *self
            .failed_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        if self.is_usable.swap(false, Ordering::Relaxed) {
            tracing::warn!(
                replica = self.name,
                "a read of the replica failed; skipping the replica"
            );
        }
        None
    }

    /// Returns true if a read has failed within [`SKIPPED_FOR`].
    fn has_just_failed(&self) -> bool {
        let failed_at = *self
            .failed_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        failed_at.is_some_and(|at| at.elapsed() < SKIPPED_FOR)
    }
}

/// All servers of the read tables.
pub(crate) struct ReadServers {
    primary: ReadServer,
    replicas: Arc<[Replica]>,
}

impl ReadServers {
    /// Starts the readers, and the checks of the replicas. A replica is used once a check finds
    /// the replica usable.
    ///
    /// # Errors
    /// Returns an error if the address of a replica cannot be parsed.
    pub(crate) fn start(
        primary: PgPool,
        config: &QueryApiConfig,
        tasks: &mut Tasks,
    ) -> anyhow::Result<Self> {
        let mut replicas = Vec::with_capacity(config.read_replica_urls.len());
        for url in &config.read_replica_urls {
            let url = url.reveal();
            let pool =
                linkledger_event_store::pool(url, SessionKind::Replica, config.database_pool_size);
            let pool = pool.context("invalid --read-replica-urls")?;
            let database = DatabaseOf {
                url,
                schemas: &[Schema::ReadModel],
            };
            replicas.push(Replica {
                name: database.address(),
                server: ReadServer::start(pool, tasks),
                is_usable: AtomicBool::new(false),
                failed_at: Mutex::new(None),
            });
        }
        let replicas: Arc<[Replica]> = replicas.into();
        if !replicas.is_empty() {
            let (primary, checked) = (primary.clone(), Arc::clone(&replicas));
            tasks.spawn_housekeeping("read replicas", move |shutdown| {
                ReplicaMonitor::new(primary.clone(), Arc::clone(&checked)).run(shutdown)
            });
        }
        Ok(Self {
            primary: ReadServer::start(primary, tasks),
            replicas,
        })
    }

    /// Returns the primary, whose snapshot is never older than that of a replica.
    pub(crate) fn primary(&self) -> &ReadServer {
        &self.primary
    }

    /// Reads from a snapshot that contains all events up to `position`: from the replica if its snapshot
    /// does, otherwise from the primary, as [`VisibilityWait::read_containing`].
    ///
    /// # Errors
    /// Returns an error as [`VisibilityWait::read_containing`] does.
    pub(crate) async fn read_containing<'s, T, F>(
        &'s self,
        wait: &VisibilityWait<'_>,
        replica: Option<&'s Replica>,
        position: LogPosition,
        read: impl Fn(&'s ReadServer) -> F,
    ) -> Result<SnapshotRead<T>, Problem>
    where
        F: Future<Output = Result<SnapshotRead<T>, Problem>>,
    {
        if let Some(replica) = replica
            && let Some(snapshot) = replica.result(read(&replica.server)).await
            && snapshot.visibility.contains(position)
        {
            return Ok(snapshot);
        }
        wait.read_containing(position, || read(&self.primary)).await
    }

    /// Returns the replica for reads of the account, or the next usable one; `None` without any.
    pub(crate) fn replica_of(&self, account_id: AccountId) -> Option<&Replica> {
        let count = self.replicas.len();
        // The last bits of an account's id are random.
        let first = usize::try_from(account_id.uuid().as_u128() % count.max(1) as u128).ok()?;
        let mut in_turn = self.replicas.iter().cycle().skip(first).take(count);
        let is_usable = |replica: &&Replica| replica.is_usable.load(Ordering::Relaxed);
        in_turn.find(is_usable)
    }
}
