//! Looking up the effects that idempotency keys had.

use std::collections::HashMap;

use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    batch::{IdempotencyKey, SettledCreate},
    credits::CreditsEvent,
    envelope::Metadata,
    event::Event,
    id::AccountId,
    shard::Shard,
};

/// The creates that had their effect under one of these keys.
///
/// Must be a statement of its own after the accounts are locked: only a new snapshot sees what
/// was committed while the lock was waited for.
///
/// # Errors
/// When the database does not answer, or holds what can't be read.
pub async fn find_creates_in_tx(
    tx: &mut PgConnection,
    keys: &[(AccountId, IdempotencyKey)],
) -> sqlx::Result<HashMap<(AccountId, IdempotencyKey), SettledCreate>> {
    let shards: Vec<i16> = keys
        .iter()
        .map(|(account, _)| Shard::of(*account).number())
        .collect();
    let accounts: Vec<Uuid> = keys.iter().map(|(account, _)| account.uuid()).collect();
    let stored_keys: Vec<String> = keys.iter().map(|(_, key)| key.stored()).collect();
    // `CreditsCharged` stands right after its `LinkCreated`.
    let rows = sqlx::query_as!(
        CreateRow,
        r#"
        SELECT keys.ordinality AS "ordinality!", link.fingerprint AS "fingerprint!",
               link.payload::text AS "link!", link.metadata::text AS "metadata!",
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
            Ok((key, row.into_settled()?))
        })
        .collect()
}

/// A grant or an adjustment that had its effect.
#[derive(Debug, Clone)]
pub struct SettledCredits {
    /// Of the request that had the effect.
    pub fingerprint: Vec<u8>,
    /// The fact.
    pub event: CreditsEvent,
}

/// The credits event that stands under this stored key. The account must be locked.
///
/// # Errors
/// When the database does not answer, or holds what can't be read.
pub async fn find_credits_in_tx(
    tx: &mut PgConnection,
    account_id: AccountId,
    stored_key: &str,
) -> sqlx::Result<Option<SettledCredits>> {
    let row = sqlx::query!(
        r#"
        SELECT fingerprint AS "fingerprint!", type AS "event_type", schema_version,
               payload::text AS "payload!"
        FROM event_store.events
        WHERE shard = $1 AND account_id = $2 AND idempotency_key = $3
        "#,
        Shard::of(account_id).number(),
        account_id.uuid(),
        stored_key
    )
    .fetch_optional(tx)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let event = Event::from_stored(&row.event_type, row.schema_version, &row.payload);
    match event.map_err(|error| sqlx::Error::Decode(error.into()))? {
        Event::Credits(event) => Ok(Some(SettledCredits {
            fingerprint: row.fingerprint,
            event,
        })),
        Event::Link(_) | Event::Account(_) => Err(sqlx::Error::Decode(
            format!("`{stored_key}` is the key of a {}", row.event_type).into(),
        )),
    }
}

struct CreateRow {
    ordinality: i64,
    fingerprint: Vec<u8>,
    link: String,
    metadata: String,
    charge: String,
    position: i64,
    created_at: OffsetDateTime,
}

impl CreateRow {
    fn into_settled(self) -> sqlx::Result<SettledCreate> {
        fn read<T: serde::de::DeserializeOwned>(text: &str) -> sqlx::Result<T> {
            serde_json::from_str(text).map_err(|error| sqlx::Error::Decode(error.into()))
        }
        let metadata: Metadata = read(&self.metadata)?;
        let fingerprint = self.fingerprint.try_into();
        Ok(SettledCreate {
            fingerprint: fingerprint
                .map_err(|_| sqlx::Error::Decode("a fingerprint has 32 bytes".into()))?,
            link: read(&self.link)?,
            charge: read(&self.charge)?,
            created_at: self.created_at,
            renderer: metadata
                .renderer
                .ok_or_else(|| sqlx::Error::Decode("LinkCreated names no renderer".into()))?,
            position: self.position,
        })
    }
}
