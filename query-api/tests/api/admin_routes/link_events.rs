//! Pages of the events of a link.

use linkledger_testing as testing;
use linkledger_testing::events;
use serde_json::Value;

use super::{Fixture, UNKNOWN_LINK, event_pages::log_of, key_issued};

fn path(link_id: &str) -> String {
    format!("/admin/v1/links/{link_id}/events")
}

#[tokio::test]
async fn events_of_link_are_listed_newest_first() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account("Example Ltd", None).await;
    let links = [("abc", "https://a.example/"), ("def", "https://a.example/")];
    let links = testing::append_links(fixture.pool(), account_id, &links).await;
    let link = &links[0].link;
    let changes = [
        events::destination_changed(link, "https://b.example/"),
        events::disabled(link),
        events::deleted(link),
    ];
    testing::append_events(fixture.pool(), account_id, &changes).await;

    let link_id = link.link_id.to_string();
    let log = log_of(&fixture).await;
    let of_link = log.iter().filter(|it| it["subject"] == link_id);
    let expected: Vec<Value> = of_link.rev().cloned().collect();
    assert_eq!(expected.len(), 4);
    for limit in [1, 3, 4, 100] {
        let path = format!("{}?limit={limit}", path(&link_id));
        let (items, pages) = fixture.items(&path).await;
        assert_eq!(items, expected, "{limit}");
        assert_eq!(pages, expected.len().div_ceil(limit));
    }
    let page = fixture.get(&format!("{}?limit=1", path(&link_id))).await;
    assert_eq!(page.header("cache-control"), Some("private, no-cache"));
    let page = page.json();
    let cursor = page["next_cursor"].as_str().unwrap();
    let other = path(&links[1].link.link_id.to_string());
    let answer = fixture.get(&format!("{other}?cursor={cursor}")).await;
    answer.assert_problem(400, "invalid_cursor");
}

#[tokio::test]
async fn events_of_unknown_link_are_404() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account("Example Ltd", None).await;
    fixture.append(account_id, key_issued(account_id)).await;
    // The stream of an account is no link.
    let account = account_id.to_string().replace("acc_", "lnk_");
    for link_id in [UNKNOWN_LINK, "lnk_1", "abc", &account] {
        let answer = fixture.get(&path(link_id)).await;
        answer.assert_problem(404, "link_not_found");
    }
}
