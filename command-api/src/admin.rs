//! The operator's commands. Each command is a public function, which the admin API calls too, and a subcommand that prints
//! the result of the function: for people, or with `--json` for programs.

pub mod account;
pub mod admin_key;
pub mod author;
pub mod console_session;
pub mod credits;
pub mod error;
pub mod key;
pub mod link;
pub mod log;
mod migrate;
mod operator;
pub mod relay;
pub mod topic;
pub mod webhook;

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
    operator::Operator,
};
use serde::Serialize;
use sqlx::PgPool;

use self::author::{new_idempotency_key, parse_idempotency_key};
pub use self::{
    author::{Author, Request},
    error::{AdminError, AdminRefusal, AdminResult, Done},
};
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
    /// Keys of the admin API.
    #[command(subcommand)]
    AdminKey(admin_key::AdminKeySubcommand),
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

/// Arguments of a command that changes something, its author, and the options of all commands.
#[derive(Debug, Clone, Args)]
pub struct Authored<T: Args> {
    #[command(flatten)]
    pub arguments: T,
    #[command(flatten)]
    pub operator: Operator,
    #[command(flatten)]
    pub options: AdminCommandOptions,
}

/// Arguments of a command that takes effect once for an idempotency key.
#[derive(Debug, Clone, Args)]
pub struct Keyed<T: Args> {
    #[command(flatten)]
    pub authored: Authored<T>,
    /// Name of this request, such as the number of an invoice: 1 to 128 printable ASCII characters. A request
    /// of the same kind with a used name has no effect and prints the first result [default: a new UUID].
    #[arg(long, value_name = "KEY", value_parser = parse_idempotency_key)]
    pub idempotency_key: Option<String>,
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
        AdminCommand::AdminKey(command) => admin_key::run(command, clock).await,
        AdminCommand::Credits(command) => credits::run(command, clock).await,
        AdminCommand::Link(command) => link::run(command, clock).await,
        AdminCommand::Relay(command) => relay::run(command).await,
        AdminCommand::Topic(command) => topic::run(command).await,
        AdminCommand::Log(command) => log::run(command).await,
    }
}

impl AdminCommand {
    /// Returns true if a failure of the command is printed as JSON: of the commands that the admin API has too.
    pub(crate) const fn prints_json(&self) -> bool {
        match self {
            Self::Account(command) => command.options().json,
            Self::Key(command) => command.options().json,
            Self::AdminKey(command) => command.options().json,
            Self::Credits(command) => command.options().json,
            Self::Link(command) => command.options().json,
            Self::Migrate(_) | Self::Relay(_) | Self::Topic(_) | Self::Log(_) => false,
        }
    }
}

impl<T: Args> Authored<T> {
    /// Returns the request of the command, without an idempotency key.
    fn request<'a>(&self, pool: &'a PgPool, clock: &'a dyn Clock) -> Request<'a> {
        Request::new(pool, clock, &Author::Operator(self.operator.name()))
    }
}

impl<T: Args> Keyed<T> {
    const fn arguments(&self) -> &T {
        &self.authored.arguments
    }

    const fn options(&self) -> &AdminCommandOptions {
        &self.authored.options
    }

    /// Returns the request of the command, with its idempotency key.
    fn request<'a>(&self, pool: &'a PgPool, clock: &'a dyn Clock) -> Request<'a> {
        let key = self.idempotency_key.clone();
        let key = key.unwrap_or_else(|| new_idempotency_key(clock));
        self.authored.request(pool, clock).once(key)
    }
}

impl<T> Done<T> {
    /// Returns a note for people if this command has not made the change.
    const fn note(&self) -> &'static str {
        if self.replayed {
            " (replayed: an earlier command with the same key did this)"
        } else if self.has_changed() {
            ""
        } else {
            " (unchanged)"
        }
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
    checked.map_err(|error| AdminError::Unavailable(failure::unreachable_database(url, &error)))?;
    Ok(pool)
}

/// Outcome of a command, with the members that the admin API answers, and what its headers tell there.
#[derive(Serialize)]
struct PrintedOutcome<'a, T> {
    #[serde(flatten)]
    value: &'a T,
    /// True if this command has changed something.
    changed: bool,
    /// True if an earlier command with the same idempotency key has made the change.
    replayed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
}

/// Prints the outcome of a request: `text` for people, or JSON for programs.
fn print_done<T: Serialize>(
    options: &AdminCommandOptions,
    request: &Request<'_>,
    done: &Done<T>,
    text: &str,
) -> anyhow::Result<()> {
    let outcome = PrintedOutcome {
        value: &done.value,
        changed: done.has_changed(),
        replayed: done.replayed,
        idempotency_key: request.idempotency_key.as_deref(),
    };
    print(options.json, &outcome, text)
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
