//! `verify --link` and `--account`: which link or account, what delays its events, and its rows.

use anyhow::Context as _;
use linkledger_core::{
    event::Subject,
    id::AccountId,
    link::LinkName,
    printable::printable,
    shard::{Position, Shard},
    timestamp,
};
use linkledger_event_store::{accounts, log, names};
use linkledger_service::databases::Databases;
use serde::Serialize;
use sqlx::PgPool;

use crate::{
    cli::columns::{Layout, Screen, table},
    operations::{
        number_format::grouped,
        parked::{self, PARKINGS_OF_ACCOUNT_MAX},
        rebuild::is_paused,
        verify::{ComparedColumn, ComparedRow, subject::VerifiedSubject},
    },
    pipeline::parking::{Parking, listing::ListedParking},
    read_models::Projection,
};

/// Columns of the rows of a link.
const COLUMNS: &[(&str, Layout)] = &[
    ("TABLE", Layout::Text),
    ("COLUMN", Layout::Text),
    ("LOG", Layout::Text),
    ("ROW", Layout::Text),
];
/// Columns with ids, as Postgres has them.
const IDS: [&str; 3] = ["account_id", "link_id", "entry_id"];
/// Most characters of a value; the JSON has all of it.
const SHOWN_MAX: usize = 200;

/// Link or account of a verification, and what delays its events.
#[derive(Debug, Serialize)]
pub(super) struct SubjectOutput {
    subject: String,
    account_id: AccountId,
    shard: i16,
    /// End of the log in the shard.
    head: Position,
    redirects_stopped: bool,
    paused: Vec<&'static str>,
    parked: Vec<ListedParking>,
}

/// Finds the link or the account of the command line.
pub(super) async fn find(
    log: &PgPool,
    link: Option<&LinkName>,
    account: Option<AccountId>,
) -> anyhow::Result<Option<VerifiedSubject>> {
    let subject = match (link, account) {
        (Some(name), _) => {
            let found = names::find_link(log, name).await;
            let found = found.context("cannot look up the link")?;
            Subject::Link(found.with_context(|| format!("there is no link {name}"))?)
        }
        (None, Some(account_id)) => Subject::Account(account_id),
        (None, None) => return Ok(None),
    };
    Ok(Some(VerifiedSubject::find(log, subject).await?))
}

impl SubjectOutput {
    pub(super) async fn read(
        databases: &Databases,
        subject: &VerifiedSubject,
    ) -> anyhow::Result<Self> {
        let account_id = subject.account_id;
        let shard = Shard::of(account_id);
        let end = log::end(&databases.log).await;
        let mut paused = Vec::new();
        for projection in Projection::ALL {
            if is_paused(&databases.read, projection).await? {
                paused.push(projection.name());
            }
        }
        let account = accounts::get(&databases.log, account_id).await;
        let account = account.context("cannot look the account up")?;
        let parked = parked::list(&databases.read, Some(account_id), PARKINGS_OF_ACCOUNT_MAX);
        Ok(Self {
            subject: subject.id(),
            account_id,
            redirects_stopped: account.is_some_and(|it| it.account.status.redirects_stopped()),
            shard: shard.number(),
            head: end.context("cannot read the end of the log")?.heads[shard.index()],
            paused,
            parked: parked.await?,
        })
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let (subject, shard, head) = (&self.subject, self.shard, grouped(self.head));
        let account_id = self.account_id.to_string();
        let whose = if *subject == account_id {
            String::new()
        } else {
            format!(" of {account_id}")
        };
        let mut lines = vec![format!(
            "{subject}{whose}: shard {shard}, whose log ends at {head}."
        )];
        if self.redirects_stopped {
            lines.push(
                "the account is suspended with `--stop-redirects`: all its links answer 410"
                    .to_owned(),
            );
        }
        for projection in &self.paused {
            lines.push(format!(
                "`{projection}` is paused, so later events wait: `projector resume {projection}`"
            ));
        }
        for parked in &self.parked {
            let Parking { account, cause } = &parked.parking;
            lines.push(format!(
                "`{}` has parked the account since {}: {} at position {}: {} \
                 (`projector parked show {account_id}`)",
                account.projection,
                timestamp::format(parked.parked_at),
                cause.event_type,
                cause.position,
                cause.poison.detail
            ));
        }
        lines
    }
}

/// Returns a table of the rows, with a line for each column.
pub(super) fn rows_table(rows: &[&ComparedRow]) -> Vec<String> {
    let rows = rows.iter().copied();
    let cells = rows
        .filter(|row| row.is_expected || row.is_found)
        .flat_map(row_cells);
    table(Screen::of_stdout(), COLUMNS, cells)
}

/// Returns a line of [`COLUMNS`] for each column of a row, without ids that people know in another form.
fn row_cells(row: &ComparedRow) -> Vec<Vec<String>> {
    let cell = |is_there: bool, value: &Option<String>| {
        if is_there {
            shown(value.as_ref())
        } else {
            "no row".to_owned()
        }
    };
    let is_shown = |column: &&ComparedColumn| !IDS.contains(&column.name) || !row.is_right(column);
    let columns = row.columns.iter().filter(is_shown).map(|column| {
        let found = cell(row.is_found, &column.row);
        vec![
            row.table.to_owned(),
            column.name.to_owned(),
            cell(row.is_expected, &column.log),
            if row.is_right(column) {
                "same".to_owned()
            } else {
                found
            },
        ]
    });
    columns.collect()
}

impl ComparedColumn {
    /// Describes a column that differs.
    pub(super) fn text(&self) -> String {
        let Self { name, log, row } = self;
        format!(
            "{name}: log {}, row {}",
            shown(log.as_ref()),
            shown(row.as_ref())
        )
    }
}

/// Returns a value for people, cut if it is long.
fn shown(value: Option<&String>) -> String {
    let Some(value) = value else {
        return "-".to_owned();
    };
    let value = printable(value);
    match value.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.into_owned(),
    }
}
