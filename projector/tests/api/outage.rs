//! Transient failures.

use linkledger_projector::pipeline::{parking::listing, retry};
use sqlx::raw_sql;

use crate::{fixture::Fixture, tables::Tables};

#[tokio::test]
async fn projector_survives_loss_of_its_sessions() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("before", 10).await;
    let projector = fixture.projector().await;
    for name in ["during", "later", "last"] {
        let published = fixture.log().await.len();
        fixture.append_links(account_id, name, 10).await;
        fixture.publish(&fixture.log().await[published..]).await;
        sqlx::query!(
            "
            SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name <> 'test'
            "
        )
        .fetch_one(fixture.database.pool())
        .await
        .unwrap();
    }
    fixture.eventually_complete().await;
    projector.stop().await;
}

#[tokio::test]
async fn projector_without_broker_applies_events() {
    let fixture = Fixture::new().await;
    fixture.account_with_links("any", 10).await;
    let mut config = fixture.config();
    // No process listens here.
    config.kafka.brokers = "127.0.0.1:1".to_owned();
    let projector = fixture.projector_of(config).await;
    fixture.eventually_complete().await;
    projector.stop().await;
}

/// A server that was demoted to a standby answers writes with SQLSTATE 25006.
#[tokio::test]
async fn projector_waits_for_read_only_server() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let account_id = fixture.account_with_links("before", 3).await;
    let projector = fixture.projector().await;
    fixture.eventually_complete().await;
    let mut owner = pool.acquire().await.unwrap();
    let set = |value: &str| {
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!(
            "DO $$ BEGIN EXECUTE format(
                 'ALTER DATABASE %I SET default_transaction_read_only = {value}', current_database()
             ); END $$;
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name <> 'test'"
        )))
    };
    set("on").execute(&mut *owner).await.unwrap();
    // The log was appended to by a session that began before.
    fixture.append_links(account_id, "during", 3).await;
    fixture.publish(&fixture.log().await).await;
    set("off").execute(&mut *owner).await.unwrap();
    fixture.eventually_complete().await;
    projector.stop().await;
}

#[tokio::test]
async fn missing_partition_is_retried_and_parks_nobody() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    fixture.account_with_links("any", 3).await;
    let log = fixture.log().await;
    let mut followers = fixture.followers();
    raw_sql("ALTER TABLE read_model.links DETACH PARTITION read_model.links_1")
        .execute(pool)
        .await
        .unwrap();
    let error = followers.cycle(log.clone()).await.unwrap_err();
    assert!(retry::passes_by_itself(&error), "{error:#}");
    let message = format!("{error:#}");
    assert!(message.contains("no partition of relation"), "{message}");
    assert!(listing::list(pool, None, 10).await.unwrap().is_empty());

    raw_sql("ALTER TABLE read_model.links ATTACH PARTITION read_model.links_1 FOR VALUES IN (1)")
        .execute(pool)
        .await
        .unwrap();
    followers.cycle(Vec::new()).await.unwrap();
    assert_eq!(Tables::read(pool).await, Tables::of_log(&log));
}
