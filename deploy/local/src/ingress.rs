//! The ingress of the local stack: one port for command-api and query-api, without a proxy hop.

use axum::{
    Router,
    extract::Request,
    http::Method,
    response::{IntoResponse as _, Response},
};
use tower::ServiceExt as _;

/// Routes POST, PATCH and DELETE to command-api, and every other method to query-api.
pub(crate) fn router(command_api: Router, query_api: Router) -> Router {
    Router::new().fallback(move |request: Request| {
        let is_command = matches!(
            *request.method(),
            Method::POST | Method::PATCH | Method::DELETE
        );
        let router = if is_command {
            command_api.clone()
        } else {
            query_api.clone()
        };
        async move { answer(router, request).await }
    })
}

async fn answer(router: Router, request: Request) -> Response {
    match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => never.into_response(),
    }
}
