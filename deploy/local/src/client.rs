//! The client of the HTTP API, for the import and for all commands. A call is retried with backoff,
//! within the limits of a retry policy.
//!
//! Nearly every call can be retried: a create carries an idempotency key, and a read or a deletion has the
//! same result when it is done twice. A change of a link has the same result too, unless another
//! client changed the link between the two attempts: then the retry overwrites the other change, and
//! only `If-Match` prevents the loss. A test and a replay of a webhook have another effect each time:
//! they are sent again only if the attempt before had none.

pub(crate) mod batch;
mod call;
pub(crate) mod connection;
pub(crate) mod keyed;
mod refusal;
mod retry;

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use linkledger_core::{clock::random_bytes, config::BaseUrl};
use reqwest::{
    ClientBuilder, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue},
    redirect,
};
use serde::Deserialize;
use url::{Host, Url};

use crate::output::WrongUse;
pub(crate) use call::ApiCall;
pub(crate) use connection::ApiTarget;
pub(crate) use refusal::{ApiRefusal, CallFailure};
pub(crate) use retry::RetryPolicy;
use retry::{AttemptOutcome, RetryCause, is_retried, judge};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of one attempt; longer than any timeout inside the services.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of the read that waits for a write to become visible; query-api itself waits for 1 s.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Header with which a read waits for a write.
const CONSISTENCY_TOKEN: &str = "consistency-token";
/// Reason in place of a 412 after a retry: the first attempt may have changed the `ETag` itself.
const LOST_AND_CHANGED: &str = "an answer was lost, and the ETag of the link no longer matches \
     --if-match: the command may have taken effect already; look with `linkledger links get`";
/// Largest response body that is read; much larger than a page of links.
const BODY_BYTES_MAX: usize = 8 << 20;

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct ApiResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl ApiResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the token of a write, with which a later read contains the write.
    pub(crate) fn token(&self) -> Option<&str> {
        self.header(CONSISTENCY_TOKEN)
    }

    /// Returns the body as it was sent, with one line break at the end.
    pub(crate) fn text(&self) -> String {
        format!("{}\n", String::from_utf8_lossy(&self.body).trim_end())
    }
}

/// A client of the API at one address, with one API key.
pub(crate) struct ApiClient {
    http: reqwest::Client,
    api_url: BaseUrl,
    patience: RetryPolicy,
    /// Shows a notice to the user, the first time that a call is retried for the second time.
    notice: Box<dyn Fn(&str) + Send + Sync>,
    has_noticed_retry: AtomicBool,
}

impl ApiClient {
    pub(crate) fn new(
        target: ApiTarget,
        patience: RetryPolicy,
        notice: impl Fn(&str) + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let mut authorization = HeaderValue::from_str(&format!(
            "Bearer {}",
            target.api_key.reveal()
        ))
        .map_err(|_| {
            let advice = "the API key contains characters that no API key has; copy the key again";
            WrongUse(advice.to_owned())
        })?;
        authorization.set_sensitive(true);
        let builder = reqwest::Client::builder()
            .user_agent(concat!("linkledger/", env!("CARGO_PKG_VERSION")))
            .default_headers([(AUTHORIZATION, authorization)].into_iter().collect())
            .connect_timeout(CONNECT_TIMEOUT)
            // The API key must not be sent to an address that a redirect names.
            .redirect(redirect::Policy::none());
        let http = for_address(builder, target.api_url.url()).build();
        Ok(Self {
            http: http.context("can't make an HTTP client")?,
            api_url: target.api_url,
            patience,
            notice: Box::new(notice),
            has_noticed_retry: AtomicBool::new(false),
        })
    }

