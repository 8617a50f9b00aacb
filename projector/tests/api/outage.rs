//! Transient failures.

use linkledger_projector::pipeline::{parking::listing, retry};
use sqlx::raw_sql;

use crate::{stage::Stage, tables::Tables};

#[tokio::test]
async fn projector_survives_loss_of_its_sessions() {
    let stage = Stage::set().await;
    let account_id = stage.account_with_links("before", 10).await;
    let projector = stage.projector("group").await;
    for name in ["during", "later", "last"] {
        let published = stage.log().await.len();
        stage.append_links(account_id, name, 10).await;
        stage.publish(&stage.log().await[published..]).await;
        sqlx::query!(
            "
            SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name <> 'test'
            "
        )
        .fetch_one(stage.database.pool())
        .await
        .unwrap();
    }
    stage.eventually_complete().await;
    projector.stop().await;
}

#[tokio::test]
async fn missing_partition_is_retried_and_parks_nobody() {
    let stage = Stage::set().await;
    let pool = stage.database.pool();
    stage.account_with_links("any", 3).await;
    let log = stage.log().await;
    let mut engine = stage.engine();
    raw_sql("ALTER TABLE read_model.links DETACH PARTITION read_model.links_1")
        .execute(pool)
        .await
        .unwrap();
    let error = engine.cycle(log.clone()).await.unwrap_err();
    assert!(retry::passes_by_itself(&error), "{error:#}");
    let message = format!("{error:#}");
    assert!(message.contains("no partition of relation"), "{message}");
    assert!(listing::list(pool, None, 10).await.unwrap().is_empty());

    raw_sql("ALTER TABLE read_model.links ATTACH PARTITION read_model.links_1 FOR VALUES IN (1)")
        .execute(pool)
        .await
        .unwrap();
    engine.cycle(Vec::new()).await.unwrap();
    assert_eq!(Tables::read(pool).await, Tables::of_log(&log));
}
