//! Verification reads by key, also with plans that were made while the tables were empty.

use linkledger_projector::operations::verify;
use sqlx::PgPool;

use super::TARGETS;
use crate::{
    plans::{LARGE, end, fill, measured, reads},
    stage::Stage,
};

/// Maximum number of index entries read for each event and its rows in five tables: some
/// look-ups for each of three projections, and one for each stopped account in each of sixteen
/// shards.
const ENTRIES_PER_EVENT_MAX: i64 = 70;

async fn verify_all(pool: &PgPool) -> u64 {
    let mut events = 0;
    for target in TARGETS {
        let verified = verify::verify_generation(pool, target, &|_| ())
            .await
            .unwrap();
        events += verified.events;
    }
    events
}

#[tokio::test]
async fn plans_of_empty_tables_use_keys_later() {
    let stage = Stage::set().await;
    let session = measured(&stage);
    assert_eq!(verify_all(&session).await, 0);
    fill(stage.database.pool(), LARGE).await;
    let before = reads(stage.database.pool()).await;
    assert_eq!(
        verify_all(&session).await,
        3 * u64::from(LARGE.unsigned_abs())
    );
    end(&stage, session).await;
    let after = reads(stage.database.pool()).await;
    assert_eq!(after.0 - before.0, 0, "rows read without an index");
    let entries = after.1 - before.1;
    let events = i64::from(LARGE);
    assert!(
        (events..ENTRIES_PER_EVENT_MAX * events).contains(&entries),
        "{entries} entries"
    );
}

/// More than a page of entries.
const LINKS: usize = 6_000;

#[tokio::test]
async fn statistics_of_one_large_account_keep_reads_linear() {
    let stage = Stage::set().await;
    stage.account_with_links("large", LINKS).await;
    let log = stage.log().await;
    stage.engine().cycle(log.clone()).await.unwrap();
    sqlx::query("ANALYZE")
        .execute(stage.database.pool())
        .await
        .unwrap();
    let before = reads(stage.database.pool()).await;
    let session = measured(&stage);
    let events = log.len() as u64;
    assert_eq!(verify_all(&session).await, 3 * events);
    end(&stage, session).await;
    let (_, entries) = reads(stage.database.pool()).await;
    let entries = (entries - before.1).unsigned_abs();
    assert!(
        entries < ENTRIES_PER_EVENT_MAX.unsigned_abs() * events,
        "{entries} entries"
    );
}
