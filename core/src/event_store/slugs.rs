//! Reservation of slugs: inserted first, never checked first.

use std::collections::HashSet;

use sqlx::PgConnection;
use uuid::Uuid;

use crate::{id::LinkId, link::Slug, shard::Shard};

/// A slug that a batch asks for, and for which link.
#[derive(Debug, Clone)]
pub struct Reservation {
    /// The slug as given.
    pub slug: Slug,
    /// The shard of the link.
    pub shard: Shard,
    /// The link.
    pub link_id: LinkId,
}

/// Inserts the slugs that are free and returns their folded forms. Of two that fold to the same
/// form, the first is inserted.
///
/// # Errors
/// When the database does not answer.
pub async fn reserve_in_tx(
    tx: &mut PgConnection,
    reservations: &[Reservation],
) -> sqlx::Result<HashSet<String>> {
    let mut rows: Vec<(String, &Reservation)> = reservations
        .iter()
        .map(|reservation| (reservation.slug.folded(), reservation))
        .collect();
    // Sorted, or two batches that want the same slugs would deadlock.
    rows.sort_by(|(a, _), (b, _)| a.cmp(b));
    rows.dedup_by(|(a, _), (b, _)| a == b);
    let folded: Vec<String> = rows.iter().map(|(folded, _)| folded.clone()).collect();
    let slugs: Vec<String> = rows.iter().map(|(_, row)| row.slug.to_string()).collect();
    let shards: Vec<i16> = rows.iter().map(|(_, row)| row.shard.number()).collect();
    let link_ids: Vec<Uuid> = rows.iter().map(|(_, row)| row.link_id.uuid()).collect();
    let free = sqlx::query_scalar!(
        "
        INSERT INTO event_store.slugs (slug_folded, slug, shard, link_id)
        SELECT * FROM unnest($1::text[], $2::text[], $3::smallint[], $4::uuid[])
        ON CONFLICT (slug_folded) DO NOTHING
        RETURNING slug_folded
        ",
        &folded,
        &slugs,
        &shards,
        &link_ids
    )
    .fetch_all(tx)
    .await?;
    Ok(free.into_iter().collect())
}

/// Settles the reservations of this transaction: those that were taken name the link that took
/// them, those that nobody took are given back.
///
/// # Errors
/// When the database does not answer.
pub async fn settle_in_tx(
    tx: &mut PgConnection,
    taken: &[Reservation],
    unused: &[String],
) -> sqlx::Result<()> {
    if !unused.is_empty() {
        sqlx::query!(
            "DELETE FROM event_store.slugs WHERE slug_folded = ANY($1)",
            unused
        )
        .execute(&mut *tx)
        .await?;
    }
    if !taken.is_empty() {
        let folded: Vec<String> = taken.iter().map(|taken| taken.slug.folded()).collect();
        let slugs: Vec<String> = taken.iter().map(|taken| taken.slug.to_string()).collect();
        let shards: Vec<i16> = taken.iter().map(|taken| taken.shard.number()).collect();
        let link_ids: Vec<Uuid> = taken.iter().map(|taken| taken.link_id.uuid()).collect();
        sqlx::query!(
            "
            UPDATE event_store.slugs AS s
            SET slug = taken.slug, shard = taken.shard, link_id = taken.link_id
            FROM unnest($1::text[], $2::text[], $3::smallint[], $4::uuid[])
                AS taken (slug_folded, slug, shard, link_id)
            WHERE s.slug_folded = taken.slug_folded
            ",
            &folded,
            &slugs,
            &shards,
            &link_ids
        )
        .execute(tx)
        .await?;
    }
    Ok(())
}
