//! The operator's commands. Each command is a public function, and a subcommand that prints the result of the function: for
//! people, or with `--json` for programs.

pub mod account;
pub mod credits;
pub mod key;
pub mod link;
pub mod log;
mod migrate;
mod operator;
pub mod relay;
pub mod topic;

use std::io::Write as _;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use linkledger_core::{clock::Clock, printable::printable};
use linkledger_event_store::{
    SessionKind,
    migrations::{self, Schema},
};
use linkledger_service::{
    databases::{DatabaseSettings, Databases},
    doctor::admission,
    failure,
};
use serde::Serialize;
use sqlx::PgPool;

use crate::config::DatabaseConfig;

/// Maximum number of sessions of one command.
const CONNECTIONS_MAX: u32 = 2;

/// Commands of operators.
#[derive(Debug, Subcommand)]
pub enum AdminCommand {
    /// Run the migrations of this release, of the log and of the read tables. Safe to repeat.
    Migrate(LogAndReadOptions),
    /// Accounts: the owners of links and credits.
    #[command(subcommand)]
    Account(account::AccountSubcommand),
    /// API keys.
    #[command(subcommand)]
    Key(key::KeySubcommand),
    /// Credits of accounts.
    #[command(subcommand)]
    Credits(credits::CreditsSubcommand),
    /// Links of all accounts.
    #[command(subcommand)]
    Link(link::LinkSubcommand),
    /// The publishing of events to Kafka.
    #[command(subcommand)]
    Relay(relay::RelaySubcommand),
    /// The Kafka topics of events and of clicks.
    #[command(subcommand)]
    Topic(topic::TopicSubcommand),
    /// Show the events of an account or a link and their actors, the latest first; or export or
    /// verify the whole log.
    Log(log::Log),
}

/// Options of all commands, with the addresses that a command needs.
#[derive(Debug, Clone, Args)]
pub struct Options<D: Args> {
    #[command(flatten)]
    pub database: D,
    /// Print the result as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Options of a command on the log.
pub type AdminCommandOptions = Options<DatabaseConfig>;

/// Options of a command on the log and on the read tables.
pub type LogAndReadOptions = Options<DatabaseSettings>;

/// Arguments of a command, and the options of all commands.
#[derive(Debug, Clone, Args)]
pub struct WithOptions<T: Args> {
    #[command(flatten)]
    pub request: T,
    #[command(flatten)]
    pub options: AdminCommandOptions,
}

/// Runs the command and prints its result.
///
/// # Errors
/// Returns an error of one line if the command fails.
pub async fn run(command: AdminCommand, clock: &dyn Clock) -> anyhow::Result<()> {
    match command {
        AdminCommand::Migrate(options) => migrate::run(&options).await,
        AdminCommand::Account(command) => account::run(command, clock).await,
        AdminCommand::Key(command) => key::run(command, clock).await,
        AdminCommand::Credits(command) => credits::run(command, clock).await,
        AdminCommand::Link(command) => link::run(command, clock).await,
        AdminCommand::Relay(command) => relay::run(command).await,
        AdminCommand::Topic(command) => topic::run(command).await,
        AdminCommand::Log(command) => log::run(command).await,
    }
}

impl AdminCommandOptions {
    /// Returns a pool on a database that is reachable and has all migrations.
    async fn pool(&self) -> anyhow::Result<PgPool> {
        self.pool_of(SessionKind::Writer, CONNECTIONS_MAX).await
    }

    /// Returns such a pool for commands that read much of the log.
    async fn reader_pool(&self, connections_max: u32) -> anyhow::Result<PgPool> {
        self.pool_of(SessionKind::Reader, connections_max).await
    }

    async fn pool_of(&self, kind: SessionKind, connections_max: u32) -> anyhow::Result<PgPool> {
        let pool = connect(self.database.log_url(), kind, connections_max).await?;
        migrations::check(&pool, &[Schema::EventStore]).await?;
        Ok(pool)
    }
}

impl LogAndReadOptions {
    /// Returns pools on databases that are reachable and have all migrations.
    async fn pools(&self) -> anyhow::Result<Databases> {
        admission::check(&self.database).await?;
        let pools = self.database.pools(SessionKind::Writer, CONNECTIONS_MAX);
        pools.context("invalid address of a database")
    }
}

async fn connect(url: &str, kind: SessionKind, connections_max: u32) -> anyhow::Result<PgPool> {
    let pool = linkledger_event_store::pool(url, kind, connections_max)
        .context("invalid --database-url")?;
    let checked = linkledger_event_store::check_connection(url).await;
    checked.map_err(|error| failure::unreachable_database(url, &error))?;
    Ok(pool)
}

/// Prints a result: `text` for people, or `value` as JSON for programs.
fn print(json: bool, value: &impl Serialize, text: &str) -> anyhow::Result<()> {
    let printed = if json {
        serde_json::to_string(value).context("cannot serialise the result")?
    } else {
        // Names and reasons were given by others.
        text.lines().map(printable).collect::<Vec<_>>().join("\n")
    };
    writeln!(std::io::stdout(), "{printed}").context("cannot print the result")
}
