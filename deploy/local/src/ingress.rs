//! The ingresses of the local stack, without a proxy hop: one port for command-api and query-api, and one port for
//! operators.

use axum::{
    Router,
    extract::Request,
    http::{Method, Uri},
    response::{IntoResponse as _, Response},
};
use linkledger_http::{request::part_after, route_table};
use tower::ServiceExt as _;

/// Routes POST, PUT, PATCH and DELETE to command-api, and every other method to query-api.
pub(crate) fn router(command_api: Router, query_api: Router) -> Router {
    Router::new().fallback(move |request: Request| {
        let is_command = matches!(
            *request.method(),
            Method::POST | Method::PUT | Method::PATCH | Method::DELETE
        );
        let router = if is_command {
            command_api.clone()
        } else {
            query_api.clone()
        };
        async move { answer(router, request).await }
    })
}

/// Routes the status and the followers to the projector, and all other paths of operators to the other two services.
pub(crate) fn with_projector(projector: Router, others: Router) -> Router {
    Router::new().fallback(move |request: Request| {
        let router = if is_of_projector(request.uri()) {
            &projector
        } else {
            &others
        };
        answer(router.clone(), request)
    })
}

fn is_of_projector(uri: &Uri) -> bool {
    uri.path() == route_table::ADMIN_STATUS
        || part_after(uri, route_table::ADMIN_FOLLOWERS).is_some()
}

async fn answer(router: Router, request: Request) -> Response {
    match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => never.into_response(),
    }
}
