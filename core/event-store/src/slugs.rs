//! Reserves slugs: an insert decides, never a check before an insert.

use std::collections::{HashMap, HashSet};

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::{
    log::{LinkEndState, LinkExtent},
    unreadable,
};
use linkledger_core::{
    commands::SlugReservation,
    id::{AccountId, LinkId},
    link::Slug,
    shard::Shard,
};

/// Inserts the slugs that are free. Returns their keys, with the link that each is reserved
/// for. Of two slugs with the same key, the first is inserted.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn reserve_in_tx(
    tx: &mut PgConnection,
    reservations: &[SlugReservation],
) -> sqlx::Result<HashMap<String, LinkId>> {
    let mut rows: Vec<(String, &SlugReservation)> = reservations
        .iter()
        .map(|reservation| (reservation.slug.key(), reservation))
        .collect();
    // Sorted, because two commit groups with the same slugs could deadlock otherwise.
    rows.sort_by(|(a, _), (b, _)| a.cmp(b));
    rows.dedup_by(|(a, _), (b, _)| a == b);
    let slug_keys: Vec<String> = rows.iter().map(|(key, _)| key.clone()).collect();
    let slugs: Vec<String> = rows.iter().map(|(_, row)| row.slug.to_string()).collect();
    let shards: Vec<i16> = rows.iter().map(|(_, row)| row.shard.number()).collect();
    let link_ids: Vec<Uuid> = rows.iter().map(|(_, row)| row.link_id.uuid()).collect();
    let free = sqlx::query_scalar!(
        "
        INSERT INTO event_store.slugs (slug_key, slug, shard, link_id)
        SELECT * FROM unnest($1::text[], $2::text[], $3::smallint[], $4::uuid[])
        ON CONFLICT (slug_key) DO NOTHING
        RETURNING slug_key
        ",
        &slug_keys,
        &slugs,
        &shards,
        &link_ids
    )
    .fetch_all(tx)
    .await?;
    let free: HashSet<String> = free.into_iter().collect();
    let reserved = rows.into_iter().filter(|(key, _)| free.contains(key));
    Ok(reserved.map(|(key, row)| (key, row.link_id)).collect())
}

/// Releases slugs that the same transaction has reserved, and that no link uses.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn release_in_tx(tx: &mut PgConnection, slug_keys: &[String]) -> sqlx::Result<()> {
    sqlx::query!(
        "DELETE FROM event_store.slugs WHERE slug_key = ANY($1)",
        slug_keys
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Returns the lower-cased slugs that belong to a link.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find_taken_in_tx(
    tx: &mut PgConnection,
    slug_keys: &[String],
) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        "SELECT slug_key FROM event_store.slugs WHERE slug_key = ANY($1)",
        slug_keys
    )
    .fetch_all(tx)
    .await
}

/// The link with a slug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlugHolder {
    /// Id of the link.
    pub link_id: LinkId,
    /// Account that owns the link.
    pub account_id: AccountId,
    /// Shard of the link.
    pub shard: Shard,
    /// First position and final state of the link.
    pub extent: LinkExtent,
}

/// Finds the id of the link with a slug; `None` if the slug is free. Reads less than [`find_holder`].
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find_link(pool: &PgPool, slug: &Slug) -> sqlx::Result<Option<LinkId>> {
    let link_id = sqlx::query_scalar!(
        "SELECT link_id FROM event_store.slugs WHERE slug_key = $1",
        slug.key()
    )
    .fetch_optional(pool)
    .await?;
    Ok(link_id.map(LinkId::from_uuid))
}

/// Finds the link with a slug; `None` if the slug is free.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find_holder(pool: &PgPool, slug: &Slug) -> sqlx::Result<Option<SlugHolder>> {
    let mut holders = find_holders(pool, &[slug.key()]).await?;
    Ok(holders.remove(0))
}

/// Finds the link of each lower-cased slug, in the order of the slugs; `None` if a slug is free.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find_holders(
    pool: &PgPool,
    slug_keys: &[String],
) -> sqlx::Result<Vec<Option<SlugHolder>>> {
    let rows = sqlx::query!(
        r#"
        SELECT wanted.nth AS "nth!", s.link_id AS "link_id!", s.shard AS "shard!", (
            -- Not a join: planned on empty tables, that would walk all links of the shard.
            SELECT position FROM event_store.events
            WHERE shard = s.shard AND stream_id = s.link_id AND version = 1
        ) AS "created_at!", (
            SELECT account_id FROM event_store.events
            WHERE shard = s.shard AND stream_id = s.link_id AND version = 1
        ) AS "account_id!", (
            SELECT type FROM event_store.events
            WHERE shard = s.shard AND stream_id = s.link_id
            ORDER BY version DESC
            LIMIT 1
        ) AS "last_type!"
        FROM unnest($1::text[]) WITH ORDINALITY AS wanted (slug_key, nth)
        CROSS JOIN LATERAL (
            SELECT link_id, shard FROM event_store.slugs
            WHERE slug_key = wanted.slug_key
            LIMIT 1
        ) AS s
        "#,
        slug_keys
    )
    .fetch_all(pool)
    .await?;
    let mut holders = vec![None; slug_keys.len()];
    for row in rows {
        let shard = Shard::new(row.shard.into())
            .ok_or_else(|| unreadable(format!("no shard {}", row.shard)))?;
        let nth = usize::try_from(row.nth - 1).map_err(unreadable)?;
        holders[nth] = Some(SlugHolder {
            link_id: LinkId::from_uuid(row.link_id),
            account_id: AccountId::from_uuid(row.account_id),
            shard,
            extent: LinkExtent {
                created_at: row.created_at,
                end_state: LinkEndState::of_last_event(&row.last_type),
            },
        });
    }
    Ok(holders)
}

/// Returns the indexes of the slugs that do not belong to their link in this shard.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find_lost(
    pool: &PgPool,
    shard: Shard,
    slugs: &[(String, LinkId)],
) -> sqlx::Result<Vec<usize>> {
    let slug_keys: Vec<String> = slugs
        .iter()
        .map(|(slug, _)| slug.to_ascii_lowercase())
        .collect();
    let given: Vec<String> = slugs.iter().map(|(slug, _)| slug.clone()).collect();
    let link_ids: Vec<Uuid> = slugs.iter().map(|(_, link_id)| link_id.uuid()).collect();
    let lost = sqlx::query_scalar!(
        r#"
        SELECT wanted.nth AS "nth!"
        FROM unnest($1::text[], $2::text[], $3::uuid[])
            WITH ORDINALITY AS wanted (slug_key, slug, link_id, nth)
        LEFT JOIN event_store.slugs AS s ON s.slug_key = wanted.slug_key
        WHERE (s.slug, s.link_id, s.shard) IS DISTINCT FROM (wanted.slug, wanted.link_id, $4)
        "#,
        &slug_keys,
        &given,
        &link_ids,
        shard.number()
    )
    .fetch_all(pool)
    .await?;
    let index = |nth: i64| usize::try_from(nth - 1).ok();
    Ok(lost.into_iter().filter_map(index).collect())
}
