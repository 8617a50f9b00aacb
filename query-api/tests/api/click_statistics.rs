//! Clicks over time, of a link and of an account.

use linkledger_core::{api_key::Scope, commands::CreateResult};
use linkledger_event_store::transaction::PoolTransaction;
use linkledger_testing as testing;
use serde_json::{Value, json};
use time::{
    Date, OffsetDateTime,
    macros::{date, datetime},
};

use crate::{
    click_statistics_tables::{
        Row, create_partitions, delete, insert_account_day, insert_link_day, insert_slot,
    },
    read_tables::unused_link_id,
    service::{TestCaller, TestService},
};

/// A service with a link, whose clock shows 2026-11-20T09:51:00Z.
pub(crate) struct ClickFixture {
    pub(crate) service: TestService,
    pub(crate) caller: TestCaller,
    pub(crate) link: CreateResult,
}

impl ClickFixture {
    pub(crate) async fn new() -> Self {
        let service = TestService::start().await;
        create_partitions(service.pool()).await;
        let caller = service.caller().await;
        let link = service.append_link(&caller, "spring").await;
        Self {
            service,
            caller,
            link,
        }
    }

    async fn slot(&self, slot: OffsetDateTime, clicks: i64) {
        let row = Row {
            clicks,
            bots: 1,
            ..Row::default()
        };
        let (account_id, link_id) = (self.caller.account_id, self.link.link.link_id);
        insert_slot(self.service.pool(), account_id, link_id, slot, row).await;
    }

    async fn link_day(&self, day: Date, clicks: i64, visitors: &[u64]) {
        let row = Row {
            clicks,
            bots: 1,
            visitors,
        };
        let (account_id, link_id) = (self.caller.account_id, self.link.link.link_id);
        insert_link_day(self.service.pool(), account_id, link_id, day, row).await;
    }

    async fn account_day(&self, day: Date, partition: i16, visitors: &[u64]) {
        let row = Row {
            clicks: 2,
            bots: 1,
            visitors,
        };
        let account_id = self.caller.account_id;
        insert_account_day(self.service.pool(), account_id, day, partition, row).await;
    }

    fn path(&self, query: &str) -> String {
        format!("/v1/links/{}/clicks{query}", self.link.link.link_id)
    }

    async fn of_link(&self, query: &str) -> Value {
        let answer = self.service.get(&self.caller, &self.path(query)).await;
        assert_eq!(answer.status, 200, "{query}: {}", answer.body);
        answer.json()
    }

    async fn of_account(&self, query: &str) -> Value {
        let path = format!("/v1/clicks{query}");
        let answer = self.service.get(&self.caller, &path).await;
        assert_eq!(answer.status, 200, "{query}: {}", answer.body);
        answer.json()
    }
}

/// Buckets with clicks: begin, clicks, bots, visitors.
fn filled(body: &Value) -> Value {
    let series = body["series"].as_array().unwrap().iter();
    let filled = series.filter(|bucket| bucket["clicks"] != 0);
    let cells = ["start", "clicks", "bots", "visitors"];
    filled
        .map(|bucket| json!(cells.map(|name| bucket[name].clone())))
        .collect()
}

#[tokio::test]
async fn link_clicks_have_every_bucket_with_zeros() {
    let fixture = ClickFixture::new().await;
    fixture.link_day(date!(2026 - 11 - 18), 5, &[1, 2, 3]).await;
    fixture.link_day(date!(2026 - 11 - 20), 2, &[1]).await;
    // Outside of the range.
    fixture.link_day(date!(2026 - 10 - 21), 9, &[7]).await;
    let mut body = fixture.of_link("").await;
    let series = body["series"].as_array().unwrap();
    assert_eq!(series.len(), 30);
    let empty = json!({
        "start": "2026-10-22T00:00:00.000Z", "clicks": 0, "bots": 0, "visitors": 0,
    });
    assert_eq!(series[0], empty);
    assert_eq!(
        filled(&body),
        json!([
            ["2026-11-18T00:00:00.000Z", 5, 1, 3],
            ["2026-11-20T00:00:00.000Z", 2, 1, 1]
        ])
    );
    body["series"] = json!([]);
    assert!(body["complete_until"].take().is_string());
    assert_eq!(
        body,
        json!({
            "link_id": fixture.link.link.link_id.to_string(),
            "interval": "day", "timezone": "UTC",
            "from": "2026-10-22T00:00:00.000Z", "to": "2026-11-21T00:00:00.000Z",
            "complete_until": null,
            "totals": { "clicks": 7, "bots": 2, "visitors": 4 },
            "series": [],
        })
    );
}

