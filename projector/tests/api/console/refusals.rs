//! Refused requests.

use hyper::Method;
use linkledger_core::id::{AccountId, LinkId};
use linkledger_testing::TestDatabase;

use super::{Answer, TestConsole, assert_lacks, assert_shows};

fn assert_guarded(answer: &Answer, what: &str) {
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
    ] {
        assert_eq!(answer.headers[name], value, "{what}");
    }
    let policy = answer.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none';"), "{what}");
    assert!(policy.ends_with("frame-ancestors 'none'"), "{what}");
    assert_lacks(policy, "unsafe");
}

#[tokio::test]
async fn wrong_request_is_refused_with_help() {
    let database = TestDatabase::create().await;
    let console = TestConsole::start(&database).await;
    let account_id = AccountId::from_uuid(uuid::Uuid::nil());
    let link_id = LinkId::from_uuid(uuid::Uuid::nil());
    for path in [
        "/events?account=acc_x".to_owned(),
        "/events?account=%ff".to_owned(),
        format!("/events?account={link_id}"),
        "/events?link=lnk_".to_owned(),
        "/events?before=1.2".to_owned(),
        "/events?before_version=0".to_owned(),
        "/events?colour=red".to_owned(),
        format!("/events?type={}", "x".repeat(101)),
        format!("/events?account={account_id}&account={account_id}"),
        format!("/accounts/{link_id}"),
        format!("/accounts/{}", account_id.to_string().to_uppercase()),
        "/accounts/%3Cscript%3E".to_owned(),
        format!("/accounts/{account_id}?before=x"),
        "/links/spring".to_owned(),
        format!("/links/{link_id}?before=0"),
        "/?x=y".to_owned(),
    ] {
        let page = console.refusal(&path, 400).await;
        assert_shows(&page, "<h1>");
        assert_lacks(&page, "<script>");
    }
}

#[tokio::test]
async fn text_that_reorders_a_page_is_escaped() {
    let database = TestDatabase::create().await;
    let console = TestConsole::start(&database).await;
    let page = console.refusal("/find?q=%E2%80%AEgnirps", 400).await;
    assert_shows(&page, "<code>\\u{202e}gnirps</code>");
}

#[tokio::test]
async fn unknown_pages_and_ids_are_not_found() {
    let database = TestDatabase::create().await;
    let console = TestConsole::start(&database).await;
    let account_id = AccountId::from_uuid(uuid::Uuid::nil());
    let link_id = LinkId::from_uuid(uuid::Uuid::nil());
    for (path, said) in [
        (
            format!("/accounts/{account_id}"),
            "There is no account acc_",
        ),
        (format!("/links/{link_id}"), "There is no link lnk_"),
        (format!("/events?link={link_id}"), "There is no link lnk_"),
        ("/nowhere".to_owned(), "<code>/nowhere</code> is not a page"),
        ("/events/".to_owned(), "<code>/events/</code> is not a page"),
        (
            format!("/links/{link_id}/x"),
            "is not a page of the console",
        ),
    ] {
        let page = console.refusal(&path, 404).await;
        assert_shows(&page, said);
    }
    let page = console.page(&format!("/events?account={account_id}")).await;
    assert_shows(&page, "no such event");
}

#[tokio::test]
async fn id_of_another_kind_is_refused() {
    let database = TestDatabase::create().await;
    let account_id = linkledger_testing::account(database.pool(), 0).await;
    let console = TestConsole::start(&database).await;
    let link_id = LinkId::from_uuid(account_id.uuid());
    console.refusal(&format!("/links/{link_id}"), 404).await;
}

#[tokio::test]
async fn pages_accept_only_get_and_head() {
    let database = TestDatabase::create().await;
    let account_id = linkledger_testing::account(database.pool(), 0).await;
    let console = TestConsole::start(&database).await;
    let account = format!("/accounts/{account_id}");
    for path in ["/", "/events", &account, "/console.css", "/console.js"] {
        let got = console.ask(Method::GET, path, "localhost").await;
        assert_guarded(&got, path);
        let head = console.ask(Method::HEAD, path, "localhost").await;
        assert_eq!(
            (head.status.as_u16(), head.body.as_str()),
            (200, ""),
            "{path}"
        );
        assert_eq!(head.headers["content-type"], got.headers["content-type"]);
        for method in [
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::OPTIONS,
        ] {
            let refused = console.ask(method.clone(), path, "localhost").await;
            assert_eq!(refused.status, 405, "{method} {path}");
            assert_eq!(refused.headers["allow"], "GET,HEAD", "{method} {path}");
            assert_guarded(&refused, path);
        }
    }
}

#[tokio::test]
async fn unknown_host_is_refused() {
    let database = TestDatabase::create().await;
    let console = TestConsole::start(&database).await;
    for host in ["evil.example", "127.0.0.1.evil.example:80"] {
        for path in ["/", "/events", "/console.js"] {
            let answer = console.ask(Method::GET, path, host).await;
            assert_eq!(answer.status, 421, "{host} {path}");
            assert_shows(&answer.body, "--internal-host");
            assert_guarded(&answer, path);
        }
    }
    for host in ["localhost:9102", "[::1]:9102", "ops.example"] {
        assert_eq!(console.ask(Method::GET, "/", host).await.status, 200);
    }
}

#[tokio::test]
async fn missing_database_shows_an_error_page() {
    let console = TestConsole::start_on("postgres://nobody@127.0.0.1:1/none").await;
    let page = console.refusal("/events", 503).await;
    assert_shows(&page, "The database does not answer");
}
