//! Finds the results of earlier commands by their idempotency keys.

use std::{collections::HashMap, sync::Arc};

use sqlx::PgConnection;
use uuid::Uuid;

use super::{decode, log, unreadable};
use linkledger_core::{
    commands::{CreateResult, IdempotencyKey},
    credits::CreditsEvent,
    envelope::{Metadata, RecordedEvent},
    event::Event,
    id::AccountId,
    link::LinkEvent,
    shard::Shard,
};

/// Finds the creates that had their effect under these keys.
///
/// Must be a separate statement after the accounts are locked: only a new snapshot sees the commits
/// that happened while the lock was waited for.
///
/// # Errors
/// Returns an error if the database fails or a stored event cannot be read.
pub async fn find_creates_in_tx(
    tx: &mut PgConnection,
    keys: &[(AccountId, IdempotencyKey)],
) -> sqlx::Result<HashMap<(AccountId, IdempotencyKey), Arc<CreateResult>>> {
    let shards: Vec<i16> = keys
        .iter()
        .map(|(account, _)| Shard::of(*account).number())
        .collect();
    let accounts: Vec<Uuid> = keys.iter().map(|(account, _)| account.uuid()).collect();
    let stored_keys: Vec<String> = keys.iter().map(|(_, key)| key.stored()).collect();
    // `CreditsCharged` has the position right after its `LinkCreated`.
    let rows = sqlx::query!(
        r#"
        SELECT keys.ordinality AS "ordinality!", link.fingerprint AS "fingerprint!",
               link.type AS "link_type!", link.schema_version AS "link_version!",
               link.payload::text AS "link!", link.metadata::text AS "metadata!",
               charge.type AS "charge_type!", charge.schema_version AS "charge_version!",
               charge.payload::text AS "charge!", charge.position AS "position!",
               link.recorded_at AS "created_at!"
        FROM unnest($1::smallint[], $2::uuid[], $3::text[])
            WITH ORDINALITY AS keys (shard, account_id, idempotency_key, ordinality)
        JOIN event_store.events AS link USING (shard, account_id, idempotency_key)
        JOIN event_store.events AS charge
            ON charge.shard = link.shard AND charge.position = link.position + 1
        "#,
        &shards,
        &accounts,
        &stored_keys
    )
    .fetch_all(tx)
    .await?;
    let key_of = |ordinality: i64| {
        usize::try_from(ordinality - 1)
            .ok()
            .and_then(|index| keys.get(index))
            .copied()
    };
    rows.into_iter()
        .map(|row| {
            let key = key_of(row.ordinality).ok_or(sqlx::Error::RowNotFound)?;
            let link = decode(&row.link_type, row.link_version, &row.link)?;
            let charge = decode(&row.charge_type, row.charge_version, &row.charge)?;
            let (
                Event::Link(LinkEvent::Created(link)),
                Event::Credits(CreditsEvent::Charged(charge)),
            ) = (link, charge)
            else {
                return Err(unreadable(
                    "a create's key is that of a link and its charge",
                ));
            };
            let metadata: Metadata = serde_json::from_str(&row.metadata).map_err(unreadable)?;
            let fingerprint = row.fingerprint.try_into();
            let settled = CreateResult {
                fingerprint: fingerprint.map_err(|_| unreadable("a fingerprint has 32 bytes"))?,
                link,
                charge,
                created_at: row.created_at,
                renderer: metadata
                    .renderer
                    .ok_or_else(|| unreadable("LinkCreated names no renderer"))?,
                position: row.position,
            };
            Ok((key, Arc::new(settled)))
        })
        .collect()
}

/// Effect of an earlier request of an operator.
#[derive(Debug, Clone)]
pub struct Effect {
    /// Fingerprint of the request that had the effect.
    pub fingerprint: Vec<u8>,
    /// Event that was stored with the idempotency key.
    pub event: RecordedEvent,
}

/// Finds the event that was stored under this key (`<kind>:<key>`). The caller must have locked the account.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find_effect_in_tx(
    tx: &mut PgConnection,
    account_id: AccountId,
    stored_key: &str,
) -> sqlx::Result<Option<Effect>> {
    let shard = Shard::of(account_id);
    let row = sqlx::query!(
        r#"
        SELECT position, fingerprint AS "fingerprint!"
        FROM event_store.events
        WHERE shard = $1 AND account_id = $2 AND idempotency_key = $3
        "#,
        shard.number(),
        account_id.uuid(),
        stored_key
    )
    .fetch_optional(&mut *tx)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let mut events = log::read_at(tx, shard, &[row.position]).await?;
    Ok(Some(Effect {
        fingerprint: row.fingerprint,
        event: events.pop().ok_or(sqlx::Error::RowNotFound)?,
    }))
}
