//! The OpenAPI document and the page that renders the document, readable without an API key.

use axum::http::Method;

use crate::service::TestService;

/// Returns the files that the page loads from the service, and all other addresses in the page.
fn addresses(page: &str) -> Vec<&str> {
    ["href=\"", "src=\""]
        .into_iter()
        .flat_map(|attribute| page.split(attribute).skip(1))
        .filter_map(|rest| rest.split('"').next())
        .collect()
}

#[tokio::test]
async fn docs_page_loads_only_from_service() {
    let service = TestService::start().await;
    let page = service.call_api(Method::GET, "/docs", &[]).await;
    assert_eq!(page.status, 200);
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");

    let named = addresses(&page.body);
    // Relative addresses: the API can lie below a path of its host.
    let is_beside = |address: &&&str| !address.contains(':') && !address.starts_with('/');
    let loaded: Vec<&&str> = named.iter().filter(is_beside).collect();
    assert_eq!(loaded.len(), 5, "{named:?}");
    let others = named.iter().filter(|address| !is_beside(address));
    assert!(others.clone().all(|address| address.starts_with("data:")));
    for name in loaded {
        let path = &format!("/{name}");
        let file = service.call_api(Method::GET, path, &[]).await;
        assert_eq!(file.status, 200, "{path}");
        assert!(file.header("cache-control").is_some(), "{path}");
        let head = service.call_api(Method::HEAD, path, &[]).await;
        assert_eq!(head.status, 200, "{path}");
        assert_eq!(head.header("content-type"), file.header("content-type"));
        assert!(head.body.is_empty(), "{path}");
    }
}

#[tokio::test]
async fn served_openapi_equals_committed_file() {
    let service = TestService::start().await;
    let document = service.call_api(Method::GET, "/openapi.json", &[]).await;
    assert_eq!(document.header("content-type"), Some("application/json"));
    assert_eq!(document.body, include_str!("../../../docs/openapi.json"));
    assert_eq!(document.json()["openapi"], "3.1.0");
}

#[tokio::test]
async fn unknown_paths_below_docs_are_404() {
    let service = TestService::start().await;
    for path in ["/docs/", "/docs/index.html", "/docs/../openapi.json"] {
        let answer = service.call_api(Method::GET, path, &[]).await;
        answer.assert_problem(404, "route_not_found");
    }
    let answer = service.call_api(Method::DELETE, "/docs", &[]).await;
    answer.assert_problem(405, "method_not_allowed");
}
