//! Statistics of clicks as CSV, and `Accept`.

use linkledger_clicks::Dimension;
use time::macros::date;

use crate::{
    click_statistics::ClickFixture,
    click_statistics_tables::{Row, insert_link_day, insert_link_value},
    read_tables::insert_appended_link,
    service::Answer,
};

const CSV: &str = "text/csv; charset=utf-8; header=present";
const DAY: time::Date = date!(2026 - 11 - 18);

fn row(clicks: i64) -> Row<'static> {
    Row {
        clicks,
        bots: 1,
        visitors: &[1],
    }
}

async fn get(fixture: &ClickFixture, path: &str, accept: &str) -> Answer {
    let headers = [("accept", accept)];
    fixture
        .service
        .get_with(&fixture.caller, path, &headers)
        .await
}

#[tokio::test]
async fn series_is_a_table_of_csv() {
    let fixture = ClickFixture::new().await;
    let (account_id, link_id) = (fixture.caller.account_id, fixture.link.link.link_id);
    insert_link_day(fixture.service.pool(), account_id, link_id, DAY, row(5)).await;
    let range = "from=2026-11-18&to=2026-11-20";
    let path = format!("/v1/links/{link_id}/clicks?{range}");
    let answer = get(&fixture, &path, "text/csv").await;
    assert_eq!(answer.header("content-type"), Some(CSV));
    assert_eq!(answer.header("cache-control"), Some("private, no-cache"));
    let vary: Vec<_> = answer.headers.get_all("vary").iter().collect();
    assert!(vary.iter().any(|value| *value == "accept"), "{vary:?}");
    assert_eq!(
        answer.body,
        "date,start,clicks,bots,visitors\r\n\
         2026-11-18,2026-11-18T00:00:00Z,5,1,1\r\n\
         2026-11-19,2026-11-19T00:00:00Z,0,0,0\r\n"
    );
    let range = format!("{range}&timezone=Europe/Berlin");
    for (interval, second) in [
        ("hour", "2026-11-18,2026-11-18T00:00:00+01:00,0,0,"),
        ("day", "2026-11-18,2026-11-18T00:00:00+01:00,0,0,0"),
    ] {
        let path = format!("/v1/clicks?{range}&interval={interval}");
        let answer = get(&fixture, &path, "text/csv").await;
        assert_eq!(answer.body.lines().nth(1), Some(second), "{interval}");
    }
    let json = get(&fixture, &format!("/v1/clicks?{range}"), "application/json").await;
    let first = &json.json()["series"][0];
    assert_eq!(first["start"], "2026-11-17T23:00:00.000Z");
    assert_eq!(first.get("date"), None);
}

#[tokio::test]
async fn cells_of_csv_are_no_formulas() {
    let fixture = ClickFixture::new().await;
    let (account_id, link_id) = (fixture.caller.account_id, fixture.link.link.link_id);
    for (value, clicks) in [
        ("a;=1", 11),
        ("＝1", 10),
        ("=HYPERLINK(\"x\")", 9),
        ("+1", 8),
        ("-1", 7),
        ("@SUM(A1)", 6),
        ("'=1", 5),
        ("\t=1", 4),
        ("", 3),
        ("a,b", 2),
        ("news.example", 1),
    ] {
        let value = (Dimension::Browser, value);
        let link = (account_id, link_id);
        insert_link_value(fixture.service.pool(), link, DAY, value, row(clicks)).await;
    }
    let path = format!("/v1/links/{link_id}/clicks/top?by=browser&limit=20");
    let answer = get(&fixture, &path, "text/csv").await;
    assert_eq!(
        answer.body,
        "value,clicks,visitors\r\n\"a;'=1\",11,1\r\n'＝1,10,1\r\n\"'=HYPERLINK(\"\"x\"\")\",9,1\r\n'+1,8,1\r\n'-1,7,1\r\n\
         '@SUM(A1),6,1\r\n''=1,5,1\r\n'\t'=1,4,1\r\n,3,1\r\n\"a,b\",2,1\r\nnews.example,1,1\r\n"
    );
}

#[tokio::test]
async fn links_of_csv_have_their_addresses() {
    let fixture = ClickFixture::new().await;
    insert_appended_link(fixture.service.pool(), &fixture.link).await;
    let (account_id, link_id) = (fixture.caller.account_id, fixture.link.link.link_id);
    insert_link_day(fixture.service.pool(), account_id, link_id, DAY, row(5)).await;
    let answer = get(&fixture, "/v1/clicks/top-links", "text/csv").await;
    let expected = format!(
        "link_id,short_url,destination_url,clicks,visitors\r\n\
         {link_id},https://sho.rt/spring,https://example.com/spring,5,1\r\n"
    );
    assert_eq!(answer.body, expected);
}

#[tokio::test]
async fn accept_is_checked_for_each_route() {
    let fixture = ClickFixture::new().await;
    let paths = [
        format!("/v1/links/{}/clicks", fixture.link.link.link_id),
        format!("/v1/links/{}/clicks/top", fixture.link.link.link_id),
        "/v1/clicks".to_owned(),
        "/v1/clicks/top".to_owned(),
        "/v1/clicks/top-links".to_owned(),
    ];
    for path in &paths {
        for (accept, content_type) in [
            ("*/*", "application/json"),
            ("application/json", "application/json"),
            ("application/problem+json", "application/json"),
            ("text/csv, application/problem+json", CSV),
            ("text/csv;q=0.5, application/json;q=0.4", CSV),
            ("text/csv, application/json", "application/json"),
        ] {
            let answer = get(&fixture, path, accept).await;
            assert_eq!(answer.status, 200, "{path} {accept}");
            assert_eq!(
                answer.header("content-type"),
                Some(content_type),
                "{accept}"
            );
        }
        let refused = get(&fixture, path, "text/html").await;
        refused.assert_problem(406, "not_acceptable");
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("text/csv"), "{detail}");
        // A problem is JSON, whatever the request accepts.
        let separator = if path.contains('?') { '&' } else { '?' };
        let faulty = format!("{path}{separator}x=1");
        let problem = get(&fixture, &faulty, "text/csv").await;
        problem.assert_problem(400, "invalid_parameter");
    }
    for path in ["/v1/links", "/v1/credits", "/v1/credits/entries"] {
        let refused = get(&fixture, path, "text/csv").await;
        refused.assert_problem(406, "not_acceptable");
    }
}
