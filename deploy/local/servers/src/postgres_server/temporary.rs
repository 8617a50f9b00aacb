//! A server for tests that ends with the process that started the server, even if that process is
//! killed. The data are removed.

use std::env;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use anyhow::Context as _;
#[cfg(target_os = "linux")]
use nix::sys::statvfs::{FsFlags, statvfs};

use super::account::Account;
use super::binaries::{self, Binaries};
use super::cluster::{Cluster, random_password};
use super::launch::{SILENCE_TIMEOUT, StartDeadline, server_arguments, wait_until_ready};
use super::postmaster::{self, Postmaster};
use super::server_log::ServerLog;
use crate::local_server::{PORT_ATTEMPTS_MAX, free_port};

/// Script of the watchdog. Rust drops no statics and a process cannot catch `kill -9`, but the kernel
/// closes the pipes of a dead process: the script waits for the end of its input, then ends the server
/// and removes the folder.
///
/// Each line of input is a port and the program to start on the port. The shutdown is immediate: a fast
/// shutdown would wait for ever for a backend that a test has stopped by SIGSTOP. Signal and removal
/// are retried, because a new server may not handle signals yet, and an orphaned `initdb` may still be
/// writing to the folder.
const WATCHDOG: &str = r#"
dir=$1; shift; pid=
while read -r port postgres; do "$postgres" "$@" -p "$port" & pid=$!; done
while [ -n "$pid" ] && kill -QUIT "$pid" 2>/dev/null; do sleep 0.1; done
for _ in 1 2 3 4 5 6 7 8 9 10; do rm -rf "$dir" && break; sleep 1; done
"#;
/// Folder in memory. Tests create thousands of databases, each some 10 MB: on a disk, the writing of
/// what is removed seconds later takes a tenth of their time.
const MEMORY_DIR: &str = "/dev/shm";
const MEMORY_AVAILABLE_BYTES_MIN: u64 = 8 << 30;
const SETTINGS: [(&str, &str); 3] = [
    ("shared_buffers", "64MB"),
    ("max_connections", "300"),
    // A replica whose replay is paused still receives the log.
    ("wal_keep_size", "256MB"),
];

/// A server on a new cluster, without durability.
///
/// The value needs no Tokio runtime between calls, so tests with a runtime each can share a server.
#[derive(Debug)]
pub struct TemporaryPostgres {
    cluster: Cluster,
    binaries: Binaries,
    port: u16,
    watchdog: Child,
}

impl TemporaryPostgres {
    /// Creates a cluster and starts the server, in about a second.
    ///
    /// # Errors
    /// Returns an error if Postgres is missing, or if the server's account can reach no folder.
    pub async fn start() -> anyhow::Result<Self> {
        let account = Account::for_clusters(&[])?;
        let (cluster, watchdog) = prepare(account, random_password())?;
        let binaries = binaries::find_or_download(&cluster.home, None, account).await?;
        cluster.init(&binaries, false).await?;
        Self::launch(cluster, watchdog, binaries).await
    }

    /// Creates a cluster, and starts a primary and a streaming replica.
    ///
    /// # Errors
    /// Returns an error as [`TemporaryPostgres::start`] does.
    pub async fn start_with_replica() -> anyhow::Result<(Self, Self)> {
        let account = Account::for_clusters(&[])?;
        let password = random_password();
        let (primary, watchdog) = prepare(account, password.clone())?;
        let (replica, watchdog_of_replica) = prepare(account, password)?;
        let binaries = binaries::find_or_download(&primary.home, None, account).await?;
        primary.init(&binaries, false).await?;
        // A copy of a cluster that was never started needs no base backup.
        let mut copy = account.command(Path::new("/bin/cp"));
        let copied = copy.arg("-R").arg(primary.dir()).arg(replica.dir());
        let copied = copied.status().context("cannot run /bin/cp")?;
        anyhow::ensure!(copied.success(), "cannot copy the cluster");
        let primary = Self::launch(primary, watchdog, binaries.clone()).await?;
        replica.follow(&primary.url("postgres"))?;
        let replica = Self::launch(replica, watchdog_of_replica, binaries).await?;
        Ok((primary, replica))
    }

    async fn launch(
        cluster: Cluster,
        mut watchdog: Child,
        binaries: Binaries,
    ) -> anyhow::Result<Self> {
        let port = start_server(&mut watchdog, &binaries, &cluster).await?;
        Ok(Self {
            cluster,
            binaries,
            port,
            watchdog,
        })
    }

    /// Stops the server by a fast shutdown.
    ///
    /// # Errors
    /// Returns an error if the server does not end.
    pub async fn stop(&self) -> anyhow::Result<()> {
        match postmaster::find_running(self.cluster.dir()) {
            None => Ok(()),
            Some(running) => {
                Postmaster::adopted(running.pid, self.port, self.cluster.dir())
                    .stop()
                    .await
            }
        }
    }

