//! Projection `redirects`: where a slug leads to.

use linkledger_core::{link::Slug, shard::Shard};
use sqlx::PgPool;

use super::{Place, Seen};

/// Where a slug leads to.
pub(crate) async fn find(pool: &PgPool, slug: &Slug) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!(
        "
        SELECT destination_url FROM read_model.redirects
        WHERE generation = (
                  SELECT active_generation FROM read_model.projections
                  WHERE projection = 'redirects'
              )
          AND slug_folded = $1
        ",
        slug.folded()
    )
    .fetch_optional(pool)
    .await
}

/// Where a slug leads to, and how far the shard of its link is.
pub(crate) async fn find_of_shard(
    pool: &PgPool,
    slug: &Slug,
    shard: Shard,
) -> sqlx::Result<Seen<Option<String>>> {
    let row = sqlx::query!(
        r#"
        SELECT c.epoch, c.position, r.destination_url AS "destination_url?"
        FROM read_model.checkpoints AS c
        LEFT JOIN read_model.redirects AS r
               ON r.generation = c.generation AND r.slug_folded = $2
        WHERE c.projection = 'redirects' AND c.shard = $1
          AND c.generation = (
              SELECT active_generation FROM read_model.projections WHERE projection = 'redirects'
          )
        "#,
        shard.number(),
        slug.folded()
    )
    .fetch_one(pool)
    .await?;
    Ok(Seen {
        value: row.destination_url,
        checkpoint: Place {
            epoch: row.epoch,
            position: row.position,
        },
    })
}
