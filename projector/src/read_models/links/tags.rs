//! Table `read_model.link_tags`: follows the tags in `read_model.links`, in the same transaction.

use linkledger_core::link::{LinkState, Tags};
use sqlx::PgConnection;
use uuid::Uuid;

use super::projection::Key;

/// Tags of links after a batch, as columns for `unnest`.
#[derive(Debug, Default)]
pub(super) struct LinkTags {
    /// Links that may have a row, with their tags after the batch.
    may_have_row: Columns,
    /// Links that have tags.
    tagged: Columns,
}

#[derive(Debug, Default)]
struct Columns {
    generations: Vec<i32>,
    account_ids: Vec<Uuid>,
    link_ids: Vec<Uuid>,
    /// Tags separated by commas, which no tag contains.
    tags: Vec<String>,
}

impl Columns {
    fn push(&mut self, (generation, account_id, link_id): Key, tags: String) {
        self.generations.push(generation);
        self.account_ids.push(account_id);
        self.link_ids.push(link_id);
        self.tags.push(tags);
    }
}

impl LinkTags {
    /// Adds a link; `is_insert` is true if the link has no row yet.
    pub(super) fn push(&mut self, key: Key, state: &LinkState, is_insert: bool) {
        let tags = state.details.tags.as_ref().filter(|_| !state.deleted);
        let tags = tags.map_or(&[][..], Tags::as_slice).join(",");
        if !tags.is_empty() {
            self.tagged.push(key, tags.clone());
        }
        if !is_insert {
            self.may_have_row.push(key, tags);
        }
    }

    /// Deletes the rows of the tags that links lose. To call before the rows of the links are written,
    /// which have their earlier tags.
    pub(super) async fn delete_in_tx(&self, tx: &mut PgConnection) -> sqlx::Result<()> {
        if self.may_have_row.link_ids.is_empty() {
            return Ok(());
        }
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
            &self.may_have_row.generations,
            &self.may_have_row.account_ids,
            &self.may_have_row.link_ids,
            &self.may_have_row.tags
        )
        .execute(tx)
        .await?;
        Ok(())
    }

    /// Inserts the missing rows of the tags that links have.
    pub(super) async fn insert_in_tx(&self, tx: &mut PgConnection) -> sqlx::Result<()> {
        if self.tagged.link_ids.is_empty() {
            return Ok(());
        }
        sqlx::query!(
            "
            INSERT INTO read_model.link_tags (generation, account_id, tag, link_id)
            SELECT generation, account_id, tag, link_id
            FROM unnest($1::integer[], $2::uuid[], $3::uuid[], $4::text[])
                AS later (generation, account_id, link_id, tags)
            CROSS JOIN LATERAL unnest(string_to_array(later.tags, ',')) AS tag
            ON CONFLICT (generation, account_id, tag, link_id) DO NOTHING
            ",
            &self.tagged.generations,
            &self.tagged.account_ids,
            &self.tagged.link_ids,
            &self.tagged.tags
        )
        .execute(tx)
        .await?;
        Ok(())
    }
}
