//! One attempt to send a message: one request, whose answer says what becomes of the message.

use std::{io, time::Duration};

use linkledger_core::{
    clock::Clock,
    webhook::{AttemptOutcome, MasterKeys, Webhook, WebhookSecret, WebhookUrl},
};
use linkledger_event_store::webhooks::deliveries::storable;
use linkledger_service::metrics::WEBHOOK_ATTEMPTS_TOTAL;
use metrics::counter;
use reqwest::{
    RequestBuilder, Response,
    header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER},
};
use time::{OffsetDateTime, format_description::well_known::Rfc2822};
use tokio::time::{Instant, timeout_at};

use super::connector::Connector;

/// Longest wait for the rest of an answer after its head.
const BODY_TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum number of bytes of an answer that are read.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Outcomes of attempts, as values of a metric's label.
pub(super) const OUTCOMES: [&str; 4] = ["accepted", "refused", "gone", "ill"];

/// Sends requests.
pub(super) struct Sender {
    pub(super) connector: Connector,
    /// Longest time from the beginning of the connection to the end of the answer.
    pub(super) time_max: Duration,
}

/// Secrets that sign the messages of a webhook.
pub(super) struct Signer {
    current: WebhookSecret,
    previous: Option<(WebhookSecret, OffsetDateTime)>,
}

/// What a request sends.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentMessage<'a> {
    /// Value of the header `webhook-id`.
    pub(super) id: &'a str,
    pub(super) body: &'a str,
}

/// Result of an attempt, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) outcome: AttemptOutcome,
    pub(super) at: OffsetDateTime,
    pub(super) status: Option<u16>,
    /// Reason why the message was not accepted. Never has the address, whose path may be a secret.
    pub(super) error: Option<String>,
    /// Beginning of the answer's body.
    pub(super) response: Option<String>,
}

impl Signer {
    /// Returns the secrets of a webhook; `None` if the master key of the current one is not in the file.
    pub(super) fn of(webhook: &Webhook, keys: &MasterKeys) -> Option<Self> {
        let webhook_id = webhook.webhook_id;
        let previous = webhook.previous_secret.as_ref().and_then(|previous| {
            let secret = keys.secret(webhook_id, &previous.version)?;
            Some((secret, previous.valid_until))
        });
        Some(Self {
            current: keys.secret(webhook_id, &webhook.secret)?,
            previous,
        })
    }

    /// Returns the header `webhook-signature`: the signature of each secret that is valid now.
    fn signatures(&self, message: SentMessage<'_>, now: OffsetDateTime) -> String {
        let previous = self.previous.as_ref();
        let previous = previous.filter(|(_, valid_until)| now < *valid_until);
        let secrets = std::iter::once(&self.current).chain(previous.map(|(secret, _)| secret));
        let seconds = now.unix_timestamp();
        let signatures = secrets.map(|secret| secret.signature(message.id, seconds, message.body));
        signatures.collect::<Vec<_>>().join(" ")
    }
}

impl Sender {
    /// Sends a message once.
    pub(super) async fn send(
        &self,
        url: &WebhookUrl,
        signer: &Signer,
        message: SentMessage<'_>,
        clock: &dyn Clock,
    ) -> Attempt {
        let now = clock.now();
        let attempt = if let Err(refused) = self.connector.check(url) {
            Attempt::without_answer(now, refused.to_string())
        } else {
            let deadline = Instant::now() + self.time_max;
            let request = self.request(url, signer, message, now);
            match timeout_at(deadline, request.send()).await {
                Ok(Ok(answer)) => attempt_of(answer, now, deadline).await,
                Ok(Err(error)) => Attempt::without_answer(now, reason(&error)),
                Err(_) => Attempt::without_answer(now, "no answer before the timeout".to_owned()),
            }
        };
        counter!(WEBHOOK_ATTEMPTS_TOTAL, "outcome" => attempt.label()).increment(1);
        // Delays count from the end of the attempt.
        Attempt {
            at: clock.now(),
            ..attempt
        }
    }

    fn request(
        &self,
        url: &WebhookUrl,
        signer: &Signer,
        message: SentMessage<'_>,
        now: OffsetDateTime,
    ) -> RequestBuilder {
        self.connector
            .client
            .post(url.as_str())
            .header("webhook-id", message.id)
            .header("webhook-timestamp", now.unix_timestamp().to_string())
            .header("webhook-signature", signer.signatures(message, now))
            .header(CONTENT_TYPE, "application/json")
            .body(message.body.to_owned())
    }
}

/// Returns the attempt that is answered. The status alone decides: a receiver that accepts a message, and sends the
/// rest of its answer slowly or not at all, must not get the message again.
async fn attempt_of(mut answer: Response, now: OffsetDateTime, deadline: Instant) -> Attempt {
    let status = answer.status().as_u16();
    let retry_after = retry_after(answer.headers(), now);
    let body = beginning_of_body(&mut answer, deadline).await;
    Attempt::of_answer(now, status, retry_after, &body)
}

