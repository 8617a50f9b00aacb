//! A cluster on disk: making it, telling its version, logging in to its server.

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
/// A server that is stopped (SIGSTOP) accepts a connection and then says nothing.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The cluster in the folder `home`; it may not exist yet. `Debug` does not show the password.
pub(super) struct Cluster {
    /// Holds the cluster, its log and the downloaded programs.
    pub(super) home: PathBuf,
    pub(super) account: Account,
    dir: PathBuf,
    password: String,
}

impl Cluster {
    pub(super) const DIR_NAME: &str = "cluster";
    /// How the names of clusters begin that are being made.
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

    /// The major version that made this cluster; `None` when it is yet to be made.
    pub(super) fn major(&self) -> anyhow::Result<Option<u32>> {
        let path = self.dir.join("PG_VERSION");
        let context = || format!("cannot tell the version from {}", path.display());
        match fs::read_to_string(&path) {
            Ok(version) => Ok(Some(version.trim().parse().with_context(context)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.dir.exists() => Ok(None),
            Err(error) => Err(error).with_context(context),
        }
    }

    /// Makes the cluster beside and renames it: after a crash in the middle, just start over.
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
        command.args(["-U", SUPERUSER, "--auth=scram-sha-256", "--data-checksums"]);
        command.args(["--encoding=UTF8", "--locale=C"]);
        if !durable {
            command.arg("--no-sync");
        }
        let output = command
            .kill_on_drop(true)
            .output()
            .await
            .context("cannot run initdb")?;
        anyhow::ensure!(
            output.status.success(),
            "initdb could not make a cluster in {}: {}",
            self.home.display(),
            initdb_reason(&String::from_utf8_lossy(&output.stderr))
        );
        fs::rename(&unfinished, &self.dir)
            // Else a loss of power could undo the rename after data were written.
            .and_then(|()| File::open(&self.home)?.sync_all())
            .with_context(context)
    }

    pub(super) fn url(&self, port: u16, database: &str) -> String {
        format!(
            "postgres://{SUPERUSER}:{}@127.0.0.1:{port}/{database}",
            self.password
        )
    }

    /// A connection to the database `postgres`, which every cluster has.
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

/// Letters and digits only: it stands in URLs as it is.
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
