//! A Postgres server on this machine: finds or downloads the programs, and starts, adopts and stops
//! the server.
//!
//! The server runs in a separate process group and outlives a killed application; the next start on
//! the same data folder adopts the server. This module does not depend on the databases' contents.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use nix::unistd::Pid;
use sqlx::{AssertSqlSafe, Connection as _};

use self::cluster::Cluster;
use self::data_folder::DataFolder;
use self::launch::{RECOVERY_TIMEOUT, StartDeadline};
use self::postmaster::Postmaster;

mod account;
mod binaries;
mod cluster;
mod data_folder;
mod launch;
mod postmaster;
mod server_log;
pub mod temporary;
#[cfg(test)]
mod tests;

const TAKE_OVER_POLL_INTERVAL: Duration = Duration::from_millis(100);
const DEATH_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Data folder, settings and durability of a server.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Folder of the password and the lock, and of the cluster if the server's account can enter.
    pub data_dir: PathBuf,
    /// Settings passed as `-c name=value`. An adopted server keeps the settings of its start.
    pub settings: Vec<(String, String)>,
    /// `false` is for tests only: no durability, and a new cluster takes passwords without SCRAM.
    pub durable: bool,
}

/// A running server. A drop without [`PostgresServer::stop`] requests the shutdown without waiting.
#[derive(Debug)]
pub struct PostgresServer {
    // Dropped before `folder`: the shutdown is requested while the lock is still held.
    postmaster: Postmaster,
    folder: DataFolder,
}

impl PostgresServer {
    /// Starts the server of this data folder, or adopts the server that a killed process left behind.
    ///
    /// # Errors
    /// Returns an error of one line that names the folder, file or program at fault.
    pub async fn start(options: PostgresOptions) -> anyhow::Result<Self> {
        let mut deadline = StartDeadline::new(RECOVERY_TIMEOUT);
        let folder = DataFolder::open(&options.data_dir).await?;
        let cluster = &folder.cluster;
        if let Some(postmaster) = adopt(cluster, &mut deadline).await {
            tracing::info!(
                "adopted the PostgreSQL server of {}",
                cluster.dir().display()
            );
            return Ok(Self { postmaster, folder });
        }
        let major = cluster.major()?;
        let binaries = binaries::find_or_download(&cluster.home, major, cluster.account).await?;
        if major.is_none() {
            cluster.init(&binaries, options.durable).await?;
        }
        let arguments = launch::server_arguments(&options.settings, options.durable);
        let postmaster = launch::launch(cluster, &binaries, &arguments, deadline.at()).await?;
        Ok(Self { postmaster, folder })
    }

    /// Returns the URL of a database. The name must need no escaping.
    pub fn url(&self, database: &str) -> String {
        self.folder.cluster.url(self.postmaster.port, database)
    }

    /// Returns the resolved path of the cluster's directory.
    pub fn cluster_dir(&self) -> &Path {
        self.folder.cluster.dir()
    }

    /// Returns true if the cluster is outside of the data folder, because the server's account cannot
    /// enter the data folder.
    pub fn relocated(&self) -> bool {
        self.folder.relocated
    }

    /// Creates an empty database, unless a database of this name exists.
    ///
    /// # Errors
    /// Returns an error if the server does not answer or refuses the name.
    pub async fn create_database_if_missing(&self, name: &str) -> anyhow::Result<()> {
        let context = || format!("cannot create the database {name}");
        let mut connection = self
            .folder
            .cluster
            .connect(self.postmaster.port)
            .await
            .with_context(context)?;
        let exists = sqlx::query("SELECT 1 FROM pg_database WHERE datname = $1")
            .bind(name)
            .fetch_optional(&mut connection)
            .await
            .with_context(context)?
            .is_some();
        if !exists {
            let statement = format!("CREATE DATABASE \"{}\"", name.replace('"', "\"\""));
            sqlx::query(AssertSqlSafe(statement))
                .execute(&mut connection)
                .await
                .with_context(context)?;
        }
        connection.close().await.with_context(context)
    }

    /// Waits until the server ends by itself, and returns an error with the path of the log.
    pub async fn died(&mut self) -> anyhow::Error {
        while self.postmaster.is_alive() {
            tokio::time::sleep(DEATH_POLL_INTERVAL).await;
        }
        anyhow::anyhow!(
            "PostgreSQL (process {}) ended by itself, see {}",
            self.postmaster.pid,
            self.folder.cluster.log_path().display()
        )
    }

    /// Returns the process that is the parent of all processes of the server.
    pub fn pid(&self) -> Pid {
        self.postmaster.pid
    }

    /// Stops the server, also an adopted one: by a fast shutdown, then by an immediate shutdown.
    ///
    /// # Errors
    /// Returns an error if the server survives both shutdowns.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.postmaster.stop().await
    }
}

/// Adopts the server that already runs on this cluster, if any.
///
/// Waits for a starting or recovering server until the server accepts connections, and for a server
/// in shutdown until the server has ended.
async fn adopt(cluster: &Cluster, deadline: &mut StartDeadline) -> Option<Postmaster> {
    while !deadline.is_over() {
        let running = postmaster::find_running(cluster.dir())?;
        if let Some(port) = running.port {
            match cluster.connect(port).await {
                Ok(_) => return Some(Postmaster::adopted(running.pid, port, cluster.dir())),
                Err(error) => deadline.extend_if_starting(&error, cluster),
            }
        }
        tokio::time::sleep(TAKE_OVER_POLL_INTERVAL).await;
    }
    None
}
