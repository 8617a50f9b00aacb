//! Expiries of links that the log does not have as passed yet: of each link that is not deleted, has an `expires_at`,
//! and has no [`LinkExpired`](linkledger_core::observation::LinkExpired) since that was set.
//!
//! Rows are written with the events, under the lock of the account, and nobody else writes them.

use std::collections::BTreeMap;

use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    log::{self, PerShard},
    transaction::{PoolTransaction, SNAPSHOT},
};
use linkledger_core::{
    change::ValueUpdate,
    envelope::{NewEvent, StateAfter},
    event::Event,
    id::{AccountId, LinkId},
    link::{Expiry, LinkEvent, LinkState},
    observation::ObservationEvent,
    shard::{Position, Shard},
};

/// Returns the effect of an event of a link on its row. `after` is the state of the link after the event.
pub fn expiry_update(event: &LinkEvent, after: Option<&LinkState>) -> ValueUpdate<OffsetDateTime> {
    match event {
        LinkEvent::Created(created) => match created.expires_at {
            Some(expires_at) => ValueUpdate::Set(expires_at.instant()),
            None => ValueUpdate::Keep,
        },
        LinkEvent::DetailsChanged(changed) => match &changed.changes.expires_at {
            Some(change) => ValueUpdate::to(change.to.map(Expiry::instant)),
            None => ValueUpdate::Keep,
        },
        // Most links have no expiry, and their deletion needs no statement.
        LinkEvent::Deleted(_) if after.is_some_and(|it| it.details.expires_at.is_none()) => {
            ValueUpdate::Keep
        }
        LinkEvent::Deleted(_) => ValueUpdate::Remove,
        LinkEvent::DestinationChanged(_) | LinkEvent::Disabled(_) | LinkEvent::Enabled(_) => {
            ValueUpdate::Keep
        }
    }
}

/// Account and expiry of links whose rows events change; without an expiry the row is removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ExpiryChanges(BTreeMap<LinkId, (AccountId, Option<OffsetDateTime>)>);

impl ExpiryChanges {
    /// Returns the changes by these events, in their order.
    pub(super) fn of(events: &[&NewEvent]) -> Self {
        let changes = events.iter().filter_map(|new| {
            let (link_id, update) = update_of(new)?;
            let expires_at = match update {
                ValueUpdate::Keep => return None,
                ValueUpdate::Remove => None,
                ValueUpdate::Set(expires_at) => Some(expires_at),
            };
            Some((link_id, (new.account_id, expires_at)))
        });
        Self(changes.collect())
    }

    /// Writes the changes. Does nothing if the events concern no expiry.
    pub(super) async fn write_in_tx(&self, tx: &mut PgConnection) -> sqlx::Result<()> {
        let mut removed: Vec<Uuid> = Vec::new();
        let (mut link_ids, mut account_ids, mut expiries) = (Vec::new(), Vec::new(), Vec::new());
        for (link_id, (account_id, expires_at)) in &self.0 {
            let Some(expires_at) = expires_at else {
                removed.push(link_id.uuid());
                continue;
            };
            link_ids.push(link_id.uuid());
            account_ids.push(account_id.uuid());
            expiries.push(*expires_at);
        }
        if !removed.is_empty() {
            sqlx::query!(
                "DELETE FROM event_store.link_expiries WHERE link_id = ANY($1)",
                &removed
            )
            .execute(&mut *tx)
            .await?;
        }
        if link_ids.is_empty() {
            return Ok(());
        }
        sqlx::query!(
            "
            INSERT INTO event_store.link_expiries (link_id, account_id, expires_at)
            SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[])
            ON CONFLICT (link_id) DO UPDATE SET expires_at = excluded.expires_at
            ",
            &link_ids,
            &account_ids,
            &expiries
        )
        .execute(tx)
        .await?;
        Ok(())
    }
}

/// Returns the link that an event concerns, and the effect on its row.
fn update_of(new: &NewEvent) -> Option<(LinkId, ValueUpdate<OffsetDateTime>)> {
    match &new.event {
        Event::Link(event) => {
            let after = new.metadata.link.as_ref().and_then(StateAfter::known);
            Some((event.link_id(), expiry_update(event, after)))
        }
        Event::Observation(ObservationEvent::LinkExpired(expired)) => {
            Some((expired.link_id, ValueUpdate::Remove))
        }
        Event::Observation(
            ObservationEvent::LinkFirstClicked(_) | ObservationEvent::LinksClicked(_),
        )
        | Event::Account(_)
        | Event::ApiKey(_)
        | Event::Webhook(_)
        | Event::Credits(_) => None,
    }
}

/// Row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkExpiry {
    /// Link that will expire, or has expired and is not in the log yet as such.
    pub link_id: LinkId,
    /// Account that owns the link.
    pub account_id: AccountId,
    /// Instant from which the link no longer leads to its destination.
    pub expires_at: OffsetDateTime,
}

/// Expiries of a shard's links, read in one snapshot with the head of the shard.
#[derive(Debug, Default)]
pub struct ExpiriesAtHead {
    /// All rows.
    pub rows: Vec<LinkExpiry>,
    /// Head of the shard in the same snapshot.
    pub head: Position,
}

/// Number of rows that one statement reads.
const ROWS_PER_READ: i64 = 5_000;

/// Reads all expiries by the shards of their accounts, in one read-only transaction.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn read_all(pool: &PgPool) -> sqlx::Result<PerShard<ExpiriesAtHead>> {
    let mut tx = PoolTransaction::begin_with(pool, SNAPSHOT).await?;
    let mut read = PerShard::<ExpiriesAtHead>::default();
    let heads = log::heads(&mut *tx).await?;
    for (of_shard, head) in read.iter_mut().zip(heads) {
        of_shard.head = head;
    }
    let mut after = Uuid::nil();
    loop {
        let page = sqlx::query!(
            "
            SELECT link_id, account_id, expires_at FROM event_store.link_expiries
            WHERE link_id > $1
            ORDER BY link_id
            LIMIT $2
            ",
            after,
            ROWS_PER_READ
        );
        let page = page.fetch_all(&mut *tx).await?;
        let Some(last) = page.last() else { break };
        after = last.link_id;
        for row in page {
            let account_id = AccountId::from_uuid(row.account_id);
            read[Shard::of(account_id).index()].rows.push(LinkExpiry {
                link_id: LinkId::from_uuid(row.link_id),
                account_id,
                expires_at: row.expires_at,
            });
        }
    }
    tx.rollback().await?;
    Ok(read)
}
