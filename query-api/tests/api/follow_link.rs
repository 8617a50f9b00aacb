//! `GET /{slug}` on the short host: redirects, pages, misses.

use axum::http::Method;
use linkledger_testing::TestDatabase;

use crate::{
    read_tables::{insert_redirect, set_checkpoint},
    service::{Answer, BASE_URL, SHORT_BASE_URL, TestService},
};

#[track_caller]
fn assert_page(answer: &Answer, status: u16, title: &str) {
    assert_eq!(answer.status.as_u16(), status, "{}", answer.body);
    assert_eq!(
        answer.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("x-robots-tag"), Some("noindex"));
    assert_eq!(answer.header("vary"), Some("accept"));
    let heading = format!("<h1>{title}</h1>");
    assert!(answer.body.contains(&heading), "{}", answer.body);
}

#[track_caller]
fn assert_no_such_link(answer: &Answer) {
    assert_page(answer, 404, "There is no such link");
}

#[tokio::test]
async fn visitor_is_redirected_to_destination() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "Sommer-Fest").await;
    insert_redirect(service.pool(), &link).await;
    for path in [
        "/Sommer-Fest",
        "/sommer-fest",
        "/SOMMER-FEST",
        "/Sommer-Fest?utm=x&next=https://evil.example",
    ] {
        let answer = service.follow(path).await;
        assert_eq!(answer.status, 302, "{path}");
        assert_eq!(
            answer.header("location"),
            Some("https://example.com/Sommer-Fest"),
            "{path}"
        );
        assert_eq!(answer.header("cache-control"), Some("private, no-store"));
        assert_eq!(answer.header("x-robots-tag"), Some("noindex"));
        assert_eq!(answer.header("set-cookie"), None);
        assert_eq!(answer.body, "Redirecting.\n");
        let head = service.call_short_host(Method::HEAD, path, &[]).await;
        assert_eq!(head.status, 302, "{path}");
        assert_eq!(head.header("location"), answer.header("location"));
    }
}

#[tokio::test]
async fn redirect_status_is_configurable() {
    let database = TestDatabase::create().await;
    let service = TestService::start_with(database, |config| {
        config.redirect_status = "308".parse().unwrap();
    })
    .await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "permanent").await;
    insert_redirect(service.pool(), &link).await;
    assert_eq!(service.follow("/permanent").await.status, 308);
}

#[tokio::test]
async fn unknown_slug_returns_page_or_problem() {
    let service = TestService::start().await;
    assert_no_such_link(&service.follow("/unknown").await);
    let json = [("accept", "application/json")];
    let answer = service
        .call_short_host(Method::GET, "/unknown", &json)
        .await;
    answer.assert_problem(404, "link_not_found");
    assert_eq!(answer.header("x-robots-tag"), Some("noindex"));
    assert_eq!(answer.header("vary"), Some("accept"));
}

#[tokio::test]
async fn other_paths_are_404_for_any_method() {
    let service = TestService::start().await;
    for path in [
        "/",
        "//",
        "/a/b",
        "/abc//",
        "//abc",
        "/v1/links",
        "/v1/links/lnk_1",
    ] {
        for method in [Method::GET, Method::POST, Method::OPTIONS] {
            let answer = service.call_short_host(method, path, &[]).await;
            assert_no_such_link(&answer);
        }
        let json = [("accept", "application/json")];
        let answer = service.call_short_host(Method::GET, path, &json).await;
        answer.assert_problem(404, "route_not_found");
    }
}

#[tokio::test]
async fn malformed_slug_is_rejected_without_lookup() {
    let service = TestService::start().await;
    sqlx::query("ALTER TABLE read_model.redirects RENAME TO out_of_reach")
        .execute(service.pool())
        .await
        .unwrap();
    let title = "The link can't be followed just now";
    assert_page(&service.follow("/well-formed").await, 503, title);
    for path in [
        "/-abc",
        "/abc%00",
        "/caf%C3%A9",
        "/%FF%FE",
        "/%3Cscript%3E",
        "/.well-known",
        &format!("/{}", "a".repeat(65)),
    ] {
        assert_no_such_link(&service.follow(path).await);
    }
}

#[tokio::test]
async fn mangled_path_is_answered_as_its_slug() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "poster-26").await;
    insert_redirect(service.pool(), &link).await;
    for path in [
        "/Poster-26/",
        "/%70oster%2D26",
        "/poster-26).",
        "/poster-26%E2%80%8B",
        "/poster-26%20?utm=x",
        "/poster-26%C2%A0/",
    ] {
        let answer = service.follow(path).await;
        assert_eq!(answer.status, 302, "{path}");
        let location = answer.header("location");
        assert_eq!(location, Some("https://example.com/poster-26"), "{path}");
    }
    for path in [
        "/poster-26//",
        "/x/poster-26",
        "/poster-26%2F",
        "/poster-26-",
        "/poster-27.",
    ] {
        assert_no_such_link(&service.follow(path).await);
    }
    let posted = service
        .call_short_host(Method::POST, "/poster-26/", &[])
        .await;
    assert_page(&posted, 405, "A link can only be followed");
}

