//! The database of the stack: a server of its own, or one that the user names.

use std::path::PathBuf;

use anyhow::Context as _;
use linkledger_command_api::relay::cursor;
use linkledger_core::{
    event_store::{self, SessionKind},
    migrations,
    postgres_server::{PostgresOptions, PostgresServer},
    shard::{Position, Shard},
};
use sqlx::PgPool;
use tokio::sync::Mutex;

use crate::data_folder::DataFolder;

const DATABASE: &str = "linkledger";
/// Sessions of the stack itself.
const CONNECTIONS_MAX: u32 = 2;
/// For a machine that does other things too. What keeps data safe stays as Postgres has it.
const SETTINGS: [(&str, &str); 3] = [
    ("shared_buffers", "512MB"),
    ("max_wal_size", "8GB"),
    ("checkpoint_timeout", "15min"),
];

/// A migrated database.
pub(super) struct Database {
    /// Its address, with the rights of its owner.
    pub(super) url: String,
    /// Sessions on it.
    pub(super) pool: PgPool,
    /// Where the cluster lies, if not in the data folder.
    pub(super) relocated_to: Option<PathBuf>,
    server: Option<Mutex<PostgresServer>>,
}

impl Database {
    /// Starts the server, unless the user names one, and migrates the database.
    pub(super) async fn start(folder: &DataFolder, url: Option<&str>) -> anyhow::Result<Self> {
        let Some(url) = url else {
            return Self::start_server(folder).await;
        };
        let pool = connect(url)
            .await
            .context("can't use --database-url (postgres://user:password@host:port/name)")?;
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

    /// A broker that has just been started is empty: the relay begins again where the slowest
    /// projection stands.
    pub(super) async fn refill_what_is_lacking(&self) -> anyhow::Result<()> {
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

    /// The relay begins again at these positions where it stands beyond them.
    pub(super) async fn rewind_relay(&self, positions: &[(Shard, Position)]) -> anyhow::Result<()> {
        cursor::rewind_to_new_broker(&self.pool, positions)
            .await
            .context("can't rewind the relay")
    }

    /// Resolves when the stack's own server ends without having been asked to.
    pub(super) async fn died(&self) -> anyhow::Error {
        match &self.server {
            Some(server) => server.lock().await.died().await,
            None => std::future::pending().await,
        }
    }

    /// Ends the stack's own server.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.pool.close().await;
        match self.server {
            Some(server) => server.into_inner().stop().await,
            None => Ok(()),
        }
    }
}

async fn connect(url: &str) -> anyhow::Result<PgPool> {
    // The error's own text has all that its sources would repeat.
    let checked = event_store::check_connection(url).await;
    checked.map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(event_store::pool(
        url,
        SessionKind::Writer,
        CONNECTIONS_MAX,
    )?)
}

async fn migrate(url: &str) -> anyhow::Result<()> {
    let pool = event_store::pool(url, SessionKind::Migration, 1)?;
    let migrated = migrations::run(&pool).await;
    pool.close().await;
    migrated.context("can't migrate the database")
}
