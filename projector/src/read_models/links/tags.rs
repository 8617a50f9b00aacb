//! Table `read_model.link_tags`: follows the tags in `read_model.links`, in the same transaction.

use linkledger_core::link::{LinkState, Tags};
use sqlx::PgConnection;
use uuid::Uuid;

use super::projection::Key;

/// Deletes the rows of the tags that links lose, which may have a row. To call before the rows of the links are
/// written, which have their earlier tags.
pub(super) async fn delete_in_tx(
    tx: &mut PgConnection,
    links: &[(Key, &LinkState)],
) -> sqlx::Result<()> {
    if links.is_empty() {
        return Ok(());
    }
    let generations: Vec<i32> = links.iter().map(|(key, _)| key.0).collect();
    let account_ids: Vec<Uuid> = links.iter().map(|(key, _)| key.1).collect();
    let link_ids: Vec<Uuid> = links.iter().map(|(key, _)| key.2).collect();
    let tags: Vec<String> = links.iter().map(|(_, state)| tags_of(state)).collect();
    sqlx::query!(
        "
        DELETE FROM read_model.link_tags AS t
        USING (
            SELECT l.generation, l.account_id, tag, l.link_id
            FROM unnest($1::integer[], $2::uuid[], $3::uuid[], $4::text[])
                AS later (generation, account_id, link_id, tags)
            JOIN read_model.links AS l
              ON l.generation = later.generation AND l.account_id = later.account_id
             AND l.link_id = later.link_id
            CROSS JOIN LATERAL unnest(l.tags) AS tag
            WHERE tag <> ALL (string_to_array(later.tags, ','))
        ) AS gone
        WHERE t.generation = gone.generation AND t.account_id = gone.account_id
          AND t.tag = gone.tag AND t.link_id = gone.link_id
        ",
        &generations,
        &account_ids,
        &link_ids,
        &tags
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Inserts the missing rows of the tags that links have.
pub(super) async fn insert_in_tx(
    tx: &mut PgConnection,
    links: &[(Key, &LinkState)],
) -> sqlx::Result<()> {
    let links = links.iter().map(|(key, state)| (*key, tags_of(state)));
    let tagged = links.filter(|(_, tags)| !tags.is_empty());
    let (keys, tags): (Vec<Key>, Vec<String>) = tagged.unzip();
    if keys.is_empty() {
        return Ok(());
    }
    let generations: Vec<i32> = keys.iter().map(|key| key.0).collect();
    let account_ids: Vec<Uuid> = keys.iter().map(|key| key.1).collect();
    let link_ids: Vec<Uuid> = keys.iter().map(|key| key.2).collect();
    sqlx::query!(
        "
        INSERT INTO read_model.link_tags (generation, account_id, tag, link_id)
        SELECT generation, account_id, tag, link_id
        FROM unnest($1::integer[], $2::uuid[], $3::uuid[], $4::text[])
            AS later (generation, account_id, link_id, tags)
        CROSS JOIN LATERAL unnest(string_to_array(later.tags, ',')) AS tag
        ON CONFLICT (generation, account_id, tag, link_id) DO NOTHING
        ",
        &generations,
        &account_ids,
        &link_ids,
        &tags
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Returns the tags of a link, separated by commas, which no tag contains; none of a deleted link.
fn tags_of(state: &LinkState) -> String {
    let tags = state.details.tags.as_ref().filter(|_| !state.deleted);
    tags.map_or(&[][..], Tags::as_slice).join(",")
}
