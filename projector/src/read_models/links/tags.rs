//! Table `read_model.link_tags`: follows the tags in `read_model.links`, in the same transaction.

use sqlx::PgConnection;
use uuid::Uuid;

/// Links whose tags a batch changes, as columns for `unnest`.
#[derive(Debug, Default)]
pub(super) struct ChangedTags {
    generations: Vec<i32>,
    account_ids: Vec<Uuid>,
    link_ids: Vec<Uuid>,
}

impl ChangedTags {
    pub(super) fn push(&mut self, (generation, account_id, link_id): (i32, Uuid, Uuid)) {
        self.generations.push(generation);
        self.account_ids.push(account_id);
        self.link_ids.push(link_id);
    }

    /// Deletes the rows of the tags that the links have before their rows are written.
    pub(super) async fn delete_in_tx(&self, tx: &mut PgConnection) -> sqlx::Result<()> {
        if self.link_ids.is_empty() {
            return Ok(());
        }
        sqlx::query!(
            "
            DELETE FROM read_model.link_tags AS t
            USING (
                SELECT l.generation, l.account_id, tag, l.link_id
                FROM unnest($1::integer[], $2::uuid[], $3::uuid[])
                    AS changed (generation, account_id, link_id)
                JOIN read_model.links AS l
                  ON l.generation = changed.generation AND l.account_id = changed.account_id
                 AND l.link_id = changed.link_id
                CROSS JOIN LATERAL unnest(l.tags) AS tag
            ) AS gone
            WHERE t.generation = gone.generation AND t.account_id = gone.account_id
              AND t.tag = gone.tag AND t.link_id = gone.link_id
            ",
            &self.generations,
            &self.account_ids,
            &self.link_ids
        )
        .execute(tx)
        .await?;
        Ok(())
    }

    /// Inserts the rows of the tags that the links have after their rows were written.
    pub(super) async fn insert_in_tx(&self, tx: &mut PgConnection) -> sqlx::Result<()> {
        if self.link_ids.is_empty() {
            return Ok(());
        }
        sqlx::query!(
            "
            INSERT INTO read_model.link_tags (generation, account_id, tag, link_id)
            SELECT l.generation, l.account_id, tag, l.link_id
            FROM unnest($1::integer[], $2::uuid[], $3::uuid[])
                AS changed (generation, account_id, link_id)
            JOIN read_model.links AS l
              ON l.generation = changed.generation AND l.account_id = changed.account_id
             AND l.link_id = changed.link_id
            CROSS JOIN LATERAL unnest(l.tags) AS tag
            ON CONFLICT (generation, account_id, tag, link_id) DO NOTHING
            ",
            &self.generations,
            &self.account_ids,
            &self.link_ids
        )
        .execute(tx)
        .await?;
        Ok(())
    }
}
