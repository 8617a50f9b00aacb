//! External ids of links: unique among the links of an account that are not deleted.
//!
//! The lock of the account decides, so a look-up before the write is safe; the primary key is a second
//! guard.

use std::collections::{BTreeSet, HashMap};

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::{
    log::{self, PerShard},
    transaction::{PoolTransaction, SNAPSHOT},
};
use linkledger_core::{
    commands::ExternalIdKey,
    envelope::{NewEvent, StateAfter},
    event::Event,
    id::{AccountId, LinkId},
    link::{LinkEvent, LinkState},
    shard::{Position, Shard},
};

/// Finds the links that hold these external ids.
///
/// Must be a separate statement after the accounts are locked: only a new snapshot sees the commits
/// that happened while the lock was waited for.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find_holders_in_tx(
    tx: &mut PgConnection,
    keys: &[ExternalIdKey],
) -> sqlx::Result<HashMap<ExternalIdKey, LinkId>> {
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let (account_ids, external_ids) = columns(keys);
    let rows = sqlx::query!(
        r#"
        SELECT account_id AS "account_id!", external_id AS "external_id!", held.link_id AS "link_id!"
        FROM unnest($1::uuid[], $2::text[]) AS wanted (account_id, external_id)
        -- Not a join: planned on an empty table, that would read all external ids.
        CROSS JOIN LATERAL (
            SELECT link_id FROM event_store.external_ids
            WHERE account_id = wanted.account_id AND external_id = wanted.external_id
            LIMIT 1
        ) AS held
        "#,
        &account_ids,
        &external_ids as &[&str]
    )
    .fetch_all(tx)
    .await?;
    let holder = rows.into_iter().map(|row| {
        let key = (AccountId::from_uuid(row.account_id), row.external_id);
        (key, LinkId::from_uuid(row.link_id))
    });
    Ok(holder.collect())
}

/// Finds the link of an account that holds an external id; a deleted link holds none.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find_holder(
    pool: &PgPool,
    account_id: AccountId,
    external_id: &str,
) -> sqlx::Result<Option<LinkId>> {
    let link_id = sqlx::query_scalar!(
        "
        SELECT link_id FROM event_store.external_ids
        WHERE account_id = $1 AND external_id = $2
        ",
        account_id.uuid(),
        external_id
    )
    .fetch_optional(pool)
    .await?;
    Ok(link_id.map(LinkId::from_uuid))
}

/// Returns account ids and external ids as columns, for `unnest`.
fn columns<'a>(keys: impl IntoIterator<Item = &'a ExternalIdKey>) -> (Vec<Uuid>, Vec<&'a str>) {
    let columns = keys.into_iter();
    columns
        .map(|(account_id, external_id)| (account_id.uuid(), external_id.as_str()))
        .unzip()
}

/// External ids that an event frees and gives to its link.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ExternalIdEffect<'a> {
    /// External id that the link held before the event, and no longer holds.
    pub freed: Option<&'a str>,
    /// External id that the link holds from the event on.
    pub given: Option<&'a str>,
}

impl<'a> ExternalIdEffect<'a> {
    /// Returns the effect of an event; `after` is the state of the link after the event.
    pub fn of(event: &'a LinkEvent, after: Option<&'a LinkState>) -> Self {
        match event {
            LinkEvent::Created(created) => Self {
                freed: None,
                given: created.external_id.as_deref(),
            },
            LinkEvent::DetailsChanged(changed) => {
                let change = changed.changes.external_id.as_ref();
                Self {
                    freed: change.and_then(|change| change.from.as_deref()),
                    given: change.and_then(|change| change.to.as_deref()),
                }
            }
            LinkEvent::Deleted(_) => Self {
                freed: after.and_then(|after| after.details.external_id.as_deref()),
                given: None,
            },
            LinkEvent::DestinationChanged(_) | LinkEvent::Disabled(_) | LinkEvent::Enabled(_) => {
                Self::default()
            }
        }
    }
}

