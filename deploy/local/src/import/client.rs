//! The one call of the import: create a link, as often as it takes under the same key.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use axum::body::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    HeaderMap, Method, Request, StatusCode, Uri,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER},
    http::uri::Scheme,
};
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::TokioExecutor,
};
use linkledger_core::config::Secret;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

/// How long one link may take, attempts and waits together, before the import stops. A time and
/// not a count: a service that asks us to slow down, or is restarted, must not use us up.
const LINK_TIMEOUT: Duration = Duration::from_mins(5);
/// First delay between two attempts.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(100);
/// Longest delay between two attempts, unless the service asks for a longer one.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);
/// Longest wait for one answer; longer than the service itself waits for anything.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// What became of one line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Created {
    /// The link was created.
    Now,
    /// An earlier run had created it.
    Before,
    /// The contract refuses it, with that code.
    Refused(String),
}

/// A client of the API at one address with one key.
pub(super) struct Client {
    http: HttpClient<HttpConnector, Full<Bytes>>,
    links: Uri,
    authorization: HeaderValue,
    /// Whether it was said that requests are tried again: once is enough.
    has_told: AtomicBool,
}

/// What an attempt comes to, unless the import has to stop.
#[derive(Debug, PartialEq, Eq)]
enum Attempt {
    Final(Created),
    TryAgain {
        reason: String,
        /// The shortest wait that the service asks for.
        after: Duration,
    },
}

impl Client {
    pub(super) fn new(api_url: &str, api_key: &Secret) -> anyhow::Result<Self> {
        let links: Option<Uri> = format!("{}/v1/links", api_url.trim_end_matches('/'))
            .parse()
            .ok();
        let links = links.filter(|links| links.scheme() == Some(&Scheme::HTTP));
        let links = links.with_context(|| {
            format!(
                "{api_url} is not an address that begins with http://; there is no TLS in this \
                 client: use http, or a local proxy"
            )
        })?;
        let mut authorization = HeaderValue::from_str(&format!("Bearer {}", api_key.reveal()))
            .ok()
            .context("the API key has characters that no key has")?;
        authorization.set_sensitive(true);
        Ok(Self {
            http: HttpClient::builder(TokioExecutor::new()).build_http(),
            links,
            authorization,
            has_told: AtomicBool::new(false),
        })
    }

    /// Creates a link, or learns that it exists or is refused.
    pub(super) async fn create(&self, key: Uuid, destination: &str) -> anyhow::Result<Created> {
        let body = Bytes::from(json!({ "destination_url": destination }).to_string());
        let begun = Instant::now();
        let mut delay = RETRY_DELAY_MIN;
        loop {
            let (reason, after) = match self.attempt(key, body.clone()).await? {
                Attempt::Final(created) => return Ok(created),
                Attempt::TryAgain { reason, after } => (reason, after),
            };
            let wait = delay.max(after);
            if begun.elapsed() + wait > LINK_TIMEOUT {
                bail!("{} does not answer as it should: {reason}", self.links);
            }
            if delay > RETRY_DELAY_MIN && !self.has_told.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "{} does not answer as it should, trying again: {reason}",
                    self.links
                );
            }
            tokio::time::sleep(wait).await;
            delay = (delay * 2).min(RETRY_DELAY_MAX);
        }
    }

    async fn attempt(&self, key: Uuid, body: Bytes) -> anyhow::Result<Attempt> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(&self.links)
            .header(AUTHORIZATION, &self.authorization)
            .header(CONTENT_TYPE, "application/json")
            .header("idempotency-key", key.hyphenated().to_string())
            .body(Full::new(body))
            .context("can't make the request")?;
        match tokio::time::timeout(ANSWER_TIMEOUT, self.answer(request)).await {
            Ok(Ok((status, headers, body))) => judge(status, &headers, &body)
                .with_context(|| format!("{} answers with {status}", self.links)),
            Ok(Err(error)) => Ok(try_again(format!("{error:#}"))),
            Err(_elapsed) => Ok(try_again("no answer in time".to_owned())),
        }
    }

    /// The whole answer. The body of a link that was created says nothing that matters here.
    async fn answer(
        &self,
        request: Request<Full<Bytes>>,
    ) -> anyhow::Result<(StatusCode, HeaderMap, Bytes)> {
        let (head, body) = self.http.request(request).await?.into_parts();
        let body = match head.status {
            StatusCode::CREATED => Bytes::new(),
            _ => body
                .collect()
                .await
                .context("the answer broke off")?
                .to_bytes(),
        };
        Ok((head.status, head.headers, body))
    }
}

fn try_again(reason: String) -> Attempt {
    let after = Duration::ZERO;
    Attempt::TryAgain { reason, after }
}

/// Judged by the status, since proxies on the way answer with bodies of their own. An error
/// concerns more than this line: the request as we make it, the key, the account.
fn judge(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> anyhow::Result<Attempt> {
    if status == StatusCode::CREATED {
        let is_replayed = headers.contains_key("idempotent-replayed");
        return Ok(Attempt::Final(if is_replayed {
            Created::Before
        } else {
            Created::Now
        }));
    }
    let problem: Option<Problem> = serde_json::from_slice(body).ok();
    if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
        return Ok(Attempt::TryAgain {
            reason: problem.map_or_else(|| status.to_string(), |problem| problem.detail),
            after: retry_after(headers),
        });
    }
    let problem = problem
        .filter(|_| status.is_client_error())
        .context("this is not the API of linkledger")?;
    match status.as_u16() {
        409 if problem.code == "idempotency_key_in_use" => Ok(Attempt::TryAgain {
            reason: problem.detail,
            after: retry_after(headers),
        }),
        402 | 409 | 413 | 422 => Ok(Attempt::Final(Created::Refused(
            problem.most_telling_code(),
        ))),
        _ => bail!(problem.detail),
    }
}

