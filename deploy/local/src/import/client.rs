//! The one call of the import: create a link, as often as it takes under the same key.

use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::body::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, StatusCode, Uri,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER},
};
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

/// Attempts for one link before the import stops: some two minutes.
const ATTEMPTS_MAX: u32 = 30;
/// First delay between two attempts.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(100);
/// Longest delay between two attempts.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);
/// Longest wait for one answer; longer than the service itself waits for anything.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// What became of one line.
#[derive(Debug)]
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
}

/// An answer, and whether asking again may help.
enum Answer {
    Final(Created),
    TryAgain {
        reason: String,
        after: Option<Duration>,
    },
}

impl Client {
    pub(super) fn new(api_url: &str, api_key: &str) -> anyhow::Result<Self> {
        let links = format!("{}/v1/links", api_url.trim_end_matches('/'));
        let mut authorization = HeaderValue::from_str(&format!("Bearer {api_key}"))
            .ok()
            .context("the API key has characters that no key has")?;
        authorization.set_sensitive(true);
        Ok(Self {
            http: HttpClient::builder(TokioExecutor::new()).build_http(),
            links: links
                .parse()
                .with_context(|| format!("{api_url} is not an address"))?,
            authorization,
        })
    }

    /// Creates a link, or learns that it exists or is refused.
    pub(super) async fn create(&self, key: Uuid, destination: &str) -> anyhow::Result<Created> {
        let body = Bytes::from(json!({ "destination_url": destination }).to_string());
        let mut delay = RETRY_DELAY_MIN;
        let mut last_reason = String::new();
        for _ in 0..ATTEMPTS_MAX {
            match self.attempt(key, body.clone()).await? {
                Answer::Final(created) => return Ok(created),
                Answer::TryAgain { reason, after } => {
                    last_reason = reason;
                    tokio::time::sleep(after.unwrap_or(delay)).await;
                    delay = (delay * 2).min(RETRY_DELAY_MAX);
                }
            }
        }
        bail!("{} does not answer as it should: {last_reason}", self.links)
    }

    async fn attempt(&self, key: Uuid, body: Bytes) -> anyhow::Result<Answer> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(&self.links)
            .header(AUTHORIZATION, &self.authorization)
            .header(CONTENT_TYPE, "application/json")
            .header("idempotency-key", key.hyphenated().to_string())
            .body(Full::new(body))
            .context("can't make the request")?;
        let try_again = |reason: String| Answer::TryAgain {
            reason,
            after: None,
        };
        let response = match tokio::time::timeout(ANSWER_TIMEOUT, self.http.request(request)).await
        {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Ok(try_again(format!("{:#}", anyhow::Error::new(error)))),
            Err(_elapsed) => return Ok(try_again("no answer in time".to_owned())),
        };
        let (head, body) = response.into_parts();
        if head.status == StatusCode::CREATED {
            let is_replayed = head.headers.contains_key("idempotent-replayed");
            return Ok(Answer::Final(if is_replayed {
                Created::Before
            } else {
                Created::Now
            }));
        }
        let Ok(body) = body.collect().await else {
            return Ok(try_again("the answer broke off".to_owned()));
        };
        let problem: Problem = serde_json::from_slice(&body.to_bytes())
            .with_context(|| format!("{} is not the API of linkledger", self.links))?;
        let after = head
            .headers
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok());
        let after = after
            .and_then(|text| text.parse().ok())
            .map(Duration::from_secs);
        match head.status.as_u16() {
            409 if problem.code != "idempotency_key_in_use" => Ok(refused(problem)),
            409 | 429 | 500..=599 => Ok(Answer::TryAgain {
                reason: problem.detail,
                after,
            }),
            401 | 403 => bail!("{}", problem.detail),
            _ => Ok(refused(problem)),
        }
    }
}

/// The code of the field is more telling than `validation_failed`.
fn refused(problem: Problem) -> Answer {
    let field = problem.errors.into_iter().next();
    Answer::Final(Created::Refused(
        field.map_or(problem.code, |error| error.code),
    ))
}

#[derive(Deserialize)]
struct Problem {
    code: String,
    detail: String,
    #[serde(default)]
    errors: Vec<FieldProblem>,
}

#[derive(Deserialize)]
struct FieldProblem {
    code: String,
}
