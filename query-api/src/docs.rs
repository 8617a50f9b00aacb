//! The description of the API: the document for programs, and a page for people that renders it.
//! Everything that the page needs comes from here, and it may load nothing from elsewhere.

use std::{borrow::Cow, sync::Arc};

use axum::{
    Router,
    body::Bytes,
    http::{
        HeaderName, HeaderValue,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
            X_CONTENT_TYPE_OPTIONS,
        },
    },
    response::IntoResponse,
    routing::{MethodRouter, get},
};
use linkledger_core::http::route_table;

const DOCUMENT: &str = include_str!("../../docs/openapi.json");
const PAGE: &str = include_str!("docs/page.html");
const STYLE: &str = include_str!("docs/page.css");
const START: &str = include_str!("docs/start.js");

/// The page runs no script but ours, and talks to nobody but the API that it describes.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// What a release changes is asked for each time; Swagger UI itself is large and changes rarely.
const ASK_AGAIN: &str = "no-cache";
const KEEP_FOR_A_DAY: &str = "public, max-age=86400";

/// The document, the page, and what the page loads.
pub(crate) fn router() -> Router {
    let text = |content_type, body: &'static str| file(content_type, ASK_AGAIN, body.into());
    Router::new()
        .route(route_table::OPENAPI, text("application/json", DOCUMENT))
        .route(route_table::DOCS, text("text/html; charset=utf-8", PAGE))
        .route(
            route_table::DOCS_STYLE,
            text("text/css; charset=utf-8", STYLE),
        )
        .route(
            route_table::DOCS_SCRIPT,
            text("text/javascript; charset=utf-8", START),
        )
        .route(
            route_table::SWAGGER_UI_STYLE,
            file(
                "text/css; charset=utf-8",
                KEEP_FOR_A_DAY,
                swagger_ui("swagger-ui.css"),
            ),
        )
        .route(
            route_table::SWAGGER_UI_SCRIPT,
            file(
                "text/javascript; charset=utf-8",
                KEEP_FOR_A_DAY,
                swagger_ui("swagger-ui-bundle.js"),
            ),
        )
}

fn file(content_type: &'static str, cache_control: &'static str, body: Bytes) -> MethodRouter {
    let headers: [(HeaderName, HeaderValue); 5] = [
        (CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (CACHE_CONTROL, HeaderValue::from_static(cache_control)),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
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
