//! No answer to one account shows anything of another account: a foreign resource is answered like an unknown resource.

use axum::http::Method;
use linkledger_clicks::Dimension;
use linkledger_core::{
    clock::Clock as _, commands::CreateResult, cursor::CursorScope, id::AccountId,
    projection::Projection,
};
use linkledger_testing::FixedClock;
use sqlx::PgPool;

use crate::{
    click_statistics_tables::{
        Row, create_partitions, insert_account_day, insert_account_value, insert_link_day,
        insert_link_value,
    },
    read_tables::{
        Entry, insert_appended_link, insert_entry, insert_redirect, insert_tag, set_checkpoint,
        unused_link_id,
    },
    service::{Answer, TestCaller, TestService, paths_without_id, read_paths, token_of},
    webhooks::insert_webhook,
};

const LISTS: [&str; 3] = ["/v1/links", "/v1/credits/entries", "/v1/tags"];

/// An account with resources, and an account without.
struct Tenants {
    service: TestService,
    owner: TestCaller,
    other: TestCaller,
    links: [CreateResult; 2],
}

impl Tenants {
    async fn new() -> Self {
        let service = TestService::start().await;
        let (owner, other) = (service.caller().await, service.caller().await);
        let links = [
            service.append_link(&owner, "Theirs").await,
            service.append_link(&owner, "Theirs-too").await,
        ];
        for (version, link) in (1..).zip(&links) {
            insert_appended_link(service.pool(), link).await;
            insert_redirect(service.pool(), link).await;
            for tag in ["theirs", "theirs-too"] {
                let link_id = link.link.link_id;
                insert_tag(service.pool(), owner.account_id, tag, link_id).await;
            }
            let entry = Entry::grant(version, 500, 500 * version);
            insert_entry(service.pool(), owner.account_id, entry).await;
        }
        insert_clicks(service.pool(), owner.account_id, &links[0]).await;
        insert_webhook(service.pool(), owner.account_id, false).await;
        for projection in Projection::ALL.map(Projection::name) {
            let position = links[1].position;
            set_checkpoint(service.pool(), projection, owner.account_id, position).await;
        }
        Self {
            service,
            owner,
            other,
            links,
        }
    }

    /// Returns the answer to the account without resources.
    async fn ask(&self, method: &Method, path: &str, headers: &[(&str, &str)]) -> ComparableAnswer {
        let bearer = format!("Bearer {}", self.other.key.reveal());
        let headers = [&[("authorization", bearer.as_str())], headers].concat();
        let answer = self.service.call_api(method.clone(), path, &headers).await;
        ComparableAnswer::of(&answer)
    }

    /// Returns a cursor of the owner for the list.
    async fn cursor(&self, list: &str) -> String {
        let path = format!("{list}?limit=1");
        let page = self.service.get(&self.owner, &path).await.json();
        page["next_cursor"].as_str().unwrap().to_owned()
    }
}

/// Inserts clicks of today, and a country.
async fn insert_clicks(pool: &PgPool, account_id: AccountId, link: &CreateResult) {
    let day = FixedClock::default().now().date();
    let row = Row {
        clicks: 3,
        bots: 1,
        visitors: &[1],
    };
    let link_id = link.link.link_id;
    let country = (Dimension::Country, "DE");
    create_partitions(pool).await;
    insert_link_day(pool, account_id, link_id, day, row).await;
    insert_account_day(pool, account_id, day, 0, row).await;
    insert_link_value(pool, (account_id, link_id), day, country, row).await;
    insert_account_value(pool, (account_id, 0), day, country, row).await;
}

