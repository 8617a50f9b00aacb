//! `linkledger credits`: the credit balance and the credit entries of an account.

use clap::{Args, Subcommand};
use serde::Deserialize;

use crate::{
    client::{ApiCall, connection::ApiOptions},
    exit_code::EXIT_CODES,
    output::print,
    paging::{PagingOptions, TableRow},
    table::{ColumnLayout, TableColumn, record, short_time},
};

/// Options of `linkledger credits`; without a subcommand the balance is printed.
#[derive(Debug, Args)]
pub(crate) struct CreditsOptions {
    #[command(flatten)]
    pub(crate) api: ApiOptions,
    #[command(subcommand)]
    command: Option<CreditsCommand>,
}

#[derive(Debug, Subcommand)]
enum CreditsCommand {
    /// List the credit entries (grants, charges, adjustments, refunds, revocations), newest first.
    #[command(after_help = EXIT_CODES)]
    Entries(PagingOptions),
}

#[derive(Deserialize)]
struct CreditBalance {
    balance: i64,
}

#[derive(Deserialize)]
struct CreditEntry {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    amount: i64,
    balance_after: i64,
    #[serde(default)]
    link_id: Option<String>,
    #[serde(default)]
    description: Option<String>,
    created_at: String,
}

impl TableRow for CreditEntry {
    const COLUMNS: &[TableColumn] = &[
        TableColumn("ID", ColumnLayout::WideOnly),
        TableColumn("CREATED", ColumnLayout::Text),
        TableColumn("TYPE", ColumnLayout::Text),
        TableColumn("AMOUNT", ColumnLayout::Number),
        TableColumn("BALANCE", ColumnLayout::Number),
        TableColumn("LINK", ColumnLayout::Text),
        TableColumn("DESCRIPTION", ColumnLayout::Text),
    ];

    fn cells(self) -> Vec<String> {
        vec![
            self.id,
            short_time(&self.created_at),
            self.kind,
            self.amount.to_string(),
            self.balance_after.to_string(),
            self.link_id.unwrap_or_default(),
            self.description.unwrap_or_default(),
        ]
    }
}

/// Prints the credit balance or the credit entries.
pub(crate) async fn run(credits: CreditsOptions) -> anyhow::Result<()> {
    let client = credits.api.client()?;
    let is_json = credits.api.json;
    match credits.command {
        Some(CreditsCommand::Entries(paging)) => {
            let call = ApiCall::get(&["v1", "credits", "entries"]);
            paging.print::<CreditEntry>(&client, call, is_json).await
        }
        None => {
            let call = ApiCall::get(&["v1", "credits"]);
            let answer = client.send(&call).await?;
            if is_json {
                return print(&answer.text());
            }
            let CreditBalance { balance } = client.read(&call, &answer)?;
            print(&record(&[("Balance", balance.to_string())]))
        }
    }
}
