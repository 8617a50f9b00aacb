//! The pages that the `type` of a problem links to, readable without an API key.

use axum::http::Method;
use linkledger_http::problem::Code;

use crate::service::{BASE_URL, TestService};

#[tokio::test]
async fn every_problem_code_has_a_page() {
    let service = TestService::start().await;
    for code in Code::ALL {
        let path = format!("/docs/problems/{}", code.as_str());
        let page = service.call_api(Method::GET, &path, &[]).await;
        assert_eq!(page.status, 200, "{path}");
        assert_eq!(
            page.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; "), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(page.header("cache-control").is_some());
        assert!(page.body.contains(code.title()), "{}", page.body);
        let head = service.call_api(Method::HEAD, &path, &[]).await;
        assert_eq!((head.status.as_u16(), head.body.as_str()), (200, ""));
    }
}

#[tokio::test]
async fn problem_type_is_address_of_page() {
    let service = TestService::start().await;
    let answer = service.call_api(Method::GET, "/v1/links", &[]).await;
    let address = answer.json()["type"].as_str().unwrap().to_owned();
    let path = address.strip_prefix(BASE_URL).unwrap();
    let page = service.call_api(Method::GET, path, &[]).await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("<code>authentication_required</code>"));
    let style = service.call_api(Method::GET, "/docs/page.css", &[]).await;
    assert!(page.body.contains("href=\"../page.css\""));
    assert!(style.body.contains(".problem "));
}

#[tokio::test]
async fn unknown_codes_and_spellings_are_404() {
    let service = TestService::start().await;
    for code in [
        "",
        "unknown",
        "Slug_taken",
        "slug-taken",
        "slug%5Ftaken",
        "slug_taken/",
        "%FF",
    ] {
        let path = format!("/docs/problems/{code}");
        let answer = service.call_api(Method::GET, &path, &[]).await;
        answer.assert_problem(404, "route_not_found");
    }
}