impl Attempt {
    fn of_answer(
        at: OffsetDateTime,
        status: u16,
        retry_after: Option<Duration>,
        body: &[u8],
    ) -> Self {
        let outcome = AttemptOutcome::of_status(status, retry_after);
        let is_accepted = outcome == AttemptOutcome::Accepted;
        Self {
            outcome,
            at,
            status: Some(status),
            error: (!is_accepted).then(|| format!("the receiver answers {status}")),
            // Cut now: the rest would only take memory.
            response: Some(storable(&String::from_utf8_lossy(body))),
        }
    }

    pub(super) fn without_answer(at: OffsetDateTime, error: String) -> Self {
        Self {
            outcome: AttemptOutcome::Ill { retry_after: None },
            at,
            status: None,
            error: Some(error),
            response: None,
        }
    }

    fn label(&self) -> &'static str {
        match self.outcome {
            AttemptOutcome::Accepted => "accepted",
            AttemptOutcome::Refused => "refused",
            AttemptOutcome::Gone => "gone",
            AttemptOutcome::Ill { .. } => "ill",
        }
    }

    /// Returns the status, as stored.
    pub(super) fn stored_status(&self) -> Option<i16> {
        self.status.and_then(|status| i16::try_from(status).ok())
    }
}

/// Reads the beginning of the body; nothing after [`BODY_BYTES_MAX`] bytes, [`BODY_TIME_MAX`] or the deadline, which
/// closes the connection.
async fn beginning_of_body(answer: &mut Response, deadline: Instant) -> Vec<u8> {
    let until = deadline.min(Instant::now() + BODY_TIME_MAX);
    let mut body = Vec::new();
    let reading = async {
        while body.len() < BODY_BYTES_MAX
            && let Ok(Some(chunk)) = answer.chunk().await
        {
            let room = BODY_BYTES_MAX - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        }
    };
    timeout_at(until, reading).await.ok();
    body
}

/// Returns the delay of `Retry-After`: seconds, or the time until a date.
fn retry_after(headers: &HeaderMap, now: OffsetDateTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = OffsetDateTime::parse(text, &Rfc2822).ok()?;
    Duration::try_from(date - now).ok()
}

/// Describes the root cause of an error. The text of the error itself has the address.
fn reason(error: &reqwest::Error) -> String {
    let cause = anyhow::Chain::new(error).last();
    let is_refused = cause
        .and_then(|cause| cause.downcast_ref::<io::Error>())
        .is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if is_refused {
        return "connection refused".to_owned();
    }
    if error.is_timeout() {
        return "cannot connect before the timeout".to_owned();
    }
    match cause {
        Some(cause) if !cause.is::<reqwest::Error>() => storable(&cause.to_string()),
        Some(_) | None => "the request failed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-11-20 09:51:00 UTC);

    fn retry_after_of(text: &str) -> Option<u64> {
        let value = text.parse().unwrap();
        let headers = HeaderMap::from_iter([(RETRY_AFTER, value)]);
        retry_after(&headers, NOW).map(|delay| delay.as_secs())
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        for (text, seconds) in [
            ("0", Some(0)),
            ("120", Some(120)),
            (" 7 ", Some(7)),
            ("Fri, 20 Nov 2026 09:52:00 GMT", Some(60)),
            // A date in the past asks for no delay.
            ("Fri, 20 Nov 2026 09:50:00 GMT", None),
            ("-1", None),
            ("soon", None),
        ] {
            assert_eq!(retry_after_of(text), seconds, "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), NOW), None);
    }

    #[test]
    fn answer_is_stored_as_characters_without_nul() {
        let body = "\0é".repeat(2_000);
        let attempt = Attempt::of_answer(NOW, 500, None, body.as_bytes());
        assert_eq!(attempt.response, Some("é".repeat(1_024)));
        assert_eq!(attempt.error.as_deref(), Some("the receiver answers 500"));
        let broken = Attempt::of_answer(NOW, 204, None, b"\xff");
        assert_eq!(broken.response.as_deref(), Some("\u{fffd}"));
        assert_eq!((broken.error, broken.status), (None, Some(204)));
    }

    #[test]
    fn previous_secret_signs_until_its_end() {
        let secret = |text: &str| WebhookSecret::parse(text).unwrap();
        let current = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let previous = format!("whsec_{}", "A".repeat(32));
        let signer = Signer {
            current: secret(current),
            previous: Some((secret(&previous), NOW)),
        };
        let message = SentMessage {
            id: "evt_00000000000000000000000000",
            body: "{}",
        };
        let before = NOW - Duration::from_secs(1);
        let both = signer.signatures(message, before);
        let both: Vec<&str> = both.split(' ').collect();
        assert_eq!(both.len(), 2);
        let of = |text: &str, at: OffsetDateTime| {
            secret(text).signature(message.id, at.unix_timestamp(), message.body)
        };
        assert_eq!(both, [of(current, before), of(&previous, before)]);
        assert_eq!(signer.signatures(message, NOW), of(current, NOW));
    }
}