#[tokio::test]
async fn account_visitors_are_united_over_partitions() {
    let fixture = ClickFixture::new().await;
    let day = date!(2026 - 11 - 18);
    for (partition, visitors) in [(0, &[1, 2][..]), (5, &[2, 3]), (15, &[])] {
        fixture.account_day(day, partition, visitors).await;
    }
    fixture.account_day(date!(2026 - 11 - 19), 5, &[2]).await;
    let body = fixture.of_account("?from=2026-11-18&to=2026-11-20").await;
    let days = json!([
        ["2026-11-18T00:00:00.000Z", 6, 3, 3],
        ["2026-11-19T00:00:00.000Z", 2, 1, 1]
    ]);
    assert_eq!(filled(&body), days);
    let totals = json!({ "clicks": 8, "bots": 4, "visitors": 4 });
    assert_eq!(body["totals"], totals);
    assert_eq!(body["link_id"], Value::Null);
    let weeks = fixture.of_account("?from=2026-11-18&interval=week").await;
    assert_eq!(
        filled(&weeks),
        json!([["2026-11-16T00:00:00.000Z", 8, 4, 4]])
    );
}

#[tokio::test]
async fn days_of_a_zone_are_summed_from_slots() {
    let fixture = ClickFixture::new().await;
    for (slot, clicks) in [
        // The last slot of 24 October in Berlin, and both ends of a day of 25 hours.
        (datetime!(2026-10-24 21:45 UTC), 1),
        (datetime!(2026-10-24 22:00 UTC), 2),
        (datetime!(2026-10-25 22:45 UTC), 4),
        (datetime!(2026-10-25 23:00 UTC), 8),
    ] {
        fixture.slot(slot, clicks).await;
    }
    fixture.link_day(date!(2026 - 10 - 24), 3, &[1, 2]).await;
    fixture.link_day(date!(2026 - 10 - 25), 12, &[1]).await;
    let query = "?from=2026-10-24&to=2026-10-27&timezone=Europe/Berlin";
    let berlin = fixture.of_link(query).await;
    assert_eq!(
        filled(&berlin),
        json!([
            ["2026-10-23T22:00:00.000Z", 1, 1, 2],
            ["2026-10-24T22:00:00.000Z", 6, 2, 1],
            ["2026-10-25T23:00:00.000Z", 8, 1, 0]
        ])
    );
    let totals = json!({ "clicks": 15, "bots": 4, "visitors": 3 });
    assert_eq!(berlin["totals"], totals);
    let query = "?from=2026-10-24&to=2026-10-27&timezone=Asia/Kolkata";
    let kolkata = fixture.of_link(query).await;
    assert_eq!(
        filled(&kolkata),
        json!([
            ["2026-10-24T18:30:00.000Z", 3, 2, 1],
            ["2026-10-25T18:30:00.000Z", 12, 2, 0]
        ])
    );
    let query = "?from=2026-10-24&to=2026-11-03&timezone=america/new_york";
    let new_york = fixture.of_link(query).await;
    assert_eq!(new_york["timezone"], "America/New_York");
    assert_eq!(new_york["totals"]["clicks"], 15);
    let starts = new_york["series"].as_array().unwrap();
    assert_eq!(starts[8]["start"], "2026-11-01T04:00:00.000Z");
    assert_eq!(starts[9]["start"], "2026-11-02T05:00:00.000Z");
    let account = fixture.of_account(query).await;
    assert_eq!(account["totals"]["clicks"], 15);
}

