//! A Postgres server that accepts no writes for a while, as a demoted primary does: every service
//! continues by itself.

use std::time::Duration;

use linkledger_core::clock::{Clock as _, SystemClock, new_uuid};
use linkledger_event_store::SessionKind;
use linkledger_testing::{eventually, eventually_within};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool};

use crate::{
    http::Http,
    process::{Stack, data_folder},
};

const CREATES: usize = 5;
/// Timeout until the relay has published and the projector has applied all events.
const CATCH_UP_TIME_MAX: Duration = Duration::from_mins(5);

async fn set_read_only(pool: &PgPool, value: &str) {
    for sql in [
        format!("ALTER SYSTEM SET default_transaction_read_only = {value}"),
        "SELECT pg_reload_conf()".to_owned(),
    ] {
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(pool)
            .await
            .unwrap();
    }
    eventually("sessions have the setting", async || {
        let shown = sqlx::query_scalar("SHOW default_transaction_read_only");
        let shown: String = shown.fetch_one(pool).await.unwrap();
        (shown == value).then_some(())
    })
    .await;
}

/// Keys and bodies of creates.
fn creates() -> Vec<(String, Value)> {
    let create = |nth| {
        let key = new_uuid(SystemClock.now()).to_string();
        (
            key,
            json!({ "destination_url": format!("https://example.com/{nth}") }),
        )
    };
    (0..CREATES).map(create).collect()
}

async fn assert_created(http: &Http, creates: &[(String, Value)]) {
    for (key, body) in creates {
        let answer = http.create(key, body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }
}

#[tokio::test]
async fn services_continue_after_read_only_server() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &[]);
    let http = stack.http();
    let url = &stack.environment()["DATABASE_URL"];
    let pool = linkledger_event_store::pool(url, SessionKind::Reader, 1).unwrap();
    let (before, during, after) = (creates(), creates(), creates());
    assert_created(&http, &before).await;
    eventually("all links are listed", async || {
        (http.list_all().await.len() == CREATES).then_some(())
    })
    .await;

    set_read_only(&pool, "on").await;
    for (key, body) in &during {
        let headers = [("idempotency-key", key.as_str())];
        let answer = http.try_post("/v1/links", &headers, body).await.unwrap();
        assert_eq!(answer.status, 503, "{answer:?}");
        assert_eq!(answer.header("retry-after"), "1");
    }
    assert_eq!(http.list_all().await.len(), CREATES);
    set_read_only(&pool, "off").await;

    assert_created(&http, &during).await;
    assert_created(&http, &after).await;
    eventually_within(
        CATCH_UP_TIME_MAX,
        "all is published and applied",
        async || {
            let published =
                "SELECT bool_and(c.position = s.head) FROM event_store.relay_cursors AS c
                         JOIN event_store.log_shards AS s USING (shard)";
            let published: bool = sqlx::query_scalar(published)
                .fetch_one(&pool)
                .await
                .unwrap();
            (published && http.list_all().await.len() >= 3 * CREATES).then_some(())
        },
    )
    .await;
    assert_eq!(http.list_all().await.len(), 3 * CREATES);
    let events = "SELECT count(*) FROM event_store.events WHERE type = 'CreditsCharged'";
    let charged: i64 = sqlx::query_scalar(events).fetch_one(&pool).await.unwrap();
    assert_eq!(usize::try_from(charged), Ok(3 * CREATES));
    assert_eq!(stack.interrupt(), Some(0));
}
