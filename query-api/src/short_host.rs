//! The short host: one route, with pages for people in place of problem details.

mod page;

use std::{net::SocketAddr, sync::Arc};

use axum::{
    extract::Request,
    http::{Method, StatusCode, header::ALLOW, request::Parts},
    response::{IntoResponse, Response},
};
use linkledger_core::link::printed_slug;
use linkledger_http::{
    answer::{AnswerSettings, Answers, no_such_route},
    problem::{Code, Problem},
    route_table,
};
use linkledger_service::lifecycle::Serve;

use crate::{
    clicks::Visit,
    redirect::{FollowLink, follow_link, no_such_short_link},
};

const ALLOWED_METHODS: &str = "GET, HEAD, OPTIONS";

/// Service of the short host. The service has no axum router: a router costs more than a redirect.
#[derive(Clone)]
pub struct ShortHost {
    follow: FollowLink,
    answers: Arc<Answers>,
    /// Address of the API, for those who look for it here.
    base_url: Arc<str>,
    /// Peer of the connection; `None` in calls without a socket.
    peer: Option<SocketAddr>,
}

impl Serve for ShortHost {
    fn for_peer(&self, peer: SocketAddr) -> Self {
        Self {
            peer: Some(peer),
            ..self.clone()
        }
    }

    async fn answer(&self, request: Request) -> Response {
        let (head, _) = request.into_parts();
        let handle = async |head: &Parts, _| self.handle(head).await;
        let mut response = self.answers.answer(&head, handle).await;
        let is_missing = response.status() == StatusCode::NOT_FOUND;
        // Not for each redirect: the search would cost a quarter of it.
        let is_of_api = is_missing && route_table::is_of_api(head.uri.path());
        let api = is_of_api.then_some(&*self.base_url);
        page::render_problem_as_page(&mut response, &head.headers, api);
        response
    }
}

impl ShortHost {
    pub(crate) fn new(follow: FollowLink, settings: AnswerSettings) -> Self {
        Self {
            follow,
            base_url: Arc::clone(&settings.base_url),
            answers: Arc::new(Answers::new(settings)),
            peer: None,
        }
    }

    async fn handle(&self, head: &Parts) -> Response {
        let (method, path) = (&head.method, head.uri.path());
        let Some(path) = path.strip_prefix('/') else {
            return no_such_route(method, path, no_such_path);
        };
        let answer = self.answer_of(head, path).await;
        answer
            .map_err(|problem| self.named(problem, head))
            .into_response()
    }

    async fn answer_of(&self, head: &Parts, path: &str) -> Result<Response, Problem> {
        let slug = printed_slug::parse(path);
        if slug.is_none() && (path.is_empty() || path.contains('/')) {
            return Err(no_such_path());
        }
        let visit = Visit {
            method: &head.method,
            headers: &head.headers,
            peer: self.peer,
        };
        match head.method {
            Method::GET | Method::HEAD => {
                let slug = slug.ok_or_else(no_such_short_link)?;
                follow_link(&self.follow, &slug, visit).await
            }
            Method::OPTIONS => {
                Ok((StatusCode::NO_CONTENT, [(ALLOW, ALLOWED_METHODS)]).into_response())
            }
            _ => Err(Problem::method_not_allowed(ALLOWED_METHODS)),
        }
    }

    /// Names the API if its path was looked for here.
    fn named(&self, problem: Problem, head: &Parts) -> Problem {
        let is_missing = matches!(problem.code, Code::RouteNotFound | Code::LinkNotFound);
        if is_missing && route_table::is_of_api(head.uri.path()) {
            return Problem::path_of_api(&self.base_url);
        }
        problem
    }
}

fn no_such_path() -> Problem {
    let detail = "Check the path; a short link has exactly one part.";
    Problem::new(Code::RouteNotFound, detail)
}
