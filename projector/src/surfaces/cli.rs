//! The operator's commands on the read models. Each is a function that others can call, and a
//! subcommand that prints what it returns: for people, or with `--json` for programs.

mod columns;
pub mod drop;
pub mod parked;
pub mod pause;
pub mod rebuild;
pub mod status;
pub mod verify;
pub mod why;

use std::io::Write as _;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use linkledger_core::{
    config::Secret,
    event_store::{self, SessionKind},
    migrations,
    operator::{Operator, parse_text},
};
use serde::Serialize;
use sqlx::PgPool;

use crate::{operations::pause::Wish, read_models::Projection};

/// Sessions of one command.
const CONNECTIONS_MAX: u32 = 1;

/// What an operator may ask for.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show how far each projection is in each shard, what hinders it, and what else waits for an
    /// operator.
    Status(status::ShowStatus),
    /// Explain what the read tables show of a link or an account, from its events.
    Why(why::ShowWhy),
    /// Make a read model from the log again, beside the one that is served; compare both, and serve
    /// the new one. Can be broken off at any moment: the same command goes on.
    Rebuild(rebuild::Rebuild),
    /// Serve the generation again that was served before, once it is up to date and compared.
    Rollback(rebuild::Rollback),
    /// Drop a generation that is not served, a minute after it was at the earliest.
    Drop(drop::DropGeneration),
    /// Compare the read tables with the log, in SQL that shares nothing with the projections: every
    /// row, and whether credits add up. Exit code 1 if something is wrong.
    Verify(verify::Verify),
    /// Accounts whose events wait because one of them can't be applied.
    #[command(subcommand)]
    Parked(parked::Command),
    /// Keep projections from moving, until they are resumed; reads go on from what is there.
    Pause(pause::Pause),
    /// Let paused projections go on; they catch up.
    Resume(pause::Pause),
}

/// What all commands have.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Address of the Postgres database: postgres://user:password@host:port/name.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Secret,
    /// Print the result as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Who asks for a change, and how.
#[derive(Debug, Clone, Args)]
pub struct OperatorArgs {
    #[command(flatten)]
    operator: Operator,
    /// Why, for the record.
    #[arg(long, value_parser = parse_text)]
    pub reason: Option<String>,
    /// Say what would be done, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
}

impl OperatorArgs {
    /// The name under which a command is recorded.
    pub fn operator(&self) -> String {
        self.operator.name()
    }
}

/// Which projections a command is about.
#[derive(Debug, Clone, Args)]
pub struct Selection {
    /// The projection.
    #[arg(required_unless_present = "all")]
    projection: Option<Projection>,
    /// Every projection.
    #[arg(long, conflicts_with = "projection")]
    all: bool,
}

impl Selection {
    /// Those that are meant.
    pub fn projections(&self) -> Vec<Projection> {
        let all = Projection::ALL.into_iter();
        all.filter(|it| self.projection.is_none_or(|one| one == *it))
            .collect()
    }
}

/// Carries the command out and prints its result.
///
/// # Errors
/// When it was not carried out, with one line that says why.
pub async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Status(command) => status::run(command).await,
        Command::Why(command) => why::run(command).await,
        Command::Rebuild(command) => rebuild::run_rebuild(command).await,
        Command::Rollback(command) => rebuild::run_rollback(command).await,
        Command::Drop(command) => drop::run(command).await,
        Command::Verify(command) => verify::run(command).await,
        Command::Parked(command) => parked::run(command).await,
        Command::Pause(command) => pause::run(command, Wish::Pause).await,
        Command::Resume(command) => pause::run(command, Wish::Resume).await,
    }
}

impl Options {
    /// A pool on a database that is reachable and up to date.
    async fn pool(&self) -> anyhow::Result<PgPool> {
        self.pool_of(SessionKind::Writer, CONNECTIONS_MAX).await
    }

    /// The same, of other sessions.
    async fn pool_of(&self, kind: SessionKind, connections_max: u32) -> anyhow::Result<PgPool> {
        let url = self.database_url.reveal();
        let pool = event_store::pool(url, kind, connections_max)
            .context("the database address can't be read")?;
        // The error's own text has all that its sources would repeat.
        let checked = event_store::check_connection(url).await;
        checked.map_err(|error| anyhow::anyhow!("can't connect to the database: {error}"))?;
        migrations::check(&pool).await?;
        Ok(pool)
    }

    /// Prints a result: `text` for people, or the value itself for programs.
    fn print(&self, value: &impl Serialize, text: &str) -> anyhow::Result<()> {
        let mut stdout = std::io::stdout();
        if self.json {
            let json = serde_json::to_string(value).context("can't write the result")?;
            writeln!(stdout, "{json}").context("can't print the result")
        } else {
            writeln!(stdout, "{text}").context("can't print the result")
        }
    }
}