    /// Starts the stopped server again, on the same port.
    ///
    /// # Errors
    /// Returns an error if the server does not start, or if another process has taken the port.
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        let (log, _) = ServerLog::open(&self.cluster.log_path())?;
        launch_on(self.port, &mut self.watchdog, &self.binaries)?;
        until_ready(&self.cluster, self.port, &log).await
    }

    /// Returns the URL of a database. The database `postgres` exists from the start.
    pub fn url(&self, database: &str) -> String {
        self.cluster.url(self.port, database)
    }
}

/// Creates the folder of a cluster, and starts the watchdog that removes the folder.
fn prepare(account: Account, password: String) -> anyhow::Result<(Cluster, Child)> {
    let home = tempfile::Builder::new()
        .prefix("linkledger-test.")
        .tempdir_in(temp_dir(account)?)
        .context("cannot create a temporary folder")?;
    account.take(home.path())?;
    let cluster = Cluster::new(home.path().to_owned(), account, password);
    let watchdog = start_watchdog(&cluster)?;
    // From here on, the watchdog removes the folder.
    drop(home.keep());
    Ok((cluster, watchdog))
}

/// Starts the watchdog, whose input is a pipe of this process.
fn start_watchdog(cluster: &Cluster) -> anyhow::Result<Child> {
    let (_, log) = ServerLog::open(&cluster.log_path())?;
    let settings = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut command = cluster.account.command(Path::new("/bin/sh"));
    command
        .args(["-c", WATCHDOG, "watchdog"])
        .arg(&cluster.home);
    command.arg("-D").arg(cluster.dir());
    command.args(server_arguments(&settings, false));
    // A separate process group: Ctrl-C must not end the watchdog early.
    command.process_group(0).stdin(Stdio::piped());
    command.stdout(log.try_clone()?).stderr(log);
    command.spawn().context("cannot run /bin/sh")
}

/// Makes the watchdog start the server, and returns the port.
async fn start_server(
    watchdog: &mut Child,
    binaries: &Binaries,
    cluster: &Cluster,
) -> anyhow::Result<u16> {
    let mut ports_tried = 0;
    loop {
        let (log, _) = ServerLog::open(&cluster.log_path())?;
        let port = free_port()?;
        ports_tried += 1;
        launch_on(port, watchdog, binaries)?;
        match until_ready(cluster, port, &log).await {
            Ok(()) => return Ok(port),
            Err(_) if log.port_was_taken() && ports_tried < PORT_ATTEMPTS_MAX => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits until the server accepts connections. A temporary server recovers in less than the time of a start.
async fn until_ready(cluster: &Cluster, port: u16, log: &ServerLog) -> anyhow::Result<()> {
    // The server is a child of the watchdog, so only the log shows the end of the server.
    let ended = || log.fatal().is_some();
    wait_until_ready(
        cluster,
        port,
        log,
        StartDeadline::new(SILENCE_TIMEOUT),
        ended,
    )
    .await
}

/// Tells the watchdog to start the server.
fn launch_on(port: u16, watchdog: &mut Child, binaries: &Binaries) -> anyhow::Result<()> {
    let input = watchdog.stdin.as_mut();
    let input = input.expect("the watchdog's input is a pipe");
    writeln!(input, "{port} {}", binaries.postgres().display())
        .context("the watchdog of the temporary PostgreSQL ended")
}

/// Returns the folder in memory if it has plenty of room and may hold programs, which are downloaded
/// beside a cluster; or else the usual temporary folder, or `/tmp` if the account cannot reach the
/// usual one: root may have a private one.
fn temp_dir(account: Account) -> anyhow::Result<PathBuf> {
    if has_room_in_memory() {
        return Ok(PathBuf::from(MEMORY_DIR));
    }
    let usual = env::temp_dir();
    let reachable = account
        .can_reach(&usual)
        .context("cannot examine the temporary folder")?;
    Ok(if reachable {
        usual
    } else {
        PathBuf::from("/tmp")
    })
}

#[cfg(target_os = "linux")]
fn has_room_in_memory() -> bool {
    let folder = statvfs(MEMORY_DIR).is_ok_and(|it| {
        it.blocks_available() * it.fragment_size() >= MEMORY_AVAILABLE_BYTES_MIN
            && !it.flags().contains(FsFlags::ST_NOEXEC)
    });
    folder && available_memory_bytes().is_some_and(|bytes| bytes >= MEMORY_AVAILABLE_BYTES_MIN)
}

/// Returns what `/proc/meminfo` calls available: the folder's limit says nothing of it.
#[cfg(target_os = "linux")]
fn available_memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// Other systems have no such folder.
#[cfg(not(target_os = "linux"))]
const fn has_room_in_memory() -> bool {
    false
}
