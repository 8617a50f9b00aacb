//! The operator's commands. Each is a function that others can call, and a subcommand that
//! prints what it returns: for people, or with `--json` for programs.

pub mod account;
pub mod credits;
pub mod key;
pub mod link;
pub mod log;
mod operator;
pub mod relay;
pub mod topic;

use std::io::Write as _;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use linkledger_core::{
    clock::Clock,
    event_store::{self, SessionKind, is_lock_timeout},
    migrations,
};
use serde::Serialize;
use sqlx::{PgPool, migrate::MigrateError};

use crate::config::DatabaseConfig;

/// Sessions of one command.
const CONNECTIONS_MAX: u32 = 2;

/// What an operator may ask for.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Bring the database to the state that this release needs. Safe to repeat.
    Migrate(Options),
    /// Accounts: the owners of links and credits.
    #[command(subcommand)]
    Account(account::Command),
    /// API keys.
    #[command(subcommand)]
    Key(key::Command),
    /// Credits of accounts.
    #[command(subcommand)]
    Credits(credits::Command),
    /// Links, whoever owns them.
    #[command(subcommand)]
    Link(link::Command),
    /// The publishing of events to Kafka.
    #[command(subcommand)]
    Relay(relay::RelayCommand),
    /// The Kafka topic of the event stream.
    #[command(subcommand)]
    Topic(topic::TopicCommand),
    /// Show what has happened to an account or a link, and by whom, the latest first; or export or
    /// verify the whole log.
    Log(log::Log),
}

/// What all commands have.
#[derive(Debug, Clone, Args)]
pub struct Options {
    #[command(flatten)]
    pub database: DatabaseConfig,
    /// Print the result as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Carries the command out and prints its result.
///
/// # Errors
/// When it was not carried out, with one line that says why.
pub async fn run(command: Command, clock: &dyn Clock) -> anyhow::Result<()> {
    match command {
        Command::Migrate(options) => migrate(&options).await,
        Command::Account(command) => account::run(command, clock).await,
        Command::Key(command) => key::run(command, clock).await,
        Command::Credits(command) => credits::run(command, clock).await,
        Command::Link(command) => link::run(command, clock).await,
        Command::Relay(command) => relay::run(command).await,
        Command::Topic(command) => topic::run(command).await,
        Command::Log(command) => log::run(command).await,
    }
}

#[derive(Serialize)]
struct Migrated {
    migrated: bool,
}

async fn migrate(options: &Options) -> anyhow::Result<()> {
    let pool = event_store::pool(
        options.database.database_url.reveal(),
        SessionKind::Migration,
        1,
    )
    .context("the database address can't be read")?;
    connect(options.database.database_url.reveal()).await?;
    migrations::run(&pool)
        .await
        .map_err(|error| explain(&error))?;
    print(
        options,
        &Migrated { migrated: true },
        "The database is up to date.",
    )
}

fn explain(error: &MigrateError) -> anyhow::Error {
    if let MigrateError::ExecuteMigration(cause, version) = error
        && is_lock_timeout(cause)
    {
        return anyhow::anyhow!(
            "migration {version} waited for a lock on a table that another transaction uses, and \
             gave up so as not to hold up the services; nothing of it was done: run `migrate` \
             again when that transaction has ended"
        );
    }
    // Its text has all that its sources would repeat.
    anyhow::anyhow!("{error}")
}

impl Options {
    /// A pool on a database that is reachable and up to date.
    pub(crate) async fn pool(&self) -> anyhow::Result<PgPool> {
        self.pool_of(SessionKind::Writer, CONNECTIONS_MAX).await
    }

    /// The same for what reads much of the log.
    pub(crate) async fn reader_pool(&self, connections_max: u32) -> anyhow::Result<PgPool> {
        self.pool_of(SessionKind::Reader, connections_max).await
    }

    async fn pool_of(&self, kind: SessionKind, connections_max: u32) -> anyhow::Result<PgPool> {
        let url = self.database.database_url.reveal();
        let pool = event_store::pool(url, kind, connections_max)
            .context("the database address can't be read")?;
        connect(url).await?;
        migrations::check(&pool).await?;
        Ok(pool)
    }
}

async fn connect(url: &str) -> anyhow::Result<()> {
    // The error's own text has all that its sources would repeat.
    let checked = event_store::check_connection(url).await;
    checked.map_err(|error| anyhow::anyhow!("can't connect to the database: {error}"))
}

/// Prints a result: `text` for people, or the value itself for programs.
pub(crate) fn print(options: &Options, value: &impl Serialize, text: &str) -> anyhow::Result<()> {
    print_as(options.json, value, text)
}

/// The same for commands that don't work on the database.
pub(crate) fn print_as(json: bool, value: &impl Serialize, text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout();
    if json {
        let json = serde_json::to_string(value).context("can't write the result")?;
        writeln!(stdout, "{json}").context("can't print the result")
    } else {
        writeln!(stdout, "{text}").context("can't print the result")
    }
}