#[tokio::test]
async fn hours_have_no_visitors_but_totals_have() {
    let fixture = ClickFixture::new().await;
    fixture.slot(datetime!(2026-11-18 22:45 UTC), 1).await;
    fixture.slot(datetime!(2026-11-18 23:15 UTC), 2).await;
    fixture.slot(datetime!(2026-11-19 00:00 UTC), 4).await;
    fixture.link_day(date!(2026 - 11 - 18), 3, &[1, 2]).await;
    fixture.link_day(date!(2026 - 11 - 19), 4, &[1, 3]).await;
    fixture.link_day(date!(2026 - 11 - 20), 4, &[4]).await;
    let query = "?interval=hour&from=2026-11-18T23:30:00Z&to=2026-11-19T00:01:00Z";
    let body = fixture.of_link(query).await;
    assert_eq!(
        body["series"],
        json!([
            { "start": "2026-11-18T23:00:00.000Z", "clicks": 2, "bots": 1, "visitors": null },
            { "start": "2026-11-19T00:00:00.000Z", "clicks": 4, "bots": 1, "visitors": null },
        ])
    );
    assert_eq!(
        body["totals"],
        json!({ "clicks": 6, "bots": 2, "visitors": 4 })
    );
}

#[tokio::test]
async fn days_before_kept_slots_are_utc_days() {
    let fixture = ClickFixture::new().await;
    // Slots are kept from 2026-08-22T00:00Z on; an older slot is about to be dropped.
    fixture.slot(datetime!(2026-08-21 23:45 UTC), 1).await;
    fixture.slot(datetime!(2026-08-22 22:00 UTC), 2).await;
    fixture.link_day(date!(2026 - 08 - 21), 5, &[1, 2]).await;
    fixture.link_day(date!(2026 - 08 - 22), 2, &[1]).await;
    let query = "?from=2026-08-21&to=2026-08-24&timezone=Europe/Berlin";
    let body = fixture.of_link(query).await;
    assert_eq!(body["utc_days_before"], "2026-08-22T22:00:00.000Z");
    assert_eq!(
        filled(&body),
        json!([
            ["2026-08-21T00:00:00.000Z", 5, 1, 2],
            ["2026-08-22T22:00:00.000Z", 2, 1, 0]
        ])
    );
    assert_eq!(body["totals"]["visitors"], 3);
    let utc = fixture.of_link("?from=2026-08-21&to=2026-08-24").await;
    assert_eq!(utc["utc_days_before"], Value::Null);
    assert_eq!(utc["totals"]["clicks"], 7);
}

#[tokio::test]
async fn range_without_statistics_gets_advice() {
    let fixture = ClickFixture::new().await;
    for (query, parameter, code, advice) in [
        (
            "?from=2026-11-20&to=2026-11-20",
            "from",
            "range_empty",
            "before to",
        ),
        (
            "?from=2024-01-01&to=2026-09-28",
            "interval",
            "too_many_buckets",
            "a longer interval",
        ),
        (
            "?interval=hour&from=2026-08-21T23:59:59Z",
            "from",
            "too_early",
            "2026-08-22T00:00:00.000Z",
        ),
        ("?from=yesterday", "from", "invalid_time", "2026-11-20"),
        ("?to=2026-02-30", "to", "invalid_time", "2026-11-20"),
        (
            "?interval=year",
            "interval",
            "unknown_value",
            "hour, day, week, month",
        ),
        (
            "?timezone=Berlin",
            "timezone",
            "unknown_timezone",
            "Europe/Berlin",
        ),
        (
            "?limit=1",
            "limit",
            "unknown_parameter",
            "from, to, interval, timezone",
        ),
    ] {
        for path in [fixture.path(query), format!("/v1/clicks{query}")] {
            let answer = fixture.service.get(&fixture.caller, &path).await;
            answer.assert_problem(400, "invalid_parameter");
            let error = &answer.json()["errors"][0];
            assert_eq!(
                (&error["parameter"], &error["code"]),
                (&json!(parameter), &json!(code))
            );
            let detail = error["detail"].as_str().unwrap();
            assert!(detail.contains(advice), "{detail}");
        }
    }
    let thousand = fixture.of_link("?from=2024-01-01&to=2026-09-27").await;
    assert_eq!(thousand["series"].as_array().unwrap().len(), 1_000);
}