/// Returns an answer without the parts that differ between two requests.
#[derive(Debug, PartialEq)]
struct ComparableAnswer {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl ComparableAnswer {
    fn of(answer: &Answer) -> Self {
        let headers = answer.headers.iter();
        let mut headers: Vec<_> = headers
            .filter(|(name, _)| *name != "x-request-id")
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        headers.sort();
        Self {
            status: answer.status.as_u16(),
            headers,
            body: without_own_values(answer.body_without_request_id()),
        }
    }
}

/// Returns the body without the instant up to which clicks are counted, and without a cursor, which belongs to one
/// account.
fn without_own_values(mut body: String) -> String {
    for member in ["\"complete_until\":\"", "\"next_cursor\":\""] {
        if let Some(start) = body.find(member) {
            let start = start + member.len();
            let length = body[start..].find('"').unwrap();
            body.replace_range(start..start + length, "");
        }
    }
    body
}

#[tokio::test]
async fn foreign_resources_look_unknown() {
    let tenants = Tenants::new().await;
    let id = tenants.links[0].link.link_id.to_string();
    let unknown_id = unused_link_id().to_string();
    let address = tenants.links[0].link.destination_url.as_str();
    let any = [("if-none-match", "*")];
    // Requests for a resource of the owner, and for a resource that does not exist.
    for (pattern, theirs, nobodys, headers, status) in [
        (
            "/v1/links/{}",
            id.as_str(),
            unknown_id.as_str(),
            &[][..],
            404,
        ),
        ("/v1/links/{}", &id, &unknown_id, &any, 404),
        ("/v1/links/{}?at=2026-11-20", &id, &unknown_id, &[], 404),
        ("/v1/links/{}/history", &id, &unknown_id, &[], 404),
        ("/v1/links/{}/qr", &id, &unknown_id, &any, 404),
        ("/v1/links/{}/clicks", &id, &unknown_id, &[], 404),
        ("/v1/links/{}/clicks/top", &id, &unknown_id, &[], 404),
        ("/v1/links?slug={}", "theirs", "nobodys", &[], 200),
        (
            "/v1/links?destination_url={}",
            address,
            "https://example.com/nobodys",
            &[],
            200,
        ),
    ] {
        for method in [Method::GET, Method::HEAD] {
            let ask = async |what: &str| {
                let path = pattern.replace("{}", what);
                tenants.ask(&method, &path, headers).await
            };
            let answer = ask(theirs).await;
            assert_eq!(answer.status, status, "{method} {pattern}");
            assert_eq!(answer, ask(nobodys).await, "{method} {pattern}");
        }
    }
}

#[tokio::test]
async fn other_tenants_never_affect_lists_or_balance() {
    let tenants = Tenants::new().await;
    let empty = TestService::start().await;
    let nobody = empty.caller().await;
    for path in paths_without_id() {
        let alone = ComparableAnswer::of(&empty.get(&nobody, path).await);
        assert_eq!(tenants.ask(&Method::GET, path, &[]).await, alone, "{path}");
        let owners = ComparableAnswer::of(&tenants.service.get(&tenants.owner, path).await);
        assert_ne!(owners, alone, "{path}");
    }
}

#[tokio::test]
async fn foreign_cursor_looks_malformed() {
    let tenants = Tenants::new().await;
    for list in LISTS {
        let cursor = tenants.cursor(list).await;
        let path = format!("{list}?cursor={cursor}");
        assert_eq!(tenants.service.get(&tenants.owner, &path).await.status, 200);
        let answer = tenants.ask(&Method::GET, &path, &[]).await;
        assert_eq!(answer.status, 400, "{list}");
        let malformed = format!("{list}?cursor=x");
        assert_eq!(answer, tenants.ask(&Method::GET, &malformed, &[]).await);
    }
}

/// A cursor is no secret: anyone can make one with any place, for an own list.
#[tokio::test]
async fn forged_cursor_reaches_own_rows_only() {
    let tenants = Tenants::new().await;
    let link_id = tenants.links[0].link.link_id;
    let scope = |list: &str, account_id| CursorScope {
        list: list.to_owned(),
        filters: String::new(),
        account_id,
    };
    let forged = |account_id| {
        let links = scope("/v1/links", account_id);
        let id = link_id.uuid().as_u128();
        let ids = [0, id, id + 1, u128::MAX].map(|place| links.cursor_after(&place));
        let entries = scope("/v1/credits/entries", account_id);
        let versions = [i64::MIN, 0, 2, i64::MAX].map(|place| entries.cursor_after(&place));
        let tags = scope("/v1/tags", account_id);
        let texts = ["", "theirs", "\u{10ffff}", "';--"].map(str::to_owned);
        let texts = texts.map(|place| tags.cursor_after(&place));
        let history = format!("/v1/links/{link_id}/history");
        let of_link = scope(&history, account_id);
        let of_link = [i64::MIN, i64::MAX].map(|place| of_link.cursor_after(&place));
        [
            (links.list, ids.to_vec()),
            (entries.list, versions.to_vec()),
            (tags.list, texts.to_vec()),
            (history, of_link.to_vec()),
        ]
    };
    for (list, cursors) in forged(tenants.other.account_id) {
        for path in cursors.iter().map(|it| format!("{list}?cursor={it}")) {
            let answer = tenants.ask(&Method::GET, &path, &[]).await;
            if list.ends_with("/history") {
                assert_eq!(answer.status, 404, "{path}");
                continue;
            }
            assert_eq!(answer.status, 200, "{path}");
            assert!(answer.body.contains("\"items\":[]"), "{path}");
        }
    }
    // Each place is one that the owner's list can bear, and some of its pages have items.
    for (list, cursors) in forged(tenants.owner.account_id) {
        let mut items = 0;
        for path in cursors.iter().map(|it| format!("{list}?cursor={it}")) {
            let answer = tenants.service.get(&tenants.owner, &path).await;
            assert_eq!(answer.status, 200, "{path}");
            items += answer.json()["items"].as_array().unwrap().len();
        }
        assert!(items > 0, "{list}");
    }
}

#[tokio::test]
async fn foreign_token_looks_malformed() {
    let tenants = Tenants::new().await;
    let token = token_of(&tenants.links[1], 1);
    let theirs = [("consistency-token", token.as_str())];
    let malformed = [("consistency-token", "x")];
    let id = tenants.links[0].link.link_id.to_string();
    for path in read_paths(&id) {
        let answer = tenants.service.get_with(&tenants.owner, &path, &theirs);
        assert_eq!(answer.await.status, 200, "{path}");
        let answer = tenants.ask(&Method::GET, &path, &theirs).await;
        assert_eq!(answer.status, 400, "{path}");
        assert_eq!(answer, tenants.ask(&Method::GET, &path, &malformed).await);
    }
}
