//! A cluster on disk: creates the cluster, reads the version, connects to the server.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use tokio::process::Command;

use super::account::Account;
use super::binaries::Binaries;
use super::server_log::initdb_reason;
use linkledger_core::clock::random_text;

const PASSWORD_LENGTH: usize = 32;
const ALPHANUMERIC: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const SUPERUSER: &str = "linkledger";
/// Timeout of a connection. A server that is stopped by SIGSTOP accepts connections and sends nothing.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Cluster in the folder `home`, which may not exist yet. `Debug` does not show the password.
pub(super) struct Cluster {
    /// Folder of the cluster, the log and the downloaded programs.
    pub(super) home: PathBuf,
    pub(super) account: Account,
    dir: PathBuf,
    password: String,
}

impl Cluster {
    pub(super) const DIR_NAME: &str = "cluster";
    /// Prefix of the folder of a cluster that `initdb` is creating.
    pub(super) const UNFINISHED: &str = "cluster-setup.";

    pub(super) fn new(home: PathBuf, account: Account, password: String) -> Self {
        Self {
            dir: home.join(Self::DIR_NAME),
            home,
            account,
            password,
        }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn log_path(&self) -> PathBuf {
        self.home.join("postgres.log")
    }

    /// Returns the major version that created this cluster, or `None` if the cluster does not exist.
    pub(super) fn major(&self) -> anyhow::Result<Option<u32>> {
        let path = self.dir.join("PG_VERSION");
        let context = || {
            format!(
                "cannot read the version of the cluster from {}",
                path.display()
            )
        };
        match fs::read_to_string(&path) {
            Ok(version) => Ok(Some(version.trim().parse().with_context(context)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.dir.exists() => Ok(None),
            Err(error) => Err(error).with_context(context),
        }
    }

    /// Creates the cluster under a temporary name and renames the folder, so that a crash leaves no
    /// incomplete cluster under the final name.
    pub(super) async fn init(&self, binaries: &Binaries, durable: bool) -> anyhow::Result<()> {
        let context = || format!("cannot prepare a cluster in {}", self.home.display());
        let beside = tempfile::Builder::new()
            .prefix(Self::UNFINISHED)
            .tempdir_in(&self.home)
            .with_context(context)?;
        let (password_file, unfinished) = (
            beside.path().join("password"),
            beside.path().join("cluster"),
        );
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&password_file)
            .and_then(|mut file| file.write_all(self.password.as_bytes()))
            .with_context(context)?;
        self.account.take(&password_file).with_context(context)?;
        self.account.take(beside.path()).with_context(context)?;

        let mut command = Command::from(self.account.command(&binaries.initdb()));
        command
            .arg("-D")
            .arg(&unfinished)
            .arg("--pwfile")
            .arg(&password_file);
        command.args(["-U", SUPERUSER, "--data-checksums"]);
        command.args(["--encoding=UTF8", "--locale=C"]);
        if durable {
            command.arg("--auth=scram-sha-256");
        } else {
            // SCRAM costs an unoptimised client some 40 ms of processor time for each session: more
            // than the rest of most tests.
            command.args(["--auth=password", "--no-sync"]);
        }
        let output = command
            .kill_on_drop(true)
            .output()
            .await
            .context("cannot run initdb")?;
        anyhow::ensure!(
            output.status.success(),
            "initdb could not create a cluster in {}: {}",
            self.home.display(),
            initdb_reason(&String::from_utf8_lossy(&output.stderr))
        );
        fs::rename(&unfinished, &self.dir)
            // Without the sync, a loss of power could undo the rename after data were written.
            .and_then(|()| File::open(&self.home)?.sync_all())
            .with_context(context)
    }

    /// Makes this copy of a cluster a streaming replica of the server at `primary_url`.
    pub(super) fn follow(&self, primary_url: &str) -> anyhow::Result<()> {
        let setting = format!("primary_conninfo = '{primary_url}'\n");
        for (name, text) in [("postgresql.auto.conf", &*setting), ("standby.signal", "")] {
            let path = self.dir.join(name);
            fs::write(&path, text)
                .and_then(|()| self.account.take(&path))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    pub(super) fn url(&self, port: u16, database: &str) -> String {
        format!(
            "postgres://{SUPERUSER}:{}@127.0.0.1:{port}/{database}",
            self.password
        )
    }

    /// Connects to the database `postgres`, which every cluster has.
    pub(super) async fn connect(&self, port: u16) -> sqlx::Result<PgConnection> {
        let options = PgConnectOptions::new_without_pgpass()
            .host("127.0.0.1")
            .port(port)
            .username(SUPERUSER)
            .password(&self.password)
            .database("postgres")
            .ssl_mode(PgSslMode::Disable);
        match tokio::time::timeout(CONNECT_TIMEOUT, options.connect()).await {
            Ok(result) => result,
            Err(_) => Err(sqlx::Error::Io(io::ErrorKind::TimedOut.into())),
        }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("dir", &self.dir)
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}

/// Returns a random password of letters and digits, which a URL can contain without escaping.
pub(super) fn random_password() -> String {
    random_text(ALPHANUMERIC, PASSWORD_LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_does_not_show_the_password() {
        let cluster = Cluster::new("/nowhere".into(), Account::Ours, "swordfish".to_owned());
        let shown = format!("{cluster:?}");
        assert!(
            shown.contains("/nowhere") && !shown.contains("swordfish"),
            "{shown}"
        );
    }
}