#[tokio::test]
async fn short_host_sends_security_headers() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "spring").await;
    insert_redirect(service.pool(), &link).await;
    let redirect = service.follow("/spring").await;
    assert_eq!(redirect.header("x-content-type-options"), Some("nosniff"));
    // It would hide from the destination where the visitor came from.
    assert_eq!(redirect.header("referrer-policy"), None);
    let page = service.follow("/unknown").await;
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
}

#[tokio::test]
async fn foreign_host_is_refused_unless_allowed() {
    let database = TestDatabase::create().await;
    let service = TestService::start_with(database, |config| {
        config.allowed_hosts = vec!["alias.example".parse().unwrap()];
    })
    .await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "spring").await;
    insert_redirect(service.pool(), &link).await;
    for host in ["sho.rt", "SHO.rt:8443", "alias.example"] {
        let answer = service.follow(&format!("http://{host}/spring")).await;
        assert_eq!(answer.status, 302, "{host}");
    }
    for host in ["evil.example", "api.example.com", "127.0.0.1", "xsho.rt"] {
        let path = format!("http://{host}/spring");
        let answer = service.follow(&path).await;
        assert_page(&answer, 421, "There are no links at this address");
        assert!(!answer.body.contains(host), "{}", answer.body);
        let json = [("accept", "application/json")];
        let answer = service.call_short_host(Method::GET, &path, &json).await;
        answer.assert_problem(421, "host_not_served");
        let detail = answer.json()["detail"].to_string();
        assert!(detail.contains("https://sho.rt"), "{detail}");
    }
    let api = async |target: &str| service.call_api(Method::GET, target, &[]).await.status;
    assert_eq!(api("http://alias.example/v1/links").await, 401);
    assert_eq!(api("http://sho.rt/v1/links").await, 421);
    assert_eq!(api("http://evil.example/docs").await, 421);
}

#[tokio::test]
async fn path_of_the_other_host_names_that_host() {
    let service = TestService::start().await;
    let json = [("accept", "application/json")];
    for path in [
        "/v1/links",
        "/v1/links/",
        "/docs",
        "/openapi.json",
        "/console/",
    ] {
        let page = service.follow(path).await;
        assert_no_such_link(&page);
        assert!(page.body.contains(BASE_URL), "{}", page.body);
        let answer = service.call_short_host(Method::GET, path, &json).await;
        answer.assert_problem(404, "route_not_found");
        let detail = answer.json()["detail"].to_string();
        assert!(detail.contains(BASE_URL), "{path}: {detail}");
    }
    assert!(!service.follow("/spring").await.body.contains(BASE_URL));
    let answer = service.call_api(Method::GET, "/spring-sale", &[]).await;
    answer.assert_problem(404, "route_not_found");
    let detail = answer.json()["detail"].to_string();
    assert!(detail.contains(SHORT_BASE_URL), "{detail}");
}

#[tokio::test]
async fn link_keeps_slug_reserved_later() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let mut link = service.append_link(&caller, "before").await;
    link.link.slug = "admin".to_owned();
    insert_redirect(service.pool(), &link).await;
    assert_eq!(service.follow("/Admin").await.status, 302);
    assert_no_such_link(&service.follow("/metrics").await);
}

#[tokio::test]
async fn short_link_allows_only_reads() {
    let service = TestService::start().await;
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        let answer = service.call_short_host(method, "/whatever", &[]).await;
        assert_page(&answer, 405, "A link can only be followed");
        assert_eq!(answer.header("allow"), Some("GET, HEAD, OPTIONS"));
    }
    let answer = service
        .call_short_host(Method::OPTIONS, "/whatever", &[])
        .await;
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("allow"), Some("GET, HEAD, OPTIONS"));
}

#[tokio::test]
async fn redirect_waits_for_lagging_link() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "Fresh").await;
    let request = || service.follow("/fresh");
    let answer = service
        .answer_after(request, async {
            insert_redirect(service.pool(), &link).await;
            // The position of the link's event is enough: the charge follows the link.
            let created_at = link.position - 1;
            set_checkpoint(service.pool(), "redirects", caller.account_id, created_at).await;
        })
        .await;
    assert_eq!(answer.status, 302, "{}", answer.body);
}

#[tokio::test]
async fn lagging_link_is_never_404() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "fresh").await;
    // The checkpoint of another projection does not matter.
    set_checkpoint(service.pool(), "links", caller.account_id, link.position).await;
    let answer = service.follow("/fresh").await;
    assert_page(&answer, 503, "The link can't be followed just now");
    assert_eq!(answer.header("retry-after"), Some("1"));
    // A later checkpoint does not make the link 404 either: the log contains the link.
    set_checkpoint(
        service.pool(),
        "redirects",
        caller.account_id,
        link.position,
    )
    .await;
    let json = [("accept", "application/json")];
    let answer = service.call_short_host(Method::GET, "/fresh", &json).await;
    answer.assert_read_model_behind();
}
