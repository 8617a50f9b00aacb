//! The files of the console for owners of links, readable without an API key.

use std::io::Read as _;

use axum::http::Method;
use flate2::read::GzDecoder;

use crate::service::TestService;

/// Files that the page at `/console/` names.
const FILES: &[&str] = &[
    "/console/console.css",
    "/console/owners.css",
    "/console/pages.css",
    "/console/main.js",
    "/console/api.js",
];

#[tokio::test]
async fn console_files_have_strict_headers() {
    let service = TestService::start().await;
    for path in ["/", "/console/"].iter().chain(FILES) {
        let file = service.call_api(Method::GET, path, &[]).await;
        assert_eq!(file.status, 200, "{path}");
        let policy = file.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; "), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(file.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(file.header("set-cookie"), None, "{path}");

        let head = service.call_api(Method::HEAD, path, &[]).await;
        assert_eq!(head.status, 200, "{path}");
        assert_eq!(head.header("content-type"), file.header("content-type"));
        assert_eq!(head.header("etag"), file.header("etag"));
        assert!(head.body.is_empty(), "{path}");
    }
}

#[tokio::test]
async fn unchanged_console_file_is_304() {
    let service = TestService::start().await;
    for path in FILES {
        let file = service.call_api(Method::GET, path, &[]).await;
        let tag = file.header("etag").unwrap();
        assert!(tag.starts_with('"'), "{path}: a weak tag {tag}");
        let same = service
            .call_api(Method::GET, path, &[("if-none-match", tag)])
            .await;
        assert_eq!(same.status, 304, "{path}");
        assert!(same.body.is_empty(), "{path}");
        assert_eq!(same.header("etag"), Some(tag));
        let other = service
            .call_api(Method::GET, path, &[("if-none-match", "\"other\"")])
            .await;
        assert_eq!(other.status, 200, "{path}");
    }
}

#[tokio::test]
async fn console_file_is_compressed_for_gzip_only() {
    let service = TestService::start().await;
    let gzip = ("accept-encoding", "gzip, deflate, br");
    for path in ["/", "/console/"].iter().chain(FILES) {
        let plain = service.call_api(Method::GET, path, &[]).await;
        assert_eq!(plain.header("vary"), Some("accept-encoding"), "{path}");
        assert_eq!(plain.header("content-encoding"), None, "{path}");
        let packed = service.call_api(Method::GET, path, &[gzip]).await;
        assert_eq!(packed.header("vary"), Some("accept-encoding"), "{path}");
        assert_eq!(packed.header("content-encoding"), Some("gzip"), "{path}");
        assert_eq!(packed.header("content-type"), plain.header("content-type"));
        let mut content = String::new();
        GzDecoder::new(&packed.bytes[..])
            .read_to_string(&mut content)
            .unwrap();
        assert_eq!(content, plain.body, "{path}");

        let tag = packed.header("etag").unwrap();
        assert_ne!(Some(tag), plain.header("etag"), "{path}");
        let same = ("if-none-match", tag);
        let unchanged = service.call_api(Method::GET, path, &[gzip, same]).await;
        assert_eq!(unchanged.status, 304, "{path}");
        assert_eq!(unchanged.header("etag"), Some(tag), "{path}");
        // The tag names the compressed bytes, which a caller without gzip does not have.
        let other = service.call_api(Method::GET, path, &[same]).await;
        assert_eq!(other.status, 200, "{path}");
    }
}

#[tokio::test]
async fn console_page_names_relative_files_only() {
    let service = TestService::start().await;
    let redirect = service.call_api(Method::GET, "/console", &[]).await;
    assert_eq!(redirect.status, 308);
    assert_eq!(redirect.header("location"), Some("console/"));

    let page = service.call_api(Method::GET, "/console/", &[]).await;
    let named: Vec<&str> = ["href=\"", "src=\""]
        .into_iter()
        .flat_map(|attribute| page.body.split(attribute).skip(1))
        .filter_map(|rest| rest.split('"').next())
        .filter(|address| matches!(address.rsplit_once('.'), Some((_, "css" | "js"))))
        .collect();
    assert!(named.len() >= 3, "{named:?}");
    for name in named {
        assert!(!name.starts_with('/') && !name.contains(':'), "{name}");
        let path = format!("/console/{name}");
        let file = service.call_api(Method::GET, &path, &[]).await;
        assert_eq!(file.status, 200, "{path}");
    }
}

#[tokio::test]
async fn unknown_console_files_are_404() {
    let service = TestService::start().await;
    for path in [
        "/console/nowhere.js",
        "/console/index.html",
        "/console/../openapi.json",
    ] {
        let answer = service.call_api(Method::GET, path, &[]).await;
        answer.assert_problem(404, "route_not_found");
    }
    for path in ["/console", "/console/", "/console/main.js"] {
        let answer = service.call_api(Method::POST, path, &[]).await;
        answer.assert_problem(405, "method_not_allowed");
        assert_eq!(answer.header("allow"), Some("GET, HEAD, OPTIONS"));
    }
}
