//! Rows that the log is checked against, and that change while the log is read.
//!
//! The parts are not read in one snapshot: keys, webhooks, external ids and expiries have a transaction each, accounts
//! one for each page.
//! Each part names the head at which it was read, and the order of the reads ensures that no part is newer than the end
//! up to which the log is read.

use std::mem;

use anyhow::Context as _;
use linkledger_core::{id::AccountId, segment::Segment, shard::Shard};
use linkledger_event_store::{
    accounts, api_keys, external_ids, link_expiries,
    log::{self, PerShard},
    log_meta, segments,
    webhooks::rows as webhooks,
};
use sqlx::PgPool;
use uuid::Uuid;

use super::audit::{Expected, accounts::AccountRow, texts::Texts};

/// Number of rows that one statement reads.
const ROWS_PER_READ: i64 = 5_000;

/// Reads the rows of the shard `only`, or of all shards.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn read(pool: &PgPool, only: Option<Shard>) -> anyhow::Result<PerShard<Expected>> {
    let is_wanted = |shard: Shard| only.is_none_or(|only| only == shard);
    let mut expected = PerShard::<Expected>::default();
    let epoch = log_meta::epoch(pool)
        .await
        .context("cannot read the epoch")?;
    let heads = log::heads(pool).await.context("cannot read the heads")?;
    let texts = Texts::default();
    for of_shard in &mut expected {
        of_shard.texts = texts.clone();
    }
    read_accounts(pool, &mut expected, &is_wanted).await?;
    let read_at = api_keys::read_each(pool, |key| {
        let expected = &mut expected[Shard::of(key.account_id).index()];
        expected.keys.insert(&texts, &key);
    });
    let read_at = read_at.await.context("cannot read the API keys")?;
    for (of_shard, head) in expected.iter_mut().zip(read_at) {
        of_shard.keys.head = head;
    }
    read_webhooks(pool, &mut expected).await?;
    let external_ids = external_ids::read_all(pool).await;
    let mut external_ids = external_ids.context("cannot read the external ids")?;
    let expiries = link_expiries::read_all(pool).await;
    let mut expiries = expiries.context("cannot read the expiries of links")?;
    for shard in Shard::all().filter(|shard| is_wanted(*shard)) {
        expected[shard.index()].segments = segments_of(pool, shard).await?;
        let read = &mut external_ids[shard.index()];
        expected[shard.index()].external_ids = mem::take(read);
        expected[shard.index()].expiries = mem::take(&mut expiries[shard.index()]);
    }
    // Read after the rows: rows that were read earlier depend only on events before these ends.
    let extents = log::extents(pool).await.context("cannot read the heads")?;
    for (expected, (extent, head)) in expected.iter_mut().zip(extents.into_iter().zip(heads)) {
        expected.epoch = epoch;
        expected.extent = extent;
        expected.accounts_known_up_to = head;
    }
    // Read after the ends: a check needs the entry of every reversal before them.
    for shard in Shard::all().filter(|shard| is_wanted(*shard)) {
        let entries = log::reversed_entries(pool, shard).await;
        let entries = entries.context("cannot read the refunds and revocations")?;
        expected[shard.index()].reversed_entries = entries;
    }
    Ok(expected)
}

async fn read_webhooks(pool: &PgPool, expected: &mut PerShard<Expected>) -> anyhow::Result<()> {
    let read_at = webhooks::read_each(pool, |webhook| {
        let expected = &mut expected[Shard::of(webhook.account_id).index()];
        expected.webhooks.insert(webhook);
    });
    let read_at = read_at.await.context("cannot read the webhooks")?;
    for (of_shard, head) in expected.iter_mut().zip(read_at) {
        of_shard.webhooks.head = head;
    }
    Ok(())
}

async fn read_accounts(
    pool: &PgPool,
    expected: &mut PerShard<Expected>,
    is_wanted: &impl Fn(Shard) -> bool,
) -> anyhow::Result<()> {
    let mut after = AccountId::from_uuid(Uuid::nil());
    loop {
        let rows = accounts::read_after(pool, after, ROWS_PER_READ).await;
        let rows = rows.context("cannot read the accounts")?;
        let Some(last) = rows.last() else {
            return Ok(());
        };
        after = last.account.account_id;
        for row in rows {
            if let Some(shard) = Shard::new(row.shard.into()).filter(|shard| is_wanted(*shard)) {
                let expected = &mut expected[shard.index()];
                expected
                    .accounts
                    .push(AccountRow::of(&expected.texts, &row));
            }
        }
    }
}

async fn segments_of(pool: &PgPool, shard: Shard) -> anyhow::Result<Vec<Segment>> {
    let mut segments: Vec<Segment> = Vec::new();
    loop {
        let after = segments.last().map_or(0, |segment| segment.place.number);
        let more = segments::read_after(pool, shard, after, ROWS_PER_READ).await;
        let more = more.context("cannot read the segments")?;
        if more.is_empty() {
            return Ok(segments);
        }
        segments.extend(more);
    }
}
