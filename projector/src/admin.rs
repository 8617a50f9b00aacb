//! The operator's commands on the read models. Each is a function that others can call, and a
//! subcommand that prints what it returns: for people, or with `--json` for programs.

pub mod parked;

use std::io::Write as _;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use linkledger_core::{
    config::Secret,
    event_store::{self, SessionKind},
    migrations,
};
use serde::Serialize;
use sqlx::PgPool;

/// Sessions of one command.
const CONNECTIONS_MAX: u32 = 1;

/// What an operator may ask for.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Accounts whose events wait because one of them can't be applied.
    #[command(subcommand)]
    Parked(parked::Command),
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

/// Carries the command out and prints its result.
///
/// # Errors
/// When it was not carried out, with one line that says why.
pub async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Parked(command) => parked::run(command).await,
    }
}

impl Options {
    /// A pool on a database that is reachable and up to date.
    async fn pool(&self) -> anyhow::Result<PgPool> {
        let url = self.database_url.reveal();
        let pool = event_store::pool(url, SessionKind::Writer, CONNECTIONS_MAX)
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
