//! Orphans: rows that no event explains, searched page by page of a table.
//!
//! A row whose link or account has events is compared in the bucket of those events. Here it is enough
//! that the log, up to the checkpoint of its shard, holds the first event of the row.

use anyhow::Context as _;
use linkledger_core::id::AccountId;
use linkledger_service::databases::Databases;
use sqlx::{AssertSqlSafe, FromRow, PgConnection, PgPool};
use uuid::Uuid;

use super::{
    VerificationReport,
    exceptions::Exceptions,
    findings::{FindingKind, FindingPlace, VerifyFinding, shown_id},
    row_keys::RowKeys,
    snapshot::{self, GenerationTarget, checkpoints},
    statements,
    step_size::StepSize,
};
use crate::{pipeline::retry::Retries, read_models::description::ReadTable};

/// Columns of a row's key, as text.
pub(super) type KeyText = Vec<String>;

/// First rows of a table after a key, in the order of its key.
#[derive(Debug, Clone)]
pub(super) struct PagePlace {
    /// Key before the page; `None` for the first page.
    pub(super) after: Option<KeyText>,
    /// Maximum number of rows.
    pub(super) rows_max: i64,
}

/// Rows of a table, in the order of its key.
#[derive(Debug)]
pub(super) struct TablePage {
    rows: u64,
    /// Key of the last row; `None` at the end of the table.
    last: Option<KeyText>,
    pub(super) orphans: Vec<OrphanRow>,
}

/// Row of [`statements::page`].
#[derive(FromRow)]
struct PageRow {
    account_ids: Vec<Uuid>,
    row_ids: Vec<Option<Uuid>>,
    rests: Vec<String>,
    last_key: Option<KeyText>,
}

/// Row of [`statements::orphans`].
#[derive(Debug, FromRow)]
pub(super) struct OrphanRow {
    pub(super) account_id: Uuid,
    row_id: Option<Uuid>,
    shard: Option<i16>,
    pub(super) key: KeyText,
    /// Account of the event that explains the row, if that is another account than the row's.
    explained_by: Option<Uuid>,
}

/// Reads a page, and finds its orphans.
pub(super) async fn read_page(
    log: &PgPool,
    tx: &mut PgConnection,
    target: GenerationTarget,
    table: &ReadTable,
    place: &PagePlace,
) -> anyhow::Result<TablePage> {
    let page = statements::page(table, place.after.is_some());
    let orphans = statements::orphans(table);
    let mut statement = sqlx::query_as(AssertSqlSafe(page))
        .bind(target.generation)
        .bind(place.rows_max);
    if let Some(after) = &place.after {
        statement = statement.bind(after);
    }
    let page: PageRow = statement
        .fetch_one(&mut *tx)
        .await
        .with_context(|| format!("cannot read the table `{}`", table.name))?;
    let checkpoints = checkpoints(&mut *tx, target).await?;
    let rows = page.account_ids.len() as u64;
    let mut accounts = page.account_ids.clone();
    let keys = RowKeys {
        account_ids: page.account_ids,
        row_ids: page.row_ids,
        rests: page.rests,
    };
    let mut find = async |accounts: &[Uuid]| {
        let exceptions = Exceptions::of_accounts(&mut *tx, target, accounts).await?;
        let statement = exceptions.bind(sqlx::query_as(AssertSqlSafe(orphans.clone())));
        let statement = keys.bind(statement.bind(checkpoints.to_vec()));
        let found: sqlx::Result<Vec<OrphanRow>> = statement.fetch_all(log).await;
        found.with_context(|| format!("cannot find the events of rows of `{}`", table.name))
    };
    let mut found = find(&accounts).await?;
    let others: Vec<Uuid> = found.iter().filter_map(|row| row.explained_by).collect();
    if !others.is_empty() {
        // The events of rows with a wrong account may be exceptions of the right one.
        accounts.extend(others);
        found = find(&accounts).await?;
    }
    found.retain(|row| row.explained_by.is_none());
    Ok(TablePage {
        rows,
        last: page
            .last_key
            .filter(|_| rows >= place.rows_max.unsigned_abs()),
        orphans: found,
    })
}

/// Searches a whole table of a generation.
pub(super) async fn search(
    databases: &Databases,
    target: GenerationTarget,
    table: &'static ReadTable,
) -> anyhow::Result<VerificationReport> {
    let mut report = VerificationReport::of(target);
    let (mut size, mut retries) = (StepSize::default(), Retries::default());
    let mut after = None;
    loop {
        let place = PagePlace {
            after: after.clone(),
            rows_max: size.get(),
        };
        let page = match read_snapshot(databases, target, table, &place).await {
            Ok(page) => page,
            Err(error) => {
                size.after(error, &mut retries).await?;
                continue;
            }
        };
        size.after_success();
        retries.reset();
        report.rows_found += page.rows;
        let mismatches = page.orphans.len() as u64;
        let named = page.orphans.into_iter().map(|orphan| VerifyFinding {
            table: table.name,
            shard: orphan.shard,
            bucket: None,
            account_id: AccountId::from_uuid(orphan.account_id),
            row: shown_id(table, orphan.row_id),
            kind: FindingKind::Orphan,
            columns: Vec::new(),
        });
        report
            .findings
            .add(FindingPlace::Page { table, place }, mismatches, named);
        after = page.last;
        if after.is_none() {
            return Ok(report);
        }
    }
}

async fn read_snapshot(
    databases: &Databases,
    target: GenerationTarget,
    table: &ReadTable,
    place: &PagePlace,
) -> anyhow::Result<TablePage> {
    let mut snapshot = snapshot::begin(&databases.read).await?;
    let page = read_page(&databases.log, &mut snapshot, target, table, place).await?;
    snapshot.commit().await?;
    Ok(page)
}
