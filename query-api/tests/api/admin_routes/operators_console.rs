//! The files of the console for operators, readable without an admin key.

use std::collections::BTreeSet;

use axum::http::Method;
use url::Url;

use crate::service::{Answer, TestService};

const PAGE: &str = "/operators/";
/// Files of both folders.
const FILES: &[&str] = &[
    "/operators/main.js",
    "/operators/operators.css",
    "/console/console.css",
    "/console/dom.js",
];

async fn get(service: &TestService, path: &str) -> Answer {
    service.call_admin(Method::GET, path, &[]).await
}

#[tokio::test]
async fn operators_files_have_types_and_strict_headers() {
    let service = TestService::start().await;
    for path in [PAGE].iter().chain(FILES) {
        let file = get(&service, path).await;
        assert_eq!(file.status, 200, "{path}");
        let content_type = match path.rsplit_once('.') {
            Some((_, "css")) => "text/css; charset=utf-8",
            Some((_, "js")) => "text/javascript; charset=utf-8",
            _ => "text/html; charset=utf-8",
        };
        assert_eq!(file.header("content-type"), Some(content_type), "{path}");
        let policy = file.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; "), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(file.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(file.header("cache-control"), Some("no-cache"));

        let tag = ("if-none-match", file.header("etag").unwrap());
        let same = service.call_admin(Method::GET, path, &[tag]).await;
        assert_eq!(same.status, 304, "{path}");
        let answer = service.call_admin(Method::POST, path, &[]).await;
        answer.assert_problem(405, "method_not_allowed");
        assert_eq!(answer.header("allow"), Some("GET, HEAD, OPTIONS"));
    }
}

#[tokio::test]
async fn root_leads_to_the_console() {
    let service = TestService::start().await;
    for path in ["/", "/operators"] {
        let redirect = get(&service, path).await;
        assert_eq!(redirect.status, 308, "{path}");
        assert_eq!(redirect.header("location"), Some("operators/"), "{path}");
    }
}

/// Returns the addresses of files that a page, or a script with its imports, names.
fn named(body: &str) -> impl Iterator<Item = &str> {
    ["href=\"", "src=\"", "from \"", "import \"", "import(\""]
        .into_iter()
        .flat_map(move |beginning| body.split(beginning).skip(1))
        .filter_map(|rest| rest.split('"').next())
        .filter(|address| matches!(address.rsplit_once('.'), Some((_, "css" | "js"))))
}

#[tokio::test]
async fn every_file_that_the_console_loads_is_served() {
    let service = TestService::start().await;
    let origin = Url::parse("http://10.2.3.4:8086").unwrap();
    let (mut loaded, mut next) = (BTreeSet::new(), vec![PAGE.to_owned()]);
    while let Some(path) = next.pop() {
        if !loaded.insert(path.clone()) {
            continue;
        }
        let file = get(&service, &path).await;
        assert_eq!(file.status, 200, "{path}");
        let base = origin.join(&path).unwrap();
        for address in named(&file.body) {
            let is_relative = !address.starts_with('/') && !address.contains(':');
            assert!(is_relative, "{path}: {address}");
            next.push(base.join(address).unwrap().path().to_owned());
        }
    }
    for path in FILES {
        assert!(loaded.contains(*path), "{path}: {loaded:?}");
    }
}

#[tokio::test]
async fn files_are_on_one_listener() {
    let service = TestService::start().await;
    for path in [
        "/operators/index.html",
        "/operators/nowhere.js",
        "/console/index.html",
    ] {
        get(&service, path)
            .await
            .assert_problem(404, "route_not_found");
    }
    for path in [PAGE, "/operators/main.js", "/operators"] {
        let answer = service.call_api(Method::GET, path, &[]).await;
        answer.assert_problem(404, "route_not_found");
    }
}
