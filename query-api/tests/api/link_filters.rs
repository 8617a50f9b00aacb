//! `GET /v1/links` with `slug` and `destination_url`.

use linkledger_testing as testing;
use serde_json::json;

use crate::{
    read_tables::insert_appended_link,
    service::{Answer, BASE_URL, TestCaller, TestService},
};

/// Creates links of the caller, in the event store and in the read tables. Returns the slugs in the
/// order of the list.
async fn create(service: &TestService, caller: &TestCaller, links: &[(&str, &str)]) -> Vec<String> {
    let mut links = testing::append_links(service.pool(), caller.account_id, links).await;
    for link in &links {
        insert_appended_link(service.pool(), link).await;
    }
    links.sort_by_key(|link| std::cmp::Reverse(link.link.link_id));
    links.into_iter().map(|link| link.link.slug).collect()
}

/// Returns the slugs of a page.
#[track_caller]
fn slugs(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", answer.body);
    let page = answer.json();
    let items = page["items"].as_array().unwrap().iter();
    items
        .map(|item| {
            let short_url = item["short_url"].as_str().unwrap();
            short_url.rsplit_once('/').unwrap().1.to_owned()
        })
        .collect()
}

async fn list(service: &TestService, caller: &TestCaller, query: &str) -> Vec<String> {
    slugs(&service.get(caller, &format!("/v1/links?{query}")).await)
}

#[tokio::test]
async fn slug_filter_ignores_case_for_owner_only() {
    let service = TestService::start().await;
    let (caller, other) = (service.caller().await, service.caller().await);
    let address = "https://example.com/";
    create(
        &service,
        &caller,
        &[("Sommer-Fest", address), ("sommer", address)],
    )
    .await;
    create(&service, &other, &[("Foreign", address)]).await;
    for query in [
        "slug=Sommer-Fest",
        "slug=sommer-fest",
        "slug=SOMMER-FEST&limit=1",
    ] {
        assert_eq!(
            list(&service, &caller, query).await,
            ["Sommer-Fest"],
            "{query}"
        );
    }
    let nothing = json!({ "items": [], "next_cursor": null, "has_more": false });
    for query in ["slug=unknown", "slug=foreign", "slug=somm", "slug=admin"] {
        let answer = service.get(&caller, &format!("/v1/links?{query}")).await;
        assert_eq!(answer.json(), nothing, "{query}");
    }
    assert_eq!(list(&service, &other, "slug=foreign").await, ["Foreign"]);
}

#[tokio::test]
async fn destination_filter_compares_stored_form() {
    let service = TestService::start().await;
    let (caller, other) = (service.caller().await, service.caller().await);
    let address = "https://example.com/a?q=1";
    let links = [
        ("first", address),
        ("between", "https://example.com/a?q=12"),
        ("second", address),
        ("third", "https://example.com/A?q=1"),
    ];
    let mut expected = create(&service, &caller, &links).await;
    expected.retain(|slug| ["first", "second"].contains(&slug.as_str()));
    create(&service, &other, &[("foreign", address)]).await;
    for query in [
        "destination_url=https%3A%2F%2Fexample.com%2Fa%3Fq%3D1",
        "destination_url=https://example.com/a?q=1",
        "destination_url=HTTPS://EXAMPLE.COM:443/b/../a?q=1",
    ] {
        assert_eq!(list(&service, &caller, query).await, expected, "{query}");
    }
    let absent = "destination_url=https://example.com/";
    assert_eq!(list(&service, &caller, absent).await, [""; 0]);
}

#[tokio::test]
async fn both_filters_must_match() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let (address, other) = ("https://example.com/a", "https://example.com/b");
    create(&service, &caller, &[("one", address), ("two", address)]).await;
    let query = format!("destination_url={address}&slug=one");
    assert_eq!(list(&service, &caller, &query).await, ["one"]);
    let query = format!("destination_url={other}&slug=one");
    assert_eq!(list(&service, &caller, &query).await, [""; 0]);
}

#[tokio::test]
async fn cursor_is_bound_to_filters() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let address = "https://example.com/a?b=c&d";
    let links: Vec<String> = (0..5).map(|number| format!("link-{number}")).collect();
    let links: Vec<_> = links.iter().map(|slug| (slug.as_str(), address)).collect();
    let expected = create(&service, &caller, &links).await;
    create(&service, &caller, &[("another", "https://example.com/")]).await;

    let filter = "destination_url=https%3A%2F%2Fexample.com%2Fa%3Fb%3Dc%26d";
    let mut listed = Vec::new();
    let mut path = format!("/v1/links?{filter}&limit=2");
    loop {
        let answer = service.get(&caller, &path).await;
        listed.extend(slugs(&answer));
        let page = answer.json();
        let Some(cursor) = page["next_cursor"].as_str() else {
            break;
        };
        path = format!("/v1/links?{filter}&limit=2&cursor={cursor}");
        let next = format!("<{BASE_URL}{path}>; rel=\"next\"");
        assert_eq!(answer.header("link"), Some(next.as_str()));
        for other in [
            String::new(),
            "destination_url=https://example.com/".to_owned(),
            "slug=link-1".to_owned(),
            format!("{filter}&slug=link-1"),
        ] {
            let path = format!("/v1/links?{other}&cursor={cursor}");
            let answer = service.get(&caller, &path).await;
            answer.assert_problem(400, "invalid_cursor");
        }
    }
    assert_eq!(listed, expected);
    // A cursor of the unfiltered list is rejected for a filtered list, too.
    let page = service.get(&caller, "/v1/links?limit=1").await.json();
    let cursor = page["next_cursor"].as_str().unwrap();
    let path = format!("/v1/links?{filter}&cursor={cursor}");
    let answer = service.get(&caller, &path).await;
    answer.assert_problem(400, "invalid_cursor");
}
