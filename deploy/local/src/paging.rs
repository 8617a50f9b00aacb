//! Lists of the API: the options of paging, and printing page by page.

use clap::Args;
use console::Term;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::{
    client::{ApiCall, ApiClient, CallFailure},
    options::whole_number,
    output::{note, print},
    table::{PagedTable, TableColumn},
};

/// Items on the largest page that the service returns.
pub(crate) const PAGE_LIMIT_MAX: u32 = 100;

/// Options that select a part of a list.
#[derive(Debug, Args)]
pub(crate) struct PagingOptions {
    /// Items on a page, 1 to 100. Default: 50, the default of the service; with --all 100.
    #[arg(long, value_name = "ITEMS", value_parser = whole_number(1..=PAGE_LIMIT_MAX))]
    limit: Option<u32>,
    /// Continue after another page: the cursor that was printed at the end of that page.
    #[arg(long)]
    cursor: Option<String>,
    /// Print all pages. With --json: one item on each line.
    #[arg(long)]
    all: bool,
}

/// An item of a list that can be printed as a row of a table.
pub(crate) trait TableRow: DeserializeOwned {
    const COLUMNS: &[TableColumn];

    /// Returns one cell for each column.
    fn cells(self) -> Vec<String>;
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
    next_cursor: Option<String>,
}

impl PagingOptions {
    /// Prints the list, beginning with the page that `call` requests.
    ///
    /// # Errors
    /// Returns an error if a call fails, or if a page names its own cursor as the next cursor, since
    /// such a list would never end.
    pub(crate) async fn print<R: TableRow>(
        &self,
        client: &ApiClient,
        call: ApiCall,
        is_json: bool,
    ) -> anyhow::Result<()> {
        let limit = self.limit.or(self.all.then_some(PAGE_LIMIT_MAX));
        let call = call.query("limit", limit.map(|limit| limit.to_string()));
        let mut table = PagedTable::new(R::COLUMNS, terminal_width());
        let mut cursor = self.cursor.clone();
        loop {
            let call = call.clone().query("cursor", cursor.clone());
            let answer = client.send(&call).await.map_err(|failure| match &cursor {
                Some(cursor) if self.all => failure.advise(&format!(
                    "The list is not complete; print the rest with --all --cursor {cursor}"
                )),
                _ => failure,
            })?;
            let page: Page<'_> = client.read(&call, &answer)?;
            match (is_json, self.all) {
                (false, _) => {
                    let rows = page.items.iter().map(|item| {
                        let row: Result<R, _> = serde_json::from_str(item.get());
                        row.map(TableRow::cells)
                            .map_err(|_| client.not_the_api(&call, answer.status))
                    });
                    print(&table.page(&rows.collect::<Result<Vec<_>, CallFailure>>()?))?;
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
                        "There are more items: add --cursor {next} for the next page, or --all for \
                         all pages"
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

/// Returns the width of the terminal, or `None` if standard output is not a terminal: text in a pipe
/// or file is never cut.
pub(crate) fn terminal_width() -> Option<usize> {
    let (_rows, columns) = Term::stdout().size_checked()?;
    Some(usize::from(columns))
}
