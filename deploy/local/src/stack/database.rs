//! The database of the stack: on a Postgres server that the stack starts, or named by the user.

use std::path::PathBuf;

use anyhow::Context as _;
use linkledger_command_api::relay::cursor;
use linkledger_core::shard::{Position, Shard};
use linkledger_event_store::{
    SessionKind,
    migrations::{self, Schema},
};
use linkledger_servers::postgres_server::{PostgresOptions, PostgresServer};
use linkledger_service::{databases::Databases, log_identity};
use sqlx::PgPool;
use tokio::sync::Mutex;

use crate::data_folder::DataFolder;

const DATABASE: &str = "linkledger";
/// Largest number of sessions of the stack itself; the services have their own sessions.
const CONNECTIONS_MAX: u32 = 2;
/// Settings of Postgres for a machine that has other work too. All settings that keep data safe
/// have the defaults of Postgres.
const SETTINGS: [(&str, &str); 3] = [
    ("shared_buffers", "512MB"),
    ("max_wal_size", "8GB"),
    ("checkpoint_timeout", "15min"),
];

/// A migrated database.
pub(super) struct StackDatabase {
    /// Address of the database, for the role that owns the database.
    pub(super) url: String,
    pub(super) pool: PgPool,
    /// Folder of the database cluster, if the cluster is outside the data folder.
    pub(super) relocated_to: Option<PathBuf>,
    server: Option<Mutex<PostgresServer>>,
}

impl StackDatabase {
    /// Starts the Postgres server, unless the user names a database, and migrates the database.
    pub(super) async fn start(folder: &DataFolder, url: Option<&str>) -> anyhow::Result<Self> {
        let Some(url) = url else {
            return Self::start_server(folder).await;
        };
        let pool = connect(url)
            .await
            .context("can't connect to --database-url (postgres://user:password@host:port/name)")?;
        migrate(url).await?;
        Ok(Self {
            url: url.to_owned(),
            pool,
            relocated_to: None,
            server: None,
        })
    }

    async fn start_server(folder: &DataFolder) -> anyhow::Result<Self> {
        let settings = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let server = PostgresServer::start(PostgresOptions {
            data_dir: folder.path("postgres"),
            settings: settings.into(),
            durable: true,
        })
        .await?;
        let prepared = async {
            server.create_database_if_missing(DATABASE).await?;
            let url = server.url(DATABASE);
            migrate(&url).await?;
            Ok((connect(&url).await?, url))
        };
        match prepared.await {
            Ok((pool, url)) => {
                let relocated_to = server.relocated().then(|| server.cluster_dir().to_owned());
                Ok(Self {
                    url,
                    pool,
                    relocated_to,
                    server: Some(Mutex::new(server)),
                })
            }
            Err(error) => {
                let error: anyhow::Error = error;
                server.stop().await?;
                Err(error)
            }
        }
    }

    /// Rewinds the relay to the checkpoint of the slowest projection. A broker that has just been
    /// started is empty, so the relay must publish all events that a projection still needs.
    pub(super) async fn republish_empty_broker(&self) -> anyhow::Result<()> {
        let rows: Vec<(i16, i64)> = sqlx::query_as(
            "SELECT shard, min(position) FROM read_model.checkpoints
             WHERE role = 'live' GROUP BY shard",
        )
        .fetch_all(&self.pool)
        .await
        .context("can't read the checkpoints")?;
        let positions: Vec<_> = rows
            .into_iter()
            .filter_map(|(shard, position)| Some((Shard::new(shard.into())?, position)))
            .collect();
        self.rewind_relay(&positions).await
    }

    /// Rewinds the relay to these positions, in each shard in which the relay is beyond the
    /// position.
    pub(super) async fn rewind_relay(&self, positions: &[(Shard, Position)]) -> anyhow::Result<()> {
        cursor::rewind_to_new_broker(&self.pool, positions)
            .await
            .context("can't rewind the relay")
    }

    /// Resolves if the stack's own server ends without a request to stop.
    pub(super) async fn died(&self) -> anyhow::Error {
        match &self.server {
            Some(server) => server.lock().await.died().await,
            None => std::future::pending().await,
        }
    }

    /// Stops the stack's own server.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.pool.close().await;
        match self.server {
            Some(server) => server.into_inner().stop().await,
            None => Ok(()),
        }
    }
}

async fn connect(url: &str) -> anyhow::Result<PgPool> {
    // The text of this error contains the texts of its sources already.
    let checked = linkledger_event_store::check_connection(url).await;
    checked.map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(linkledger_event_store::pool(
        url,
        SessionKind::Writer,
        CONNECTIONS_MAX,
    )?)
}

async fn migrate(url: &str) -> anyhow::Result<()> {
    let pool = linkledger_event_store::pool(url, SessionKind::Migration, 1)?;
    let migrated = migrations::run(&pool, &Schema::ALL).await;
    migrated.context("can't run the migrations of the database")?;
    let databases = Databases {
        log: pool.clone(),
        read: pool,
    };
    let adopted = log_identity::adopt(&databases).await;
    databases.close().await;
    adopted
}
