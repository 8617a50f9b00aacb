//! `linkledger credits`: the balance, and the entries that led to it.

use clap::{Args, Subcommand};
use serde::Deserialize;

use crate::{
    client::{Call, connection::ApiOptions},
    output::{EXIT_CODES, print},
    paging::{Paging, Row},
    table::{Column, Layout, record, short_time},
};

/// The balance, unless a command asks for more.
#[derive(Debug, Args)]
pub(crate) struct Credits {
    #[command(flatten)]
    pub(crate) api: ApiOptions,
    #[command(subcommand)]
    command: Option<CreditsCommand>,
}

#[derive(Debug, Subcommand)]
enum CreditsCommand {
    /// List what was granted, charged and adjusted, newest first.
    #[command(after_help = EXIT_CODES)]
    Entries(Paging),
}

#[derive(Deserialize)]
struct Balance {
    balance: i64,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    amount: i64,
    balance_after: i64,
    #[serde(default)]
    link_id: Option<String>,
    created_at: String,
}

impl Row for Entry {
    const COLUMNS: &[Column] = &[
        Column("ID", Layout::Optional),
        Column("CREATED", Layout::Text),
        Column("TYPE", Layout::Text),
        Column("AMOUNT", Layout::Number),
        Column("BALANCE", Layout::Number),
        Column("LINK", Layout::Text),
    ];

    fn cells(self) -> Vec<String> {
        vec![
            self.id,
            short_time(&self.created_at),
            self.kind,
            self.amount.to_string(),
            self.balance_after.to_string(),
            self.link_id.unwrap_or_default(),
        ]
    }
}

/// Prints balance or entries.
pub(crate) async fn run(credits: Credits) -> anyhow::Result<()> {
    let client = credits.api.client()?;
    let is_json = credits.api.json;
    match credits.command {
        Some(CreditsCommand::Entries(paging)) => {
            let call = Call::get(&["v1", "credits", "entries"]);
            paging.print::<Entry>(&client, call, is_json).await
        }
        None => {
            let call = Call::get(&["v1", "credits"]);
            let answer = client.send(&call).await?;
            if is_json {
                return print(&answer.text());
            }
            let Balance { balance } = client.read(&call, &answer)?;
            print(&record(&[("Balance", balance.to_string())]))
        }
    }
}
