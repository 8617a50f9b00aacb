//! Old changes are deleted in small batches.

use linkledger_projector::pipeline::redirect_changes::{PRUNED_MAX, prune};
use linkledger_testing::eventually;
use sqlx::PgPool;

use crate::{cache_changes::numbers, fixture::Fixture};

/// Inserts changes under the next numbers; `age` is an SQL interval.
async fn insert_changes(pool: &PgPool, count: u16, age: &str) {
    sqlx::query(
        "INSERT INTO read_model.redirect_changes (number, slug_key, changed_at)
         SELECT (SELECT coalesce(max(number), 0) FROM read_model.redirect_changes) + n, 'slug',
                now() - $2::interval
         FROM generate_series(1, $1) AS n",
    )
    .bind(i32::from(count))
    .bind(age)
    .execute(pool)
    .await
    .unwrap();
}

#[tokio::test]
async fn pruning_deletes_lowest_numbers_in_bounded_batches() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    assert_eq!(prune(pool).await.unwrap(), 0);
    insert_changes(pool, PRUNED_MAX + 5, "11 minutes").await;
    insert_changes(pool, 2, "9 minutes").await;
    // The clock was set back: no number above a kept change is deleted.
    insert_changes(pool, 2, "11 minutes").await;
    assert_eq!(prune(pool).await.unwrap(), u64::from(PRUNED_MAX));
    assert_eq!(prune(pool).await.unwrap(), 5);
    assert_eq!(prune(pool).await.unwrap(), 0);
    let first_kept = i64::from(PRUNED_MAX) + 6;
    assert_eq!(
        numbers(pool).await,
        (first_kept..first_kept + 4).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn projector_prunes_all_but_newest_change() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    insert_changes(pool, 2 * PRUNED_MAX + 1, "1 day").await;
    let projector = fixture.projector().await;
    let newest = 2 * i64::from(PRUNED_MAX) + 1;
    eventually("only the newest change is left", async || {
        (numbers(pool).await == [newest]).then_some(())
    })
    .await;
    projector.stop().await;
    assert_eq!(prune(pool).await.unwrap(), 0);
}
