//! Starting a server process and waiting until it lets us in.

use std::time::Duration;

use tokio::time::Instant;

use super::binaries::Binaries;
use super::cluster::Cluster;
use super::postmaster::{self, Postmaster};
use super::server_log::ServerLog;
use crate::local_server::{PORT_ATTEMPTS_MAX, free_port};

/// Includes the recovery after a crash.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
const READY_POLL_INTERVAL: Duration = Duration::from_millis(50);
const IN_USE_RETRY_INTERVAL: Duration = Duration::from_millis(200);

const NOT_DURABLE: [&str; 3] = [
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=off",
];
/// Only this machine may knock.
const REACHABLE_LOCALLY: [&str; 2] = ["listen_addresses=127.0.0.1", "unix_socket_directories="];

/// SQLSTATE `invalid_password`.
const INVALID_PASSWORD: &str = "28P01";

/// Starts the server; until the deadline, waits for the children of a dead one to go away.
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
        ports_tried += 1;
        let mut postmaster = Postmaster::spawn(command, cluster.dir(), port, log_file)?;
        let ended = || !postmaster.is_alive();
        let Err(error) = wait_until_ready(cluster, port, &log, ended).await else {
            return Ok(postmaster);
        };
        if log.cluster_is_in_use() && Instant::now() < deadline {
            tokio::time::sleep(IN_USE_RETRY_INTERVAL).await;
        } else if !log.port_was_taken() || ports_tried >= PORT_ATTEMPTS_MAX {
            return Err(error);
        }
    }
}

/// All arguments of `postgres` but folder and port; what we insist on comes last and wins.
pub(super) fn server_arguments(settings: &[(String, String)], durable: bool) -> Vec<String> {
    let asked = settings
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    let not_durable = NOT_DURABLE
        .iter()
        .filter(|_| !durable)
        .map(ToString::to_string);
    let insisted = REACHABLE_LOCALLY.iter().map(ToString::to_string);
    let settings = asked.chain(not_durable).chain(insisted);
    settings
        .flat_map(|setting| ["-c".to_owned(), setting])
        .collect()
}

/// Waits until the server accepts connections and our password, or has ended.
pub(super) async fn wait_until_ready(
    cluster: &Cluster,
    port: u16,
    log: &ServerLog,
    mut ended: impl FnMut() -> bool,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + READY_TIMEOUT;
    while Instant::now() < deadline {
        // Asked before the connection is tried: after an end, the log is complete.
        let ended = ended();
        match cluster.connect(port).await {
            Ok(_) => return Ok(()),
            // Not by a stranger that has our port, while our server is still failing to get it.
            Err(error) if has_code(&error, INVALID_PASSWORD) && log.server_got_ready() => {
                anyhow::bail!("the password kept for {} is wrong", cluster.dir().display())
            }
            Err(_) if ended => {
                let log_path = cluster.log_path();
                anyhow::bail!(
                    "PostgreSQL did not start: {} (log: {})",
                    log.reason(),
                    log_path.display()
                )
            }
            Err(_) => tokio::time::sleep(READY_POLL_INTERVAL).await,
        }
    }
    anyhow::bail!(
        "PostgreSQL did not get ready in {} s, see {}",
        READY_TIMEOUT.as_secs(),
        cluster.log_path().display()
    )
}

fn has_code(error: &sqlx::Error, code: &str) -> bool {
    error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code)
        .is_some_and(|found| found == code)
}
