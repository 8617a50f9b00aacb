//! A server for tests that vanishes, data and all, however the process that holds it ends.

use std::env;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use anyhow::Context as _;

use super::account::Account;
use super::binaries::{self, Binaries};
use super::cluster::{Cluster, random_password};
use super::launch::{server_arguments, wait_until_ready};
use super::server_log::ServerLog;
use crate::local_server::{PORT_ATTEMPTS_MAX, free_port};

/// Rust drops no statics and nobody catches `kill -9`, but the kernel closes pipes: this waits
/// for the end of its input, then ends the server and removes the folder.
///
/// Each line it reads is a port and the program to start on it. It asks for an immediate shutdown: there
/// is nothing to save, and a fast one would wait for ever for a backend that a test has stopped
/// (SIGSTOP). It repeats itself because a server that has just been started may not listen to
/// signals yet, and because an orphaned `initdb` may still be writing to the folder.
const WATCHDOG: &str = r#"
dir=$1; shift; pid=
while read -r port postgres; do "$postgres" "$@" -p "$port" & pid=$!; done
while [ -n "$pid" ] && kill -QUIT "$pid" 2>/dev/null; do sleep 0.1; done
for _ in 1 2 3 4 5 6 7 8 9 10; do rm -rf "$dir" && break; sleep 1; done
"#;
const SETTINGS: [(&str, &str); 2] = [("shared_buffers", "64MB"), ("max_connections", "300")];

/// A server on a fresh cluster without any durability.
///
/// It holds nothing of a Tokio runtime, so it may be shared by tests that each have their own.
#[derive(Debug)]
pub struct TemporaryPostgres {
    cluster: Cluster,
    port: u16,
    _watchdog: Child,
}

impl TemporaryPostgres {
    /// Makes a cluster and starts it, in about a second.
    ///
    /// # Errors
    /// When there is no usable Postgres, or no folder that its account can reach.
    pub async fn start() -> anyhow::Result<Self> {
        let account = Account::for_clusters(&[])?;
        let home = tempfile::Builder::new()
            .prefix("linkledger-test.")
            .tempdir_in(reachable_temp_dir(account)?)
            .context("cannot create a temporary folder")?;
        account.take(home.path())?;
        let cluster = Cluster::new(home.path().to_owned(), account, random_password());
        let mut watchdog = start_watchdog(&cluster)?;
        // From here on the folder is the watchdog's to remove.
        drop(home.keep());

        let binaries = binaries::find_or_download(&cluster.home, None, account).await?;
        cluster.init(&binaries, false).await?;
        let port = start_server(&mut watchdog, &binaries, &cluster).await?;
        Ok(Self {
            cluster,
            port,
            _watchdog: watchdog,
        })
    }

    /// The address of a database; `postgres` is there from the start.
    pub fn url(&self, database: &str) -> String {
        self.cluster.url(self.port, database)
    }
}

/// Its input is the pipe that we hold.
fn start_watchdog(cluster: &Cluster) -> anyhow::Result<Child> {
    let (_, log) = ServerLog::open(&cluster.log_path())?;
    let settings = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut command = cluster.account.command(Path::new("/bin/sh"));
    command
        .args(["-c", WATCHDOG, "watchdog"])
        .arg(&cluster.home);
    command.arg("-D").arg(cluster.dir());
    command.args(server_arguments(&settings, false));
    // Its own group: Ctrl-C must not end the watchdog before its work is done.
    command.process_group(0).stdin(Stdio::piped());
    command.stdout(log.try_clone()?).stderr(log);
    command.spawn().context("cannot run /bin/sh")
}

/// Has the watchdog start the server, and returns its port.
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
        let input = watchdog.stdin.as_mut().expect("its input is a pipe");
        writeln!(input, "{port} {}", binaries.postgres().display())
            .context("the watchdog of the temporary PostgreSQL ended")?;
        // The server is the watchdog's child, not ours: its end shows in the log only.
        match wait_until_ready(cluster, port, &log, || log.fatal().is_some()).await {
            Ok(()) => return Ok(port),
            Err(_) if log.port_was_taken() && ports_tried < PORT_ATTEMPTS_MAX => {}
            Err(error) => return Err(error),
        }
    }
}

/// The usual temporary folder, which for root may be one of its own.
fn reachable_temp_dir(account: Account) -> anyhow::Result<PathBuf> {
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
