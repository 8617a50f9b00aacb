//! Rows that the log can't have led to: looked for from the side of the tables, page by page.
//!
//! A row whose link or account is in the log is compared in the bucket of that; here it is enough
//! that the log has it, up to the checkpoint of its shard.

mod credit_pages;
mod link_pages;

use anyhow::Context as _;
use linkledger_core::shard::Shard;
use sqlx::{PgConnection, PgPool};

use super::{
    bucket::Pass,
    findings::{Finding, Place},
};
use crate::read_models::{
    comparison::{FoundRow, Kind},
    pages::{Key, Page},
    snapshot,
    tables::{Table, Target},
};

/// The rows after that one, or the first ones.
pub(super) async fn page(
    tx: &mut PgConnection,
    target: Target,
    table: Table,
    after: Option<&Key>,
) -> sqlx::Result<Page> {
    match table {
        Table::Links => link_pages::links(tx, target, after).await,
        Table::Redirects => link_pages::redirects(tx, target, after).await,
        Table::CreditBalances => credit_pages::balances(tx, target, after).await,
        Table::CreditEntries => credit_pages::entries(tx, target, after).await,
        // They are compared as a whole, at the end of their shard.
        Table::StoppedAccounts => Ok(Page::default()),
    }
}

/// Removes rows that are superfluous.
pub(super) async fn remove(
    tx: &mut PgConnection,
    target: Target,
    table: Table,
    rows: &[Key],
) -> sqlx::Result<u64> {
    match table {
        Table::Links => link_pages::remove_links(tx, target, rows).await,
        Table::Redirects => link_pages::remove_redirects(tx, target, rows).await,
        Table::CreditBalances => credit_pages::remove_balances(tx, target, rows).await,
        Table::CreditEntries => credit_pages::remove_entries(tx, target, rows).await,
        Table::StoppedAccounts => Ok(0),
    }
}

/// Looks through a whole table of a generation.
pub(super) async fn table(pool: &PgPool, target: Target, table: Table) -> anyhow::Result<Pass> {
    let mut pass = Pass::default();
    let mut after = None;
    loop {
        let mut snapshot = snapshot::begin(pool).await?;
        let found = page(&mut snapshot, target, table, after.as_ref())
            .await
            .with_context(|| format!("can't read the table `{}`", table.name()))?;
        snapshot.commit().await?;
        pass.rows_found += found.rows;
        let mismatches = found.superfluous.len() as u64;
        let named = found.superfluous.into_iter().map(|(shard, key)| {
            let shard = shard.and_then(|number| Shard::new(number.into()));
            let row = FoundRow {
                kind: Kind::Superfluous,
                account_id: key.account_id,
                row_id: Some(key.row_id),
                columns: String::new(),
            };
            Finding::of(&row, table, shard, None)
        });
        let place = Place::Page { table, after };
        pass.findings.add(place, mismatches, named);
        after = found.last;
        if after.is_none() {
            return Ok(pass);
        }
    }
}
