//! Links according to the log: the first and the last event of a stream describe the whole link.

use std::collections::HashMap;

use serde_json::Value;
use sqlx::{PgConnection, PgPool, types::Json};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{decode, unreadable};
use crate::{
    batch::SettledLink,
    event::Event,
    id::{AccountId, LinkId},
    link::{ExistingLink, LinkCreated, LinkEvent, LinkState},
    shard::Shard,
};

/// Loads the links that exist in the given accounts, including deleted links.
///
/// Must be a separate statement after the accounts are locked: only a new snapshot sees the commits
/// that happened while the lock was waited for.
///
/// # Errors
/// Returns an error if the database fails. Also returns an error if a later release
/// created or changed a link in a way that this release does not know: no decision may be based on
/// a guess of the link's state.
pub async fn load_in_tx(
    tx: &mut PgConnection,
    links: &[(AccountId, LinkId)],
) -> sqlx::Result<HashMap<(AccountId, LinkId), SettledLink>> {
    if links.is_empty() {
        return Ok(HashMap::new());
    }
    let shards: Vec<i16> = links
        .iter()
        .map(|(account, _)| Shard::of(*account).number())
        .collect();
    let accounts: Vec<Uuid> = links.iter().map(|(account, _)| account.uuid()).collect();
    let link_ids: Vec<Uuid> = links.iter().map(|(_, link)| link.uuid()).collect();
    let rows = sqlx::query_as!(
        LinkRow,
        r#"
        SELECT first.stream_id AS "link_id!", first.type AS "first_type!",
               first.schema_version AS "first_schema_version!",
               first.payload::text AS "first_payload!", first.recorded_at AS "created_at!",
               last.version AS "version!", last.position AS "position!", last.type AS "last_type!",
               last.schema_version AS "last_schema_version!",
               last.payload::text AS "last_payload!", last.metadata AS "metadata!: Json<Value>"
        FROM unnest($1::smallint[], $2::uuid[], $3::uuid[])
            AS wanted (shard, account_id, link_id)
        -- Not a plain join: planned while there are no events, it would read all beginnings.
        CROSS JOIN LATERAL (
            SELECT account_id, stream_id, type, schema_version, payload, recorded_at
            FROM event_store.events
            WHERE shard = wanted.shard AND stream_id = wanted.link_id
            ORDER BY version
            LIMIT 1
        ) AS first
        CROSS JOIN LATERAL (
            SELECT version, position, type, schema_version, payload, metadata
            FROM event_store.events
            WHERE shard = wanted.shard AND stream_id = wanted.link_id
            ORDER BY version DESC
            LIMIT 1
        ) AS last
        WHERE first.account_id = wanted.account_id
          -- The account's own stream is not a link.
          AND first.stream_id <> first.account_id
        "#,
        &shards,
        &accounts,
        &link_ids
    )
    .fetch_all(tx)
    .await?;
    rows.into_iter()
        .map(|row| {
            let link_id = LinkId::from_uuid(row.link_id);
            let entry = row.into_entry();
            entry.map_err(|source| unreadable(UnreadableLink { link_id, source }))
        })
        .collect()
}

/// Finds the account of a link in any shard. One look-up for each shard: meant for operators, not
/// for requests.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find_owner(pool: &PgPool, link_id: LinkId) -> sqlx::Result<Option<AccountId>> {
    let shards: Vec<i16> = Shard::all().map(Shard::number).collect();
    let owner = sqlx::query_scalar!(
        "
        SELECT account_id FROM event_store.events
        WHERE shard = ANY($1) AND stream_id = $2 AND version = 1
          -- The account's own stream is not a link.
          AND stream_id <> account_id
        ",
        &shards,
        link_id.uuid()
    )
    .fetch_optional(pool)
    .await?;
    Ok(owner.map(AccountId::from_uuid))
}

/// Adds the id of the link to the error, for the log.
#[derive(Debug, thiserror::Error)]
#[error("link {link_id} cannot be read by this release")]
struct UnreadableLink {
    link_id: LinkId,
    source: sqlx::Error,
}

struct LinkRow {
    link_id: Uuid,
    first_type: String,
    first_schema_version: i16,
    first_payload: String,
    created_at: OffsetDateTime,
    version: i64,
    position: i64,
    last_type: String,
    last_schema_version: i16,
    last_payload: String,
    metadata: Json<Value>,
}

impl LinkRow {
    fn into_entry(self) -> sqlx::Result<((AccountId, LinkId), SettledLink)> {
        let created = self.created()?;
        let key = (created.account_id, created.link_id);
        let mut link = ExistingLink::new(created);
        if self.version > link.version {
            link.state = self.state()?;
            link.version = self.version;
        }
        let settled = SettledLink {
            link,
            created_at: self.created_at,
            position: self.position,
        };
        Ok((key, settled))
    }

    fn created(&self) -> sqlx::Result<LinkCreated> {
        let (event_type, schema_version) = (&self.first_type, self.first_schema_version);
        match decode(event_type, schema_version, &self.first_payload)? {
            Event::Link(LinkEvent::Created(created)) => Ok(created),
            Event::Link(_) | Event::Account(_) | Event::Credits(_) => Err(unreadable(format!(
                "the stream of a link begins with `{event_type}`"
            ))),
        }
    }

    /// Returns the state of the link after its last event. Unknown members of a later release are
    /// an error: such members could change the decision, and the next event would lose their
    /// values.
    fn state(&self) -> sqlx::Result<LinkState> {
        decode(
            &self.last_type,
            self.last_schema_version,
            &self.last_payload,
        )?;
        let kept = &self.metadata.0["link"];
        let state: LinkState = serde_json::from_value(kept.clone()).map_err(unreadable)?;
        let known = serde_json::to_value(&state).map_err(unreadable)?;
        let members = kept.as_object().into_iter().flatten();
        match members
            .into_iter()
            .find(|(name, _)| known.get(name).is_none())
        {
            None => Ok(state),
            Some((name, _)) => Err(unreadable(format!(
                "the last event, `{}`, keeps `{name}` of the link, which this release does not know",
                self.last_type
            ))),
        }
    }
}
