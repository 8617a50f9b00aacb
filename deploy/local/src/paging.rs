//! Lists: their options, and their pages as they come.

use clap::Args;
use console::Term;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::{
    client::{Call, Client, Failure},
    output::{note, print},
    table::{Column, Table},
};

/// Items on a page when all are wanted: as many as the service gives.
const LIMIT_OF_ALL: u32 = 100;

/// Which part of a list.
#[derive(Debug, Args)]
pub(crate) struct Paging {
    /// Items on a page, 1 to 100. Default: what the service takes, 50; with --all 100.
    #[arg(long, value_name = "ITEMS", value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: Option<u32>,
    /// Go on where another page ended.
    #[arg(long)]
    cursor: Option<String>,
    /// All pages to the end. With --json: one item on each line.
    #[arg(long)]
    all: bool,
}

/// An item as a row of a table.
pub(crate) trait Row: DeserializeOwned {
    const COLUMNS: &[Column];

    /// A cell for each column.
    fn cells(self) -> Vec<String>;
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
    next_cursor: Option<String>,
}

impl Paging {
    /// Prints the list that the call begins. It ends with the list: a cursor that does not lead on
    /// is an error.
    pub(crate) async fn print<R: Row>(
        &self,
        client: &Client,
        call: Call,
        is_json: bool,
    ) -> anyhow::Result<()> {
        let limit = self.limit.or(self.all.then_some(LIMIT_OF_ALL));
        let call = call.query("limit", limit.map(|limit| limit.to_string()));
        let mut table = Table::new(R::COLUMNS, terminal_width());
        let mut cursor = self.cursor.clone();
        loop {
            let call = call.clone().query("cursor", cursor.clone());
            let answer = client.send(&call).await.map_err(|failure| match &cursor {
                Some(cursor) if self.all => failure.advise(&format!(
                    "The list broke off; go on with --all --cursor {cursor}"
                )),
                _ => failure,
            })?;
            let page: Page<'_> = client.read(&call, &answer)?;
            match (is_json, self.all) {
                (false, _) => {
                    let rows = page.items.iter().map(|item| {
                        let row: Result<R, _> = serde_json::from_str(item.get());
                        row.map(Row::cells)
                            .map_err(|_| client.not_the_api(&call, answer.status))
                    });
                    print(&table.page(&rows.collect::<Result<Vec<_>, Failure>>()?))?;
                }
                (true, true) => {
                    let line = |item: &&RawValue| format!("{}\n", item.get());
                    print(&page.items.iter().map(line).collect::<String>())?;
                }
                (true, false) => print(&answer.text())?,
            }
            match (page.next_cursor, self.all) {
                (None, _) => return Ok(()),
                (Some(next), false) => {
                    note(&format!(
                        "There are more: --cursor {next} with the same filters, or --all"
                    ));
                    return Ok(());
                }
                (next, true) if next == cursor => {
                    return Err(client.not_the_api(&call, answer.status).into());
                }
                (next, true) => cursor = next,
            }
        }
    }
}

/// `None` where nobody looks: what is piped is printed whole.
fn terminal_width() -> Option<usize> {
    let (_rows, columns) = Term::stdout().size_checked()?;
    Some(usize::from(columns))
}