#[tokio::test]
async fn deleted_link_keeps_its_clicks() {
    let fixture = ClickFixture::new().await;
    fixture.link_day(date!(2026 - 11 - 18), 5, &[1]).await;
    delete(fixture.service.pool(), &fixture.link).await;
    assert_eq!(fixture.of_link("").await["totals"]["clicks"], 5);
    let top = fixture
        .service
        .get(&fixture.caller, &fixture.path("/top"))
        .await;
    assert_eq!(top.status, 200, "{}", top.body);
}

#[tokio::test]
async fn foreign_and_unknown_links_have_no_clicks() {
    let fixture = ClickFixture::new().await;
    let other = fixture.service.caller().await;
    let unknown = format!("/v1/links/{}/clicks", unused_link_id());
    for path in [
        fixture.path(""),
        fixture.path("/top"),
        unknown,
        "/v1/links/x/clicks".to_owned(),
    ] {
        let answer = fixture.service.get(&other, &path).await;
        answer.assert_problem(404, "link_not_found");
    }
    fixture.account_day(date!(2026 - 11 - 18), 1, &[1]).await;
    let path = "/v1/clicks";
    let body = fixture.service.get(&other, path).await.json();
    assert_eq!(
        body["totals"],
        json!({ "clicks": 0, "bots": 0, "visitors": 0 })
    );
}

#[tokio::test]
async fn clicks_need_a_scope_of_their_own() {
    let fixture = ClickFixture::new().await;
    let others = [Scope::LinksWrite, Scope::LinksRead, Scope::CreditsRead];
    let account_id = fixture.caller.account_id;
    let key = testing::api_key(fixture.service.pool(), account_id, &others).await;
    let caller = TestCaller { account_id, key };
    let answer = fixture.service.get(&caller, "/v1/clicks").await;
    answer.assert_problem(403, "insufficient_scope");
    assert_eq!(
        answer.json()["required_scopes"],
        json!(["link:clicks.read"])
    );
}

/// Records a heartbeat of a living recorder, with 3 clicks in the first partition.
const HEARTBEAT: &str = "
    UPDATE clicks.positions SET read_to_end_at = '2026-11-20T08:00:00Z';
    WITH recorder AS (
        INSERT INTO clicks.recorders VALUES (gen_random_uuid(), '2026-11-20T08:00:00Z')
        RETURNING recorder_id
    ), counted AS (
        INSERT INTO clicks.sequences SELECT 0, recorder_id, 3, 0, now() FROM recorder
    )
    INSERT INTO clicks.heartbeats
    SELECT recorder_id, '2026-11-20T09:00:00.123Z', array_fill(0, ARRAY[16])::bigint[]
    FROM recorder";

