//! Starts a server process and waits until the server accepts connections.

use std::time::Duration;

use tokio::time::Instant;

use super::binaries::Binaries;
use super::cluster::Cluster;
use super::postmaster::{self, Postmaster};
use super::server_log::ServerLog;
use crate::local_server::{PORT_ATTEMPTS_MAX, free_port};

/// Longest time in which a server that starts gives no answer. A server that has ended is noticed at once, so the
/// timeout only has to be longer than a start on a busy machine, and than the wait for a port that another process uses.
pub(super) const SILENCE_TIMEOUT: Duration = Duration::from_mins(2);
/// Time after which a start is reported as a long one.
const LONG_START: Duration = Duration::from_secs(30);
/// Timeout of a start with recovery after a crash, which replays up to `max_wal_size` of log. A server stopped
/// during its recovery would begin it again.
pub(super) const RECOVERY_TIMEOUT: Duration = Duration::from_hours(1);
const READY_POLL_INTERVAL: Duration = Duration::from_millis(50);
const IN_USE_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Settings of a server without durability.
const NOT_DURABLE: [&str; 3] = [
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=off",
];
/// Settings that restrict connections to this machine.
const REACHABLE_LOCALLY: [&str; 2] = ["listen_addresses=127.0.0.1", "unix_socket_directories="];

/// SQLSTATE `invalid_password`.
const INVALID_PASSWORD: &str = "28P01";
/// SQLSTATE `cannot_connect_now`: the server starts, recovers after a crash, or stops.
const CANNOT_CONNECT_NOW: &str = "57P03";

/// Deadline of a server that starts. Moves while the server answers that connections are not accepted yet.
pub(super) struct StartDeadline {
    at: Instant,
    latest: Instant,
    /// Time of the message that the start takes long; `None` after the message.
    announce_at: Option<Instant>,
}

impl StartDeadline {
    /// Returns a deadline after `SILENCE_TIMEOUT` that moves to `longest` from now at most.
    pub(super) fn new(longest: Duration) -> Self {
        let now = Instant::now();
        Self {
            at: now + SILENCE_TIMEOUT,
            latest: now + longest,
            announce_at: Some(now + LONG_START),
        }
    }

    /// Returns the present deadline.
    pub(super) const fn at(&self) -> Instant {
        self.at
    }

    /// Returns true if the deadline is over.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.at
    }

    /// Moves the deadline if the error is that of a server that will accept connections later.
    pub(super) fn extend_if_starting(&mut self, error: &sqlx::Error, cluster: &Cluster) {
        if !has_code(error, CANNOT_CONNECT_NOW) {
            return;
        }
        let now = Instant::now();
        self.at = (now + SILENCE_TIMEOUT).min(self.latest);
        if self.announce_at.is_some_and(|at| now >= at) {
            self.announce_at = None;
            tracing::warn!(
                "PostgreSQL is still starting, or recovers after a crash; progress is in {}",
                cluster.log_path().display()
            );
        }
    }
}

/// Starts the server. Waits until the deadline while another server, or a child of a
/// dead server, uses the cluster.
pub(super) async fn launch(
    cluster: &Cluster,
    binaries: &Binaries,
    arguments: &[String],
    deadline: Instant,
) -> anyhow::Result<Postmaster> {
    postmaster::disown_reused_pid(cluster.dir())?;
    let mut ports_tried = 0;
    loop {
        let (log, log_file) = ServerLog::open(&cluster.log_path())?;
        let mut command = cluster.account.command(&binaries.postgres());
        command.args(arguments);
        let port = free_port()?;
        let mut postmaster = Postmaster::spawn(command, cluster.dir(), port, log_file)?;
        let ended = || !postmaster.is_alive();
        let Err(error) = wait_until_ready(
            cluster,
            port,
            &log,
            StartDeadline::new(RECOVERY_TIMEOUT),
            ended,
        )
        .await
        else {
            return Ok(postmaster);
        };
        if log.cluster_is_in_use() && Instant::now() < deadline {
            tokio::time::sleep(IN_USE_RETRY_INTERVAL).await;
            continue;
        }
        ports_tried += 1;
        if !log.port_was_taken() || ports_tried >= PORT_ATTEMPTS_MAX {
            return Err(error);
        }
    }
}

/// Returns all arguments of `postgres` but folder and port. The last value of a setting wins, so the
/// settings that linkledger enforces come last.
pub(super) fn server_arguments(settings: &[(String, String)], durable: bool) -> Vec<String> {
    let requested = settings
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    let not_durable = NOT_DURABLE
        .iter()
        .filter(|_| !durable)
        .map(ToString::to_string);
    let enforced = REACHABLE_LOCALLY.iter().map(ToString::to_string);
    let settings = requested.chain(not_durable).chain(enforced);
    settings
        .flat_map(|setting| ["-c".to_owned(), setting])
        .collect()
}

/// Waits until the server accepts connections and the cluster's password, or has ended.
///
/// # Errors
/// Returns an error if the server refuses the password, has ended, or exceeds the deadline.
pub(super) async fn wait_until_ready(
    cluster: &Cluster,
    port: u16,
    log: &ServerLog,
    mut deadline: StartDeadline,
    mut ended: impl FnMut() -> bool,
) -> anyhow::Result<()> {
    let started = Instant::now();
    while !deadline.is_over() {
        // Checked before the connection is tried: the log of a dead process is complete.
        let ended = ended();
        match cluster.connect(port).await {
            Ok(_) => return Ok(()),
            // A refusal counts only from this server: a stranger may use the port while this server
            // is still failing to bind.
            Err(error) if has_code(&error, INVALID_PASSWORD) && log.server_got_ready() => {
                anyhow::bail!(
                    "the stored password of the cluster {} is wrong; restore the file postgres_password",
                    cluster.dir().display()
                )
            }
            Err(_) if ended => {
                let log_path = cluster.log_path();
                anyhow::bail!(
                    "PostgreSQL did not start: {} (log: {})",
                    log.reason(),
                    log_path.display()
                )
            }
            Err(error) => {
                deadline.extend_if_starting(&error, cluster);
                tokio::time::sleep(READY_POLL_INTERVAL).await;
            }
        }
    }
    anyhow::bail!(
        "PostgreSQL did not get ready in {} s, see {}",
        started.elapsed().as_secs(),
        cluster.log_path().display()
    )
}

fn has_code(error: &sqlx::Error, code: &str) -> bool {
    error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code)
        .is_some_and(|found| found == code)
}
