//! Conservation of credits: what an account was granted and charged comes to its balance.
//!
//! Each entry continues from the balance after the one before it, and the last one ends at the
//! account's balance: then the sum of all is the balance, however long the ledger is, and the
//! entry at which it is not can be named.

use anyhow::Context as _;
use linkledger_core::shard::Shard;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::{
    bucket::Pass,
    findings::{Finding, Place},
};
use crate::read_models::{
    comparison::{FoundRow, Kind},
    pages::PAGE_ROWS,
    snapshot,
    tables::{Table, Target},
};

/// Where a page begins: with the last entry of the one before it.
type Entry = (Uuid, i64);

/// A stretch of the ledgers.
#[derive(Default)]
struct Page {
    mismatches: u64,
    /// The first entries that don't add up.
    named: Vec<Finding>,
    /// `None` at the end of the table.
    last: Option<Entry>,
}

/// Adds up all ledgers of a generation.
pub(super) async fn ledgers(pool: &PgPool, target: Target) -> anyhow::Result<Pass> {
    let mut pass = Pass::default();
    let mut from = None;
    loop {
        let mut snapshot = snapshot::begin(pool).await?;
        let page = add_up(&mut snapshot, target, from)
            .await
            .context("can't add up the entries of ledgers")?;
        snapshot.commit().await?;
        pass.findings
            .add(Place::Ledger, page.mismatches, page.named);
        from = page.last;
        if from.is_none() {
            return Ok(pass);
        }
    }
}

/// Adds up a page.
async fn add_up(tx: &mut PgConnection, target: Target, from: Option<Entry>) -> sqlx::Result<Page> {
    let (account_id, version) = from.unwrap_or((Uuid::nil(), i64::MIN));
    let rows = sqlx::query!(
        r#"
        WITH page AS MATERIALIZED (
            SELECT account_id, version, entry_id, amount, balance_after
            FROM read_model.credit_entries
            WHERE generation = $2 AND (account_id, version) >= ($3, $4)
            ORDER BY account_id, version
            LIMIT $6::bigint + 1
        ), chained AS MATERIALIZED (
            SELECT p.*, lag(p.version) OVER of_account AS previous_version,
                   coalesce(lag(p.balance_after) OVER of_account, 0) AS balance_before
            FROM page AS p
            WINDOW of_account AS (PARTITION BY p.account_id ORDER BY p.version)
        ), unbalanced AS MATERIALIZED (
            SELECT p.account_id, p.version, p.entry_id
            FROM chained AS p
            WHERE ($5 OR (p.account_id, p.version) <> ($3, $4)) AND (
                -- What was skipped in between is missing from the sum.
                (p.balance_before + p.amount <> p.balance_after AND NOT EXISTS (
                    SELECT FROM read_model.skipped_events AS s
                    JOIN event_store.events AS e
                        ON e.shard = s.shard AND e.position = s.position
                       AND e.event_id = s.event_id
                    WHERE s.account_id = p.account_id AND s.projection = $1
                      AND e.stream_id = p.account_id AND e.version < p.version
                      AND e.version > coalesce(p.previous_version, 0)
                )) OR (NOT EXISTS (
                    SELECT FROM read_model.credit_entries AS n
                    WHERE n.generation = $2 AND n.account_id = p.account_id
                      AND n.version > p.version
                ) AND NOT EXISTS (
                    SELECT FROM read_model.credit_balances AS b
                    WHERE b.generation = $2 AND b.account_id = p.account_id
                      AND b.balance = p.balance_after
                ))
            )
        ), named AS (
            SELECT * FROM unbalanced ORDER BY account_id, version LIMIT 100
        )
        SELECT (SELECT count(*) FROM page) AS "rows!",
               (SELECT count(*) FROM unbalanced) AS "mismatches!",
               last.account_id AS "last_account_id!", last.version AS "last_version!",
               n.account_id AS "account_id?", n.entry_id AS "entry_id?", a.shard AS "shard?"
        FROM (SELECT * FROM page ORDER BY account_id DESC, version DESC LIMIT 1) AS last
        LEFT JOIN named AS n ON true
        LEFT JOIN event_store.accounts AS a ON a.account_id = n.account_id
        "#,
        target.projection.name(),
        target.generation,
        account_id,
        version,
        from.is_none(),
        PAGE_ROWS
    )
    .fetch_all(tx)
    .await?;
    let mut page = Page::default();
    for row in rows {
        page.mismatches = row.mismatches.unsigned_abs();
        page.last = (row.rows > PAGE_ROWS).then_some((row.last_account_id, row.last_version));
        let finding = |account_id| unbalanced(row.shard, account_id, row.entry_id);
        page.named.extend(row.account_id.map(finding));
    }
    Ok(page)
}

fn unbalanced(shard: Option<i16>, account_id: Uuid, entry_id: Option<Uuid>) -> Finding {
    let row = FoundRow {
        kind: Kind::Unbalanced,
        account_id,
        row_id: entry_id,
        columns: String::new(),
    };
    let shard = shard.and_then(|number| Shard::new(number.into()));
    Finding::of(&row, Table::CreditEntries, shard, None)
}
