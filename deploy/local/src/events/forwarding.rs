//! Forwarding of events to a receiver, as webhooks by Standard Webhooks 1.0: one after the other, each until the
//! receiver accepts it.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    config::Secret,
    webhook::WebhookSecret,
};
use reqwest::{header::CONTENT_TYPE, redirect};
use serde::Serialize;
use serde_json::value::RawValue;
use url::Url;

use super::item::FeedEvent;
use crate::{
    client::for_address,
    output::{WrongUse, note},
};

/// Timeout of one attempt.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause after the first failed attempt.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// Longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Error text of a secret that is missing or not valid. The secret itself is never repeated.
const SECRET_WANTED: &str = "--forward-to needs --secret, or the variable LINKLEDGER_WEBHOOK_SECRET: whsec_ and the \
     base64 of 24 to 64 bytes";

/// Options of forwarding.
#[derive(Debug, Args)]
pub(super) struct ForwardingOptions {
    /// Post each event to this address, signed as a webhook (Standard Webhooks), until the receiver accepts it.
    #[arg(long, value_name = "URL", value_parser = receiver_address)]
    forward_to: Option<Url>,
    /// Secret of the signatures: whsec_ and base64. Other users of this machine can read an option, but no variable.
    #[arg(
        long,
        env = "LINKLEDGER_WEBHOOK_SECRET",
        hide_env_values = true,
        value_name = "SECRET"
    )]
    secret: Option<Secret>,
}

/// Receiver of forwarded events.
pub(super) struct EventReceiver {
    http: reqwest::Client,
    url: Url,
    secret: WebhookSecret,
}

/// Body of a delivery.
#[derive(Serialize)]
struct WebhookBody<'a> {
    #[serde(rename = "type")]
    event_type: &'a str,
    timestamp: &'a str,
    data: &'a RawValue,
}

/// Parses the address of a receiver.
fn receiver_address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok();
    url.filter(|url| matches!(url.scheme(), "http" | "https"))
        .ok_or_else(|| "not an http or https address".to_owned())
}

impl ForwardingOptions {
    /// Makes the receiver, if there is one.
    ///
    /// # Errors
    /// Returns an error if the secret is missing or not valid.
    pub(super) fn receiver(&self) -> anyhow::Result<Option<EventReceiver>> {
        let Some(url) = &self.forward_to else {
            return Ok(None);
        };
        let secret = self.secret.as_ref().map(Secret::reveal);
        let secret = secret.and_then(WebhookSecret::parse);
        let secret = secret.ok_or_else(|| WrongUse(SECRET_WANTED.to_owned()))?;
        let builder = reqwest::Client::builder()
            .user_agent(concat!("linkledger/", env!("CARGO_PKG_VERSION")))
            .timeout(DELIVERY_TIMEOUT)
            .redirect(redirect::Policy::none());
        let http = for_address(builder, url).build();
        Ok(Some(EventReceiver {
            http: http.context("can't make an HTTP client")?,
            url: url.clone(),
            secret,
        }))
    }
}

impl EventReceiver {
    /// Posts the event until the answer has a status of 2xx. Says so on standard error before each retry.
    pub(super) async fn deliver(&self, event: &FeedEvent<'_>) -> anyhow::Result<()> {
        let body = WebhookBody {
            event_type: &event.event_type,
            timestamp: &event.time,
            data: event.data,
        };
        let body = serde_json::to_string(&body).context("can't write the body of a delivery")?;
        let mut pause = PAUSE_MIN;
        while let Err(reason) = self.post(&event.id, &body).await {
            note(&format!(
                "{} is not delivered: {reason}; retrying in {pause:?}",
                event.id
            ));
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        Ok(())
    }

    /// Makes one attempt. Returns the reason if the receiver does not accept the event.
    async fn post(&self, id: &str, body: &str) -> Result<(), String> {
        let timestamp = SystemClock.now().unix_timestamp();
        let request = self
            .http
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header(
                "webhook-signature",
                self.secret.signature(id, timestamp, body),
            )
            .body(body.to_owned());
        match request.send().await {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => Err(format!("the receiver answers {}", answer.status())),
            Err(error) if error.is_timeout() => Err("no answer before the timeout".to_owned()),
            // The error itself would show the address, which may hold a password.
            Err(error) => {
                let cause = anyhow::Chain::new(&error).last();
                Err(cause.map_or_else(|| "no answer".to_owned(), ToString::to_string))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receiver_has_an_http_address() {
        assert!(receiver_address("http://127.0.0.1:3000/hook?x=1").is_ok());
        for refused in [
            "127.0.0.1:3000",
            "localhost:3000/hook",
            "ftp://example.com",
            "",
        ] {
            assert!(receiver_address(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn secret_is_needed_and_never_repeated() {
        let receiver = |secret: Option<&str>| {
            let options = ForwardingOptions {
                forward_to: Url::parse("http://127.0.0.1:3000/").ok(),
                secret: secret.map(|secret| Secret::from(secret.to_owned())),
            };
            options.receiver().map(|receiver| receiver.is_some())
        };
        assert!(receiver(Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")).unwrap());
        for secret in [None, Some("whsec_hidden")] {
            let error = receiver(secret).unwrap_err().to_string();
            assert!(
                error.contains("--secret") && !error.contains("hidden"),
                "{error}"
            );
        }
    }
}
