//! Most frequent values of clicks, and most clicked links.

use linkledger_clicks::Dimension;
use linkledger_core::id::LinkId;
use serde_json::{Value, json};
use time::macros::date;

use crate::{
    click_statistics::ClickFixture,
    click_statistics_tables::{Row, insert_account_value, insert_link_day, insert_link_value},
    read_tables::{insert_appended_link, link_id},
    service::SHORT_BASE_URL,
};

const FIRST: time::Date = date!(2026 - 11 - 18);
const SECOND: time::Date = date!(2026 - 11 - 19);

fn row(clicks: i64, visitors: &[u64]) -> Row<'_> {
    Row {
        clicks,
        bots: 0,
        visitors,
    }
}

async fn top(fixture: &ClickFixture, path: &str) -> Value {
    let answer = fixture.service.get(&fixture.caller, path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    let mut body = answer.json();
    assert!(body["complete_until"].is_string());
    body.as_object_mut().unwrap().remove("complete_until");
    body
}

#[tokio::test]
async fn top_values_of_a_link_are_ranked() {
    let fixture = ClickFixture::new().await;
    let link = (fixture.caller.account_id, fixture.link.link.link_id);
    let country = Dimension::Country;
    for (day, value, statistics) in [
        (FIRST, "DE", row(3, &[1, 2])),
        (SECOND, "DE", row(1, &[1])),
        (FIRST, "", row(5, &[7])),
        (FIRST, "FR", row(2, &[3])),
        (SECOND, "AT", row(2, &[])),
        (FIRST, "*", row(40, &[8])),
        (SECOND, "*", row(1, &[9])),
        // Outside of the range.
        (date!(2026 - 10 - 21), "US", row(99, &[9])),
    ] {
        insert_link_value(
            fixture.service.pool(),
            link,
            day,
            (country, value),
            statistics,
        )
        .await;
    }
    let host = (Dimension::ReferrerHost, "news.example");
    insert_link_value(fixture.service.pool(), link, FIRST, host, row(4, &[1])).await;
    let path = format!("/v1/links/{}/clicks/top", fixture.link.link.link_id);
    let no_value = json!({ "value": null, "clicks": 5, "visitors": 1 });
    let germany = json!({ "value": "DE", "clicks": 4, "visitors": 3 });
    assert_eq!(
        top(&fixture, &format!("{path}?by=country")).await,
        json!({
            "items": [
                no_value, germany,
                // Equal numbers are in the order of the values.
                { "value": "AT", "clicks": 2, "visitors": 0 },
                { "value": "FR", "clicks": 2, "visitors": 1 },
            ],
            "other": 41,
        })
    );
    assert_eq!(
        top(&fixture, &format!("{path}?limit=2")).await,
        json!({ "items": [no_value, germany], "other": 45 })
    );
    assert_eq!(
        top(
            &fixture,
            &format!("{path}?by=referrer_host&from=2026-11-18&to=2026-11-19")
        )
        .await,
        json!({ "items": [{ "value": "news.example", "clicks": 4, "visitors": 1 }], "other": 0 })
    );
    for dimension in ["browser", "os", "device"] {
        let none = top(&fixture, &format!("{path}?by={dimension}")).await;
        assert_eq!(none, json!({ "items": [], "other": 0 }));
    }
}

#[tokio::test]
async fn top_values_of_an_account_unite_partitions() {
    let fixture = ClickFixture::new().await;
    let account_id = fixture.caller.account_id;
    for (partition, day, value, statistics) in [
        (0, FIRST, "Chrome", row(2, &[1, 2])),
        (9, FIRST, "Chrome", row(3, &[2, 3])),
        (9, SECOND, "Chrome", row(1, &[1])),
        (9, FIRST, "Firefox", row(7, &[1])),
        (3, FIRST, "*", row(1, &[5])),
    ] {
        let value = (Dimension::Browser, value);
        let place = (account_id, partition);
        insert_account_value(fixture.service.pool(), place, day, value, statistics).await;
    }
    assert_eq!(
        top(&fixture, "/v1/clicks/top?by=browser&limit=2").await,
        json!({
            "items": [
                { "value": "Firefox", "clicks": 7, "visitors": 1 },
                { "value": "Chrome", "clicks": 6, "visitors": 4 },
            ],
            "other": 1,
        })
    );
}

#[tokio::test]
async fn top_links_show_addresses_unless_deleted() {
    let fixture = ClickFixture::new().await;
    let (pool, account_id) = (fixture.service.pool(), fixture.caller.account_id);
    insert_appended_link(pool, &fixture.link).await;
    let visible = fixture.link.link.link_id;
    let [deleted, same, bots] = [1, 2, 3].map(|order| link_id(1, order));
    let insert = async |link_id: LinkId, day, statistics| {
        insert_link_day(pool, account_id, link_id, day, statistics).await;
    };
    insert(visible, FIRST, row(3, &[1])).await;
    insert(visible, SECOND, row(4, &[1, 2])).await;
    insert(same, FIRST, row(2, &[])).await;
    insert(deleted, FIRST, row(2, &[5])).await;
    let only_bots = Row {
        bots: 9,
        ..Row::default()
    };
    insert(bots, FIRST, only_bots).await;
    let first = json!({
        "link_id": visible.to_string(),
        "short_url": format!("{SHORT_BASE_URL}/spring"),
        "destination_url": "https://example.com/spring",
        "clicks": 7,
        "visitors": 3,
    });
    let second = json!({
        "link_id": deleted.to_string(), "short_url": null, "destination_url": null,
        "clicks": 2, "visitors": 1,
    });
    let body = top(&fixture, "/v1/clicks/top-links").await;
    assert_eq!(body["items"][0], first);
    assert_eq!(body["items"][1], second);
    assert_eq!(body["items"][2]["link_id"], same.to_string());
    assert_eq!(body["items"].as_array().unwrap().len(), 3);
    assert_eq!(body["other"], 0);
    let body = top(&fixture, "/v1/clicks/top-links?limit=1").await;
    assert_eq!(body, json!({ "items": [first], "other": 4 }));
}

#[tokio::test]
async fn top_link_that_read_table_lacks_is_not_shown_as_deleted() {
    let fixture = ClickFixture::new().await;
    let (pool, account_id) = (fixture.service.pool(), fixture.caller.account_id);
    let link_id = fixture.link.link.link_id;
    insert_link_day(pool, account_id, link_id, FIRST, row(1, &[1])).await;
    let answer = fixture.service.get(&fixture.caller, "/v1/clicks/top-links");
    answer.await.assert_read_model_behind();
}

#[tokio::test]
async fn impossible_ranking_gets_advice() {
    let fixture = ClickFixture::new().await;
    let of_link = format!("/v1/links/{}/clicks/top", fixture.link.link.link_id);
    for (query, parameter, code, advice) in [
        (
            "?by=city",
            "by",
            "unknown_value",
            "referrer_host, browser, os, device",
        ),
        (
            "?by=link",
            "by",
            "unknown_value",
            "are at /v1/clicks/top-links.",
        ),
        ("?limit=0", "limit", "out_of_range", "1 to 100"),
        ("?limit=101", "limit", "out_of_range", "1 to 100"),
        ("?from=2025-10-19", "from", "too_early", "2025-10-20"),
        (
            "?from=2026-11-20&to=2026-11-20",
            "from",
            "range_empty",
            "before to",
        ),
        (
            "?interval=day",
            "interval",
            "unknown_parameter",
            "by, limit, from, to",
        ),
    ] {
        for path in [&*of_link, "/v1/clicks/top"] {
            let answer = fixture
                .service
                .get(&fixture.caller, &format!("{path}{query}"))
                .await;
            answer.assert_problem(400, "invalid_parameter");
            let error = &answer.json()["errors"][0];
            assert_eq!(
                (&error["parameter"], &error["code"]),
                (&json!(parameter), &json!(code))
            );
            assert!(
                error["detail"].as_str().unwrap().contains(advice),
                "{error}"
            );
        }
    }
    // Days of links are kept for ever.
    let path = "/v1/clicks/top-links?from=2024-03-01";
    assert_eq!(fixture.service.get(&fixture.caller, path).await.status, 200);
    let path = "/v1/clicks/top-links?from=2024-01-01";
    let answer = fixture.service.get(&fixture.caller, path).await;
    answer.assert_problem(400, "invalid_parameter");
    assert!(answer.body.contains("later from"), "{}", answer.body);
}
