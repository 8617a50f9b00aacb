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
use linkledger_core::{
    clock::Clock,
    databases::{DatabaseSettings, Databases},
    doctor::admission,
    event_store::{self, SessionKind},
    failure,
    migrations::{self, Schema},
    printable::printable,
    shard::Shard,
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

/// Options of all commands.
#[derive(Debug, Clone, Args)]
pub struct AdminCommandOptions {
    #[command(flatten)]
    pub database: DatabaseConfig,
    /// Print the result as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Options of a command on the log and on the read tables.
#[derive(Debug, Clone, Args)]
pub struct LogAndReadOptions {
    #[command(flatten)]
    pub databases: DatabaseSettings,
    /// Print the result as one JSON object.
    #[arg(long)]
    pub json: bool,
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
        let url = self.database.log_url();
        let pool = connect(url, SessionKind::Writer, CONNECTIONS_MAX).await?;
        migrations::check(&pool, &[Schema::EventStore]).await?;
        Ok(pool)
    }

    /// Returns such a pool for commands that read much of the log.
    async fn reader_pool(&self, connections_max: u32) -> anyhow::Result<PgPool> {
        let url = self.database.log_url();
        let pool = connect(url, SessionKind::Reader, connections_max).await?;
        migrations::check(&pool, &[Schema::EventStore]).await?;
        Ok(pool)
    }
}

impl LogAndReadOptions {
    /// Returns pools on databases that are reachable and have all migrations.
    async fn pools(&self) -> anyhow::Result<Databases> {
        admission::check(&self.databases).await?;
        let pools = self.databases.pools(SessionKind::Writer, CONNECTIONS_MAX);
        pools.context("invalid address of a database")
    }
}

async fn connect(url: &str, kind: SessionKind, connections_max: u32) -> anyhow::Result<PgPool> {
    let pool = event_store::pool(url, kind, connections_max).context("invalid --database-url")?;
    let checked = event_store::check_connection(url).await;
    checked.map_err(|error| failure::unreachable_database(url, &error))?;
    Ok(pool)
}

/// Prints a result: `text` for people, or `value` as JSON for programs.
fn print(json: bool, value: &impl Serialize, text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout();
    if json {
        let json = serde_json::to_string(value).context("cannot serialise the result")?;
        writeln!(stdout, "{json}").context("cannot print the result")
    } else {
        // Names and reasons were given by others.
        let lines: Vec<_> = text.lines().map(printable).collect();
        writeln!(stdout, "{}", lines.join("\n")).context("cannot print the result")
    }
}

/// Parses the number of a shard.
fn parse_shard(text: &str) -> Result<Shard, String> {
    let shard = text.parse().ok().and_then(Shard::new);
    shard.ok_or_else(|| "give the number of a shard, from 0 to 15".to_owned())
}