#[tokio::test]
async fn statistics_are_complete_until_uncounted_clicks() {
    let fixture = ClickFixture::new().await;
    let pool = fixture.service.pool();
    sqlx::raw_sql(HEARTBEAT).execute(pool).await.unwrap();
    let until = async |path: String| {
        let body = fixture.service.get(&fixture.caller, &path).await.json();
        body["complete_until"].as_str().unwrap().to_owned()
    };
    let counted = "2026-11-20T09:00:00.123Z";
    let started = "2026-11-20T08:00:00.000Z";
    // 3 clicks are counted.
    for (recorded, expected) in [(0_i64, counted), (3, counted), (4, started)] {
        sqlx::query("UPDATE clicks.heartbeats SET sequences[1] = $1")
            .bind(recorded)
            .execute(pool)
            .await
            .unwrap();
        for path in [
            fixture.path(""),
            fixture.path("/top"),
            "/v1/clicks/top-links".to_owned(),
            "/v1/clicks/top".to_owned(),
        ] {
            assert_eq!(until(path).await, expected);
        }
    }
}

/// Waits until a session of the service waits for a lock.
async fn until_blocked(fixture: &ClickFixture) {
    testing::eventually("a read of statistics waits for the lock", async || {
        let waiting: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock'
               AND query LIKE '%clicks.link_days%'",
        )
        .fetch_one(fixture.service.pool())
        .await
        .unwrap();
        (waiting > 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn statistics_and_completeness_are_of_one_snapshot() {
    let fixture = ClickFixture::new().await;
    sqlx::raw_sql(HEARTBEAT)
        .execute(fixture.service.pool())
        .await
        .unwrap();
    fixture.link_day(date!(2026 - 11 - 18), 5, &[1]).await;
    let mut aggregation = PoolTransaction::begin(fixture.service.pool())
        .await
        .unwrap();
    sqlx::raw_sql("LOCK TABLE clicks.link_days IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *aggregation)
        .await
        .unwrap();
    let (body, ()) = tokio::join!(fixture.of_link(""), async {
        until_blocked(&fixture).await;
        let change = "UPDATE clicks.link_days SET clicks = 50;
                      UPDATE clicks.heartbeats SET recorded_until = '2026-11-20T09:30:00Z'";
        sqlx::raw_sql(change)
            .execute(&mut *aggregation)
            .await
            .unwrap();
        aggregation.commit().await.unwrap();
    });
    assert_eq!(body["totals"]["clicks"], 5);
    assert_eq!(body["complete_until"], "2026-11-20T09:00:00.123Z");
    assert_eq!(fixture.of_link("").await["totals"]["clicks"], 50);
}

#[tokio::test]
async fn cancelled_read_advises_a_shorter_range() {
    let fixture = ClickFixture::new().await;
    let mut holder = PoolTransaction::begin(fixture.service.pool())
        .await
        .unwrap();
    sqlx::raw_sql("LOCK TABLE clicks.link_days IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *holder)
        .await
        .unwrap();
    let path = fixture.path("");
    let (answer, ()) = tokio::join!(fixture.service.get(&fixture.caller, &path), async {
        until_blocked(&fixture).await;
        // The statement timeout has the same SQLSTATE.
        let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
                      WHERE datname = current_database() AND wait_event_type = 'Lock'";
        sqlx::raw_sql(cancel)
            .execute(fixture.service.pool())
            .await
            .unwrap();
    });
    answer.assert_problem(503, "overloaded");
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("choose a shorter range"), "{detail}");
    // Other reads have other sessions.
    let credits = fixture.service.get(&fixture.caller, "/v1/credits").await;
    assert_eq!(credits.status, 200);
}

#[tokio::test]
async fn damaged_sketch_is_an_internal_error() {
    let fixture = ClickFixture::new().await;
    fixture.link_day(date!(2026 - 11 - 18), 5, &[1]).await;
    sqlx::raw_sql("UPDATE clicks.link_days SET visitors = '\\x01'")
        .execute(fixture.service.pool())
        .await
        .unwrap();
    let answer = fixture
        .service
        .get(&fixture.caller, &fixture.path(""))
        .await;
    answer.assert_problem(500, "internal_error");
    let by_link = "/v1/clicks/top-links";
    let answer = fixture.service.get(&fixture.caller, by_link).await;
    answer.assert_problem(500, "internal_error");
}
