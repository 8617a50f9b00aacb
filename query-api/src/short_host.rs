//! The short host: one route, with pages for people in place of problem details.

mod accept;
mod page;

use std::{net::SocketAddr, sync::Arc};

use axum::{
    extract::Request,
    http::{Method, StatusCode, header::ALLOW, request::Parts},
    response::{IntoResponse, Response},
};
use linkledger_core::{
    http::answer::{AnswerSettings, Answers, no_such_route},
    lifecycle::Serve,
    problem::{Code, Problem},
};

use crate::{
    clicks::Visit,
    redirect::{FollowLink, follow_link},
};

const ALLOWED_METHODS: &str = "GET, HEAD, OPTIONS";

/// Service of the short host. The service has no axum router: a router costs more than a redirect.
#[derive(Clone)]
pub struct ShortHost {
    follow: FollowLink,
    answers: Arc<Answers>,
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
        page::render_problem_as_page(&mut response, &head.headers);
        response
    }
}

impl ShortHost {
    pub(crate) fn new(follow: FollowLink, settings: AnswerSettings) -> Self {
        Self {
            follow,
            answers: Arc::new(Answers::new(settings)),
            peer: None,
        }
    }

    async fn handle(&self, head: &Parts) -> Response {
        let (method, path) = (&head.method, head.uri.path());
        // The path is not percent-decoded: no slug contains a percent sign.
        match path.strip_prefix('/') {
            Some(slug) => self.answer_of(head, slug).await.into_response(),
            None => no_such_route(method, path),
        }
    }

    async fn answer_of(&self, head: &Parts, slug: &str) -> Result<Response, Problem> {
        if slug.is_empty() || slug.contains('/') {
            let detail = "Check the path; a short link has exactly one part.";
            return Err(Problem::new(Code::RouteNotFound, detail));
        }
        let visit = Visit {
            method: &head.method,
            headers: &head.headers,
            peer: self.peer,
        };
        match head.method {
            Method::GET | Method::HEAD => follow_link(&self.follow, slug, visit).await,
            Method::OPTIONS => {
                Ok((StatusCode::NO_CONTENT, [(ALLOW, ALLOWED_METHODS)]).into_response())
            }
            _ => Err(Problem::method_not_allowed(ALLOWED_METHODS)),
        }
    }
}
