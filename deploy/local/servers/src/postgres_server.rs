//! A Postgres server of the user's own: found or downloaded, started, adopted, stopped.
//!
//! The server is a process of its own group and outlives an application that is killed; the next
//! start on the same folder adopts it. Nothing here knows what is kept in the databases.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use sqlx::{AssertSqlSafe, Connection as _};
use tokio::time::Instant;

use self::cluster::Cluster;
use self::data_folder::DataFolder;
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

/// How long a server left over from a killed application may take to answer or to go away.
const TAKE_OVER_TIMEOUT: Duration = Duration::from_secs(30);
const TAKE_OVER_POLL_INTERVAL: Duration = Duration::from_millis(100);
const DEATH_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Where the cluster lies, under which settings it runs.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Folder of the password, the lock and, where it can be, the cluster.
    pub data_dir: PathBuf,
    /// Passed to the server as `-c name=value`; an adopted server keeps those it has.
    pub settings: Vec<(String, String)>,
    /// `false` gives up every guarantee of a database for speed: for tests only.
    pub durable: bool,
}

/// A running server; dropped without [`PostgresServer::stop`] it is told to shut down all the same.
#[derive(Debug)]
pub struct PostgresServer {
    // Before `folder`: the server is told to shut down while the lock is still held.
    postmaster: Postmaster,
    folder: DataFolder,
}

impl PostgresServer {
    /// Starts the server of this data folder, or adopts the one that a killed process left behind.
    ///
    /// # Errors
    /// One line that says which folder, file or program is at fault.
    pub async fn start(options: PostgresOptions) -> anyhow::Result<Self> {
        let deadline = Instant::now() + TAKE_OVER_TIMEOUT;
        let folder = DataFolder::open(&options.data_dir).await?;
        let cluster = &folder.cluster;
        if let Some(postmaster) = adopt(cluster, deadline).await {
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
        let postmaster = launch::launch(cluster, &binaries, &arguments, deadline).await?;
        Ok(Self { postmaster, folder })
    }

    /// The address of a database; its name must need no escaping.
    pub fn url(&self, database: &str) -> String {
        self.folder.cluster.url(self.postmaster.port, database)
    }

    /// Where the cluster really lies.
    pub fn cluster_dir(&self) -> &Path {
        self.folder.cluster.dir()
    }

    /// Whether the cluster lies outside of the data folder, closed to the server's account.
    pub fn relocated(&self) -> bool {
        self.folder.relocated
    }

    /// Creates an empty database of this name where there is none.
    ///
    /// # Errors
    /// When the server can't be reached or refuses the name.
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

    /// Resolves when the server ends without having been asked to.
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

    /// Fast shutdown, an immediate one if that takes too long; an adopted server is stopped too.
    ///
    /// # Errors
    /// When the server survives both.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.postmaster.stop().await
    }
}

/// The server that already runs on this cluster, once it lets us in.
///
/// One that is starting or recovering is waited for and adopted; one that is shutting down is
/// waited for until it is gone.
async fn adopt(cluster: &Cluster, deadline: Instant) -> Option<Postmaster> {
    while Instant::now() < deadline {
        let running = postmaster::find_running(cluster.dir())?;
        if let Some(port) = running.port
            && cluster.connect(port).await.is_ok()
        {
            return Some(Postmaster::adopted(running.pid, port, cluster.dir()));
        }
        tokio::time::sleep(TAKE_OVER_POLL_INTERVAL).await;
    }
    None
}
