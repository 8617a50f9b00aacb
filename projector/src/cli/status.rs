//! `status`: shows the state of the projections, once or repeatedly.

mod text;
mod watch;

use anyhow::bail;
use clap::Args;
use linkledger_service::databases::Databases;

use super::{Options, columns::Screen, projection_parser};
use crate::{
    operations::status::{self, StatusReport},
    read_models::Projection,
};

/// Arguments of `status`.
#[derive(Debug, Args)]
pub struct ShowStatus {
    /// Show the status every so many seconds (1 by default), until Ctrl-C.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = clap::value_parser!(u16).range(1..=3_600))]
    pub watch: Option<u16>,
    /// Show only this projection.
    #[arg(long, value_parser = projection_parser())]
    pub projection: Option<Projection>,
    /// Show all shards, also those that are live.
    #[arg(long)]
    pub shards: bool,
    /// Exit with 1 if a finding waits for an operator.
    #[arg(long, conflicts_with = "watch")]
    pub check: bool,
    #[command(flatten)]
    pub options: Options,
}

pub(super) async fn run(command: ShowStatus) -> anyhow::Result<()> {
    let databases = command.options.databases().await?;
    if let Some(seconds) = command.watch {
        return watch::run(&databases, &command, seconds).await;
    }
    let status = command.collect(&databases).await?;
    let text = command.text(&status, Screen::of_stdout());
    command.options.print(&status, &text.join("\n"))?;
    if command.check && !status.findings.is_empty() {
        bail!(
            "findings that need an operator: {}; see the lines that begin with `!`",
            status.findings.len()
        );
    }
    Ok(())
}

impl ShowStatus {
    async fn collect(&self, databases: &Databases) -> anyhow::Result<StatusReport> {
        let status = status::collect(databases).await?;
        Ok(match self.projection {
            Some(projection) => status.narrowed_to(projection),
            None => status,
        })
    }

    fn text(&self, status: &StatusReport, screen: Screen) -> Vec<String> {
        text::lines(status, screen, self.shards)
    }
}
