//! The one way to call the API: a call is sent as often as it takes, within its patience.
//!
//! The import and the commands share it. Every call may be repeated: a create has its key, a read
//! and a deletion come to the same when they are done twice. So does a change, unless somebody else
//! changed the link between the two: that is overwritten, and only `If-Match` guards against it.

mod call;
pub(crate) mod connection;
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

pub(crate) use call::Call;
pub(crate) use connection::Target;
pub(crate) use refusal::{Failure, Refusal};
pub(crate) use retry::Patience;
use retry::{Trouble, Verdict, judge};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for one answer; longer than the service itself waits for anything.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait for the read side after a write; the service itself waits for a second.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Header by which a read waits for a write.
const CONSISTENCY_TOKEN: &str = "consistency-token";
/// Said instead of a 412 that the first attempt may have caused itself.
const LOST_AND_CHANGED: &str =
    "an answer was lost, and the link is no longer as --if-match says: it may be changed already";
/// Largest answer that is read: far above a page of links, far below what would hurt.
const BODY_BYTES_MAX: usize = 8 << 20;

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The document as it was sent, on a line of its own.
    pub(crate) fn text(&self) -> String {
        format!("{}\n", String::from_utf8_lossy(&self.body).trim_end())
    }
}

/// A client of the API at one address with one key.
pub(crate) struct Client {
    http: reqwest::Client,
    api_url: BaseUrl,
    patience: Patience,
    /// Tells people that a call is sent again; once is enough.
    notice: Box<dyn Fn(&str) + Send + Sync>,
    has_told: AtomicBool,
}

impl Client {
    pub(crate) fn new(
        target: Target,
        patience: Patience,
        notice: impl Fn(&str) + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let mut authorization =
            HeaderValue::from_str(&format!("Bearer {}", target.api_key.reveal()))
                .ok()
                .context("the API key has characters that no key has")?;
        authorization.set_sensitive(true);
        let builder = reqwest::Client::builder()
            .user_agent(concat!("linkledger/", env!("CARGO_PKG_VERSION")))
            .default_headers([(AUTHORIZATION, authorization)].into_iter().collect())
            .connect_timeout(CONNECT_TIMEOUT)
            // The key is for this address, not for one that an answer names.
            .redirect(redirect::Policy::none());
        let http = for_address(builder, target.api_url.url()).build();
        Ok(Self {
            http: http.context("can't make an HTTP client")?,
            api_url: target.api_url,
            patience,
            notice: Box::new(notice),
            has_told: AtomicBool::new(false),
        })
    }

    /// Sends the call until it is done, refused, or the patience is at its end.
    pub(crate) async fn send(&self, call: &Call) -> Result<Answer, Failure> {
        let begun = Instant::now();
        let mut may_be_done = false;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let time_left = self.patience.time_max.saturating_sub(begun.elapsed());
            let trouble = match self.attempt(call, ANSWER_TIMEOUT.min(time_left)).await {
                Verdict::Done(answer) => return Ok(answer),
                // The first attempt may have changed the link, and its ETag with it.
                Verdict::Refused(refusal) if may_be_done && refusal.status == 412 => {
                    return Err(self.no_answer(call, LOST_AND_CHANGED));
                }
                Verdict::Refused(refusal) => return Err(Failure::Refused(Box::new(refusal))),
                Verdict::NotTheApi(status) => return Err(self.not_the_api(call, status)),
                Verdict::TryAgain(trouble) => trouble,
            };
            may_be_done |= trouble.may_be_done;
            let [chance] = random_bytes();
            let wait = self
                .patience
                .wait(attempts, begun.elapsed(), trouble.after, chance);
            let Some(wait) = wait else {
                return Err(match trouble.refusal {
                    Some(refusal) if !may_be_done => Failure::Refused(Box::new(refusal)),
                    _ => self.no_answer(call, &trouble.reason),
                });
            };
            if attempts > 1 && !self.has_told.swap(true, Ordering::Relaxed) {
                let url = self.address(call);
                let reason = trouble.reason.lines().next().unwrap_or_default();
                (self.notice)(&format!("trying {url} again: {reason}"));
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// What the answer to the call says.
    pub(crate) fn read<'a, T: Deserialize<'a>>(
        &self,
        call: &Call,
        answer: &'a Answer,
    ) -> Result<T, Failure> {
        serde_json::from_slice(&answer.body).map_err(|_| self.not_the_api(call, answer.status))
    }

    pub(crate) fn not_the_api(&self, call: &Call, status: StatusCode) -> Failure {
        Failure::NotTheApi {
            url: self.address(call),
            status,
        }
    }

    /// Waits, as long as the service does, until lists contain what that write has done: the next
    /// command of a script should see it. That it may not is no failure of the write.
    pub(crate) async fn settle(&self, written: &Answer) {
        if let Some(token) = written.header(CONSISTENCY_TOKEN) {
            let list = Call::get(&["v1", "links"])
                .query("limit", Some("1".to_owned()))
                .header(CONSISTENCY_TOKEN, Some(token.to_owned()));
            drop(self.attempt(&list, SETTLE_TIMEOUT).await);
        }
    }

    async fn attempt(&self, call: &Call, timeout: Duration) -> Verdict {
        match self.answer(call, timeout).await {
            Ok(answer) => judge(call.expected, answer),
            Err(error) => Verdict::TryAgain(Trouble {
                reason: reason(&error),
                after: Duration::ZERO,
                may_be_done: !error.is_connect(),
                refusal: None,
            }),
        }
    }

    async fn answer(&self, call: &Call, timeout: Duration) -> reqwest::Result<Answer> {
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
            // What is cut off is no JSON any more, and judged as such.
            let room = BODY_BYTES_MAX - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == BODY_BYTES_MAX {
                break;
            }
        }
        Ok(Answer {
            status: response.status(),
            headers: std::mem::take(response.headers_mut()),
            body,
        })
    }

    pub(crate) fn no_answer(&self, call: &Call, reason: &str) -> Failure {
        Failure::NoAnswer {
            url: self.address(call),
            reason: reason.to_owned(),
            advice: None,
        }
    }

    /// Without the query: a filter may hold what should not be shown.
    fn address(&self, call: &Call) -> String {
        let mut url = call.url(&self.api_url);
        url.set_query(None);
        url.into()
    }
}

/// No proxy before this machine, and no certificates of authorities where there is no TLS: loading
/// them takes longer than the call.
fn for_address(builder: ClientBuilder, url: &Url) -> ClientBuilder {
    // Built into each client, used or not; it is in place already when the stack has set it.
    #[cfg(feature = "https")]
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
    #[cfg(feature = "https")]
    if url.scheme() == "http" {
        return builder.tls_certs_only([]);
    }
    builder
}

/// What is at the bottom of the error: its surface says only that sending has failed.
fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() && !error.is_connect() {
        return "no answer in time".to_owned();
    }
    let cause = anyhow::Chain::new(error).last().unwrap_or(error);
    let is_refused = cause
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if is_refused {
        "nothing listens there; is it running? (`linkledger` without a command starts the stack)"
            .to_owned()
    } else if error.is_connect() {
        format!("can't connect: {cause}")
    } else {
        cause.to_string()
    }
}
