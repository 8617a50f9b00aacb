//! Commands of an operator on the read models. Each is a function that other code can call, and a
//! subcommand that prints the result: as text, or with `--json` as JSON.

mod columns;
pub mod drop;
pub mod parked;
pub mod pause;
pub mod rebuild;
pub mod recount;
pub mod status;
pub mod verify;

use std::io::Write as _;

use anyhow::Context as _;
use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use linkledger_event_store::SessionKind;
use linkledger_service::{
    databases::{DatabaseSettings, Databases},
    doctor::{admission, pooler},
    operator::{Operator, parse_text},
};
use serde::Serialize;

use crate::{operations::pause::PauseChange, read_models::Projection};

/// Sessions of a short command.
const CONNECTIONS_MAX: u32 = 1;

/// Subcommand of an operator.
#[derive(Debug, Subcommand)]
pub enum OperatorSubcommand {
    /// Show position, lag and state of each projection, and the findings that wait for an operator.
    Status(status::ShowStatus),
    /// Recreate a read model from the log beside the served one, verify the new one, and serve it.
    /// May be interrupted at any moment: the same command continues.
    Rebuild(rebuild::Rebuild),
    /// Serve the previous generation again, once it is up to date and verified.
    Rollback(rebuild::Rollback),
    /// Drop a generation that is not served; at the earliest a minute after it was served.
    Drop(drop::DropGeneration),
    /// Compare every row of the read tables, or those of one link or account, with the log, in SQL
    /// that shares nothing with the projections. Exit code 1 if a row is wrong.
    Verify(verify::Verify),
    /// List, show, retry or skip the events of parked accounts.
    #[command(subcommand)]
    Parked(parked::ParkedSubcommand),
    /// Count the clicks of all UTC days since a time again from the topic, and replace the statistics in one
    /// transaction, for which the aggregation waits. An end before the commit changes nothing.
    Recount(Box<recount::RecountClicks>),
    /// Pause projections or the aggregation of clicks until they are resumed. Reads continue from the rows that are
    /// there, and the topic keeps the clicks.
    Pause(pause::Pause),
    /// Resume what is paused; it catches up.
    Resume(pause::Pause),
}

/// Parses the name of a projection; help and errors list the names.
pub(crate) fn projection_parser() -> impl TypedValueParser<Value = Projection> {
    PossibleValuesParser::new(Projection::ALL.map(Projection::name))
        .try_map(|name| Projection::of_name(&name).ok_or("no projection has this name"))
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct Options {
    #[command(flatten)]
    pub databases: DatabaseSettings,
    /// Print the result as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Options of a command that changes something.
#[derive(Debug, Clone, Args)]
pub struct OperatorArgs {
    #[command(flatten)]
    operator: Operator,
    /// Reason, recorded in the audit log of the operators' commands.
    #[arg(long, value_parser = parse_text)]
    pub reason: Option<String>,
    /// Show what the command would do, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
}

impl OperatorArgs {
    /// Returns the name of the operator, for the record.
    pub fn operator(&self) -> String {
        self.operator.name()
    }
}

/// Returns the projection, or all of them if none is named.
fn one_or_all(projection: Option<Projection>) -> Vec<Projection> {
    projection.map_or(Projection::ALL.to_vec(), |one| vec![one])
}

/// Runs the command and prints its result.
///
/// # Errors
/// Returns the reason of the failure in one line.
pub async fn run(command: OperatorSubcommand) -> anyhow::Result<()> {
    match command {
        OperatorSubcommand::Status(command) => status::run(command).await,
        OperatorSubcommand::Rebuild(command) => rebuild::run_rebuild(command).await,
        OperatorSubcommand::Rollback(command) => rebuild::run_rollback(command).await,
        OperatorSubcommand::Drop(command) => drop::run(command).await,
        OperatorSubcommand::Verify(command) => verify::run(command).await,
        OperatorSubcommand::Parked(command) => parked::run(command).await,
        OperatorSubcommand::Recount(command) => command.run().await,
        OperatorSubcommand::Pause(command) => pause::run(command, PauseChange::Pause).await,
        OperatorSubcommand::Resume(command) => pause::run(command, PauseChange::Resume).await,
    }
}

impl Options {
    /// Returns pools on databases that answer and have every migration.
    async fn databases(&self) -> anyhow::Result<Databases> {
        self.databases_of(SessionKind::Writer, CONNECTIONS_MAX)
            .await
    }

    /// Returns pools for a long command, whose advisory lock needs a session for the whole run.
    ///
    /// # Errors
    /// Also returns an error if a pooler shares sessions between transactions.
    async fn databases_for_lock(
        &self,
        kind: SessionKind,
        connections_max: u32,
    ) -> anyhow::Result<Databases> {
        let databases = self.databases_of(kind, connections_max).await?;
        pooler::look(self.databases.read_url(), kind)
            .await?
            .admitted()?;
        Ok(databases)
    }

    /// Returns pools of sessions of the given kind.
    async fn databases_of(
        &self,
        kind: SessionKind,
        connections_max: u32,
    ) -> anyhow::Result<Databases> {
        admission::check(&self.databases).await?;
        let databases = self.databases.pools(kind, connections_max);
        databases.context("the address of a database cannot be parsed")
    }

    /// Prints a result: `text` for people, or `value` as JSON for programs.
    fn print(&self, value: &impl Serialize, text: &str) -> anyhow::Result<()> {
        let mut stdout = std::io::stdout();
        if self.json {
            let json = serde_json::to_string(value).context("cannot write the result")?;
            writeln!(stdout, "{json}").context("cannot print the result")
        } else {
            writeln!(stdout, "{text}").context("cannot print the result")
        }
    }
}