    /// Sends the call, and retries until the call succeeds, is refused, or the retry policy allows no
    /// further attempt.
    pub(crate) async fn send(&self, call: &ApiCall) -> Result<ApiResponse, CallFailure> {
        let begun = Instant::now();
        // True once an attempt got no answer, and may have taken effect.
        let mut may_be_done = false;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let time_left = self.patience.time_max.saturating_sub(begun.elapsed());
            let trouble = match self.attempt(call, ANSWER_TIMEOUT.min(time_left)).await {
                AttemptOutcome::Done(answer) => return Ok(answer),
                // An earlier attempt may have changed the link, and thereby the ETag.
                AttemptOutcome::Refused(refusal) if may_be_done && refusal.status == 412 => {
                    return Err(self.no_answer(call, LOST_AND_CHANGED, true));
                }
                AttemptOutcome::Refused(refusal) => {
                    return Err(CallFailure::Refused(Box::new(refusal)));
                }
                AttemptOutcome::NotTheApi(status) => return Err(self.not_the_api(call, status)),
                AttemptOutcome::Retry(trouble) => trouble,
            };
            may_be_done |= trouble.may_be_done;
            let [chance] = random_bytes();
            let wait = self
                .patience
                .wait(attempts, begun.elapsed(), trouble.after, chance);
            let is_retryable = call.is_repeatable || !may_be_done;
            let Some(wait) = wait.filter(|_| is_retryable) else {
                return Err(match trouble.refusal.map(Box::new) {
                    Some(refusal) if !may_be_done => CallFailure::Refused(refusal),
                    refusal => CallFailure::NoAnswer {
                        url: self.address(call),
                        reason: trouble.reason,
                        may_be_done,
                        advice: None,
                        refusal,
                    },
                });
            };
            if attempts > 1 && !self.has_noticed_retry.swap(true, Ordering::Relaxed) {
                let url = self.address(call);
                let reason = trouble.reason.lines().next().unwrap_or_default();
                (self.notice)(&format!("retrying {url}: {reason}"));
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Parses the JSON of the response to a call.
    pub(crate) fn read<'a, T: Deserialize<'a>>(
        &self,
        call: &ApiCall,
        answer: &'a ApiResponse,
    ) -> Result<T, CallFailure> {
        serde_json::from_slice(&answer.body).map_err(|_| self.not_the_api(call, answer.status))
    }

    pub(crate) fn not_the_api(&self, call: &ApiCall, status: StatusCode) -> CallFailure {
        CallFailure::NotTheApi {
            url: self.address(call),
            status,
        }
    }

    /// Waits until lists contain the effect of the write with this token, so that the next command of a
    /// script sees the effect. A timeout of this wait is ignored: the write itself succeeded.
    pub(crate) async fn settle(&self, token: Option<&str>) {
        if let Some(token) = token {
            let list = ApiCall::get(&["v1", "links"])
                .query("limit", Some("1".to_owned()))
                .header(CONSISTENCY_TOKEN, Some(token.to_owned()));
            drop(self.attempt(&list, SETTLE_TIMEOUT).await);
        }
    }

    async fn attempt(&self, call: &ApiCall, timeout: Duration) -> AttemptOutcome {
        match self.answer(call, timeout).await {
            Ok(answer) => judge(call.expected, answer),
            Err(error) => AttemptOutcome::Retry(RetryCause {
                reason: reason(&error),
                after: Duration::ZERO,
                may_be_done: !error.is_connect(),
                refusal: None,
            }),
        }
    }

    async fn answer(&self, call: &ApiCall, timeout: Duration) -> reqwest::Result<ApiResponse> {
        let mut request = self
            .http
            .request(call.method.clone(), call.url(&self.api_url))
            .timeout(timeout);
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        if let Some(body) = &call.body {
            request = request
                .header(CONTENT_TYPE, "application/json")
                .body(body.to_string());
        }
        let mut response = request.send().await?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            // A body that is cut off here is not valid JSON, and is reported as not of this API.
            let room = BODY_BYTES_MAX - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == BODY_BYTES_MAX {
                break;
            }
        }
        Ok(ApiResponse {
            status: response.status(),
            headers: std::mem::take(response.headers_mut()),
            body,
        })
    }

    pub(crate) fn no_answer(&self, call: &ApiCall, reason: &str, may_be_done: bool) -> CallFailure {
        CallFailure::NoAnswer {
            url: self.address(call),
            reason: reason.to_owned(),
            may_be_done,
            advice: None,
            refusal: None,
        }
    }

    /// Returns the address of the call without the query, since a filter may contain private data, and
    /// without a password.
    fn address(&self, call: &ApiCall) -> String {
        let mut url = call.url(&self.api_url);
        url.set_query(None);
        // Fails for an address that can have no password.
        url.set_password(None).ok();
        url.into()
    }
}

/// Configures a client for an address. An address of this machine is called without a
/// proxy. For an address without TLS no certificates of authorities are loaded, since loading the
/// certificates takes longer than the call.
pub(crate) fn for_address(builder: ClientBuilder, url: &Url) -> ClientBuilder {
    // Building a client needs a provider of cryptography, with TLS and without. The error says that
    // another part of the process has installed the provider already.
    drop(rustls::crypto::ring::default_provider().install_default());
    let is_loopback = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    let builder = if is_loopback {
        builder.no_proxy()
    } else {
        builder
    };
    if url.scheme() == "http" {
        return builder.tls_certs_only([]);
    }
    builder
}

/// Describes the root cause of an error. The text of the error itself says only that sending failed.
fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() && !error.is_connect() {
        return "no answer before the timeout".to_owned();
    }
    let cause = anyhow::Chain::new(error).last().unwrap_or(error);
    let is_refused = cause
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if is_refused {
        "no server listens at this address; start the stack with `linkledger`, or set \
         LINKLEDGER_API_URL to the address of your API"
            .to_owned()
    } else if error.is_connect() {
        format!("can't connect: {cause}")
    } else {
        cause.to_string()
    }
}