/// External ids that events free and give to links.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ExternalIdChanges {
    /// External ids that a link held before one of the events.
    freed: BTreeSet<ExternalIdKey>,
    /// Holders after the events.
    given: HashMap<ExternalIdKey, LinkId>,
}

impl ExternalIdChanges {
    /// Returns the changes by these events, in their order.
    pub(super) fn of(events: &[&NewEvent]) -> Self {
        let mut changes = Self::default();
        for new in events {
            if let Event::Link(event) = &new.event {
                changes.add(new, event);
            }
        }
        changes
    }

    fn add(&mut self, new: &NewEvent, event: &LinkEvent) {
        let after = new.metadata.link.as_ref().and_then(StateAfter::known);
        let effect = ExternalIdEffect::of(event, after);
        if let Some(freed) = effect.freed {
            let key = (new.account_id, freed.to_owned());
            self.given.remove(&key);
            self.freed.insert(key);
        }
        if let Some(given) = effect.given {
            let key = (new.account_id, given.to_owned());
            self.given.insert(key, event.link_id());
        }
    }

    /// Writes the changes. Does nothing if the events concern no external id.
    pub(super) async fn write_in_tx(&self, tx: &mut PgConnection) -> sqlx::Result<()> {
        if !self.freed.is_empty() {
            let (account_ids, external_ids) = columns(&self.freed);
            sqlx::query!(
                "
                DELETE FROM event_store.external_ids AS held
                USING unnest($1::uuid[], $2::text[]) AS freed (account_id, external_id)
                WHERE held.account_id = freed.account_id AND held.external_id = freed.external_id
                ",
                &account_ids,
                &external_ids as &[&str]
            )
            .execute(&mut *tx)
            .await?;
        }
        if self.given.is_empty() {
            return Ok(());
        }
        let (account_ids, external_ids) = columns(self.given.keys());
        let link_ids: Vec<Uuid> = self.given.values().map(|link_id| link_id.uuid()).collect();
        sqlx::query!(
            "
            INSERT INTO event_store.external_ids (account_id, external_id, link_id)
            SELECT * FROM unnest($1::uuid[], $2::text[], $3::uuid[])
            ",
            &account_ids,
            &external_ids as &[&str],
            &link_ids
        )
        .execute(tx)
        .await?;
        Ok(())
    }
}

/// External ids of a shard's accounts, read in one snapshot with the head of the shard.
#[derive(Debug, Default)]
pub struct ExternalIdsAtHead {
    /// Account, external id and link of each row.
    pub rows: Vec<(ExternalIdKey, LinkId)>,
    /// Head of the shard in the same snapshot.
    pub head: Position,
}

/// Number of rows that one statement reads.
const ROWS_PER_READ: i64 = 5_000;

/// Reads all external ids by the shards of their accounts, in one read-only transaction.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn read_all(pool: &PgPool) -> sqlx::Result<PerShard<ExternalIdsAtHead>> {
    let mut tx = PoolTransaction::begin_with(pool, SNAPSHOT).await?;
    let mut read = PerShard::<ExternalIdsAtHead>::default();
    let heads = log::heads(&mut *tx).await?;
    for (of_shard, head) in read.iter_mut().zip(heads) {
        of_shard.head = head;
    }
    let mut after = (Uuid::nil(), String::new());
    loop {
        let page = sqlx::query!(
            "
            SELECT account_id, external_id, link_id FROM event_store.external_ids
            WHERE (account_id, external_id) > ($1, $2)
            ORDER BY account_id, external_id
            LIMIT $3
            ",
            after.0,
            after.1,
            ROWS_PER_READ
        );
        let page = page.fetch_all(&mut *tx).await?;
        let Some(last) = page.last() else { break };
        after = (last.account_id, last.external_id.clone());
        for row in page {
            let account_id = AccountId::from_uuid(row.account_id);
            let key = (account_id, row.external_id);
            let rows = &mut read[Shard::of(account_id).index()].rows;
            rows.push((key, LinkId::from_uuid(row.link_id)));
        }
    }
    tx.rollback().await?;
    Ok(read)
}
