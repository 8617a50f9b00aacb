//! The description of the API: the OpenAPI document for programs, and a page that renders the document for people.
//! The page loads files of query-api only, never a file of another host.

use std::{borrow::Cow, sync::Arc};

use axum::{
    Router,
    body::Bytes,
    http::{
        HeaderName, HeaderValue,
        header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY},
    },
    response::IntoResponse,
    routing::{MethodRouter, get},
};
use linkledger_http::route_table;

const DOCUMENT: &str = include_str!("../../docs/openapi.json");
const PAGE: &str = include_str!("docs/page.html");
const STYLE: &str = include_str!("docs/page.css");
const START: &str = include_str!("docs/start.js");

/// Content security policy: the page runs only the scripts of query-api, and connects only to the API.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// `Cache-Control` of files that a release may change: browsers revalidate them each time.
const REVALIDATE: &str = "no-cache";
/// `Cache-Control` of Swagger UI, which is large and changes rarely.
const KEEP_FOR_A_DAY: &str = "public, max-age=86400";

/// Returns the routes of the document, of the page, and of the files that the page loads.
pub(crate) fn router() -> Router {
    let (css, js) = ("text/css; charset=utf-8", "text/javascript; charset=utf-8");
    let (ui_css, ui_js) = (
        swagger_ui("swagger-ui.css"),
        swagger_ui("swagger-ui-bundle.js"),
    );
    let text =
        |path, content_type, body: &'static str| (path, content_type, REVALIDATE, body.into());
    let files: [(_, _, _, Bytes); 6] = [
        text(route_table::OPENAPI, "application/json", DOCUMENT),
        text(route_table::DOCS, "text/html; charset=utf-8", PAGE),
        text(route_table::DOCS_STYLE, css, STYLE),
        text(route_table::DOCS_SCRIPT, js, START),
        (route_table::SWAGGER_UI_STYLE, css, KEEP_FOR_A_DAY, ui_css),
        (route_table::SWAGGER_UI_SCRIPT, js, KEEP_FOR_A_DAY, ui_js),
    ];
    files.into_iter().fold(
        Router::new(),
        |router, (path, content_type, cache_control, body)| {
            router.route(path, file(content_type, cache_control, body))
        },
    )
}

fn file(content_type: &'static str, cache_control: &'static str, body: Bytes) -> MethodRouter {
    let headers: [(HeaderName, HeaderValue); 4] = [
        (CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (CACHE_CONTROL, HeaderValue::from_static(cache_control)),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    get(async move || (headers, body).into_response())
}

fn swagger_ui(name: &str) -> Bytes {
    let file = utoipa_swagger_ui::serve(name, Arc::default());
    let bytes = file.ok().flatten().expect("a file of Swagger UI").bytes;
    match bytes {
        Cow::Borrowed(bytes) => Bytes::from_static(bytes),
        Cow::Owned(bytes) => bytes.into(),
    }
}
