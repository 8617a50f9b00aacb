//! The short host: its one route, and pages that people can read in place of problem details.

mod accept;
mod page;

use axum::{
    Router,
    extract::State,
    http::{Method, StatusCode, Uri, header::ALLOW},
    middleware,
    response::{IntoResponse, Response},
    routing::any,
};
use linkledger_core::{
    http::answer::{AnswerSettings, with_problem_details},
    problem::{Code, Problem},
};

use crate::redirect::{FollowLink, follow_link};

const ALLOWED_METHODS: &str = "GET, HEAD, OPTIONS";

/// The one route, with everything around it.
pub(crate) fn router(follow: FollowLink, settings: AnswerSettings) -> Router {
    // Every path comes here: those that no route takes are answered from the API's route table.
    let routes = Router::new()
        .route("/", any(answer))
        .route("/{*path}", any(answer))
        .with_state(follow);
    with_problem_details(routes, settings).layer(middleware::from_fn(page::with_pages))
}

async fn answer(
    State(follow): State<FollowLink>,
    method: Method,
    uri: Uri,
) -> Result<Response, Problem> {
    // The path as it was sent: no slug contains a percent sign.
    let slug = uri.path().strip_prefix('/').unwrap_or_default();
    if slug.is_empty() || slug.contains('/') {
        let detail = "Check the path; a short link has exactly one part.";
        return Err(Problem::new(Code::RouteNotFound, detail));
    }
    match method {
        Method::GET | Method::HEAD => follow_link(&follow, slug).await,
        Method::OPTIONS => Ok((StatusCode::NO_CONTENT, [(ALLOW, ALLOWED_METHODS)]).into_response()),
        _ => {
            let detail = format!("Use one of: {ALLOWED_METHODS}.");
            let problem = Problem::new(Code::MethodNotAllowed, detail);
            Err(problem.with_header("allow", ALLOWED_METHODS))
        }
    }
}