/// Zero when there is none, or one that gives a date.
fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or_default())
}

#[derive(Deserialize)]
struct Problem {
    code: String,
    detail: String,
    #[serde(default)]
    errors: Vec<FieldProblem>,
}

impl Problem {
    /// That of the field, where one is named, rather than `validation_failed`.
    fn most_telling_code(self) -> String {
        let field = self.errors.into_iter().next();
        field.map_or(self.code, |error| error.code)
    }
}

#[derive(Deserialize)]
struct FieldProblem {
    code: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(code: &str) -> String {
        json!({ "code": code, "detail": "Do this.", "status": 0 }).to_string()
    }

    fn judged(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> String {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect();
        let status = StatusCode::from_u16(status).unwrap();
        match judge(status, &headers, body.as_bytes()) {
            Ok(Attempt::Final(Created::Now)) => "created".to_owned(),
            Ok(Attempt::Final(Created::Before)) => "created before".to_owned(),
            Ok(Attempt::Final(Created::Refused(code))) => format!("refused: {code}"),
            Ok(Attempt::TryAgain { reason, after }) => format!("again in {after:?}: {reason}"),
            Err(error) => format!("stop: {error}"),
        }
    }

    #[test]
    fn a_link_is_created_or_was_before() {
        assert_eq!(judged(201, &[], "{}"), "created");
        let replayed = [("idempotent-replayed", "true")];
        assert_eq!(judged(201, &replayed, "{}"), "created before");
    }

    #[test]
    fn what_passes_is_tried_again_whoever_answered() {
        for (status, body, expected) in [
            (429, problem("rate_limited"), "again in 0ns: Do this."),
            (
                409,
                problem("idempotency_key_in_use"),
                "again in 0ns: Do this.",
            ),
            (500, problem("internal_error"), "again in 0ns: Do this."),
            (503, problem("overloaded"), "again in 0ns: Do this."),
            (504, problem("deadline_exceeded"), "again in 0ns: Do this."),
            (
                429,
                "slow down".to_owned(),
                "again in 0ns: 429 Too Many Requests",
            ),
            (502, "<html>".to_owned(), "again in 0ns: 502 Bad Gateway"),
            (503, String::new(), "again in 0ns: 503 Service Unavailable"),
        ] {
            assert_eq!(judged(status, &[], &body), expected, "{status} {body}");
        }
        let wait = [("retry-after", "7")];
        assert_eq!(judged(429, &wait, &problem("x")), "again in 7s: Do this.");
        assert_eq!(
            judged(503, &wait, "<html>"),
            "again in 7s: 503 Service Unavailable"
        );
        assert_eq!(
            judged(409, &wait, &problem("idempotency_key_in_use")),
            "again in 7s: Do this."
        );
        let date = [("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")];
        assert_eq!(judged(429, &date, &problem("x")), "again in 0ns: Do this.");
    }

    #[test]
    fn what_concerns_the_line_refuses_it() {
        for (status, code) in [
            (402, "insufficient_credits"),
            (409, "slug_taken"),
            (413, "content_too_large"),
            (422, "idempotency_key_reused"),
        ] {
            assert_eq!(
                judged(status, &[], &problem(code)),
                format!("refused: {code}")
            );
        }
        let errors = [json!({ "pointer": "/destination_url", "code": "url_too_long" })];
        let body = json!({ "code": "validation_failed", "detail": "", "errors": errors });
        assert_eq!(judged(422, &[], &body.to_string()), "refused: url_too_long");
    }

    #[test]
    fn what_concerns_more_than_the_line_stops_the_import() {
        for status in [400, 401, 403, 404, 405, 406, 410, 415] {
            assert_eq!(
                judged(status, &[], &problem("x")),
                "stop: Do this.",
                "{status}"
            );
        }
        for status in [200, 202, 204, 301, 308, 400, 404, 409, 422] {
            let stopped = "stop: this is not the API of linkledger";
            assert_eq!(judged(status, &[], "<html>"), stopped, "{status}");
            assert_eq!(judged(status, &[], "{}"), stopped, "{status}");
        }
        let stopped = "stop: this is not the API of linkledger";
        assert_eq!(judged(200, &[], &problem("x")), stopped);
    }

    #[test]
    fn only_http_is_spoken() {
        let key = Secret::from("key".to_owned());
        let complaint = |url| Client::new(url, &key).err().map(|error| error.to_string());
        assert_eq!(complaint("http://127.0.0.1:8080/"), None);
        assert_eq!(complaint("HTTP://api.example.com"), None);
        for url in [
            "https://api.example.com",
            "ftp://example.com",
            "127.0.0.1:8080",
            "/v1",
            "http://",
            "",
        ] {
            let text = complaint(url).unwrap_or_default();
            let begin = format!("{url} is not an address that begins with http://; ");
            assert!(text.starts_with(&begin), "{text}");
            assert_eq!(text.lines().count(), 1, "{text}");
        }
    }
}
