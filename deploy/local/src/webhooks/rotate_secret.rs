//! `linkledger webhooks rotate-secret`: replaces the secret under an idempotency key.

use anyhow::Context as _;
use clap::Args;
use linkledger_core::{id::WebhookId, webhook::OVERLAP_HOURS_MAX};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use crate::{
    client::{
        ApiCall, ApiClient,
        keyed::{CallKey, parse_idempotency_key},
    },
    options::whole_number,
    output::{note, print},
    table::{record, short_time},
};

/// Outcome of a rotation without an answer, and the effect of its repetition.
const UNKNOWN: (&str, &str) = (
    "The secret may be replaced or not",
    "replaces it once, and shows the new one",
);

/// Options of `linkledger webhooks rotate-secret`.
#[derive(Debug, Args)]
pub(crate) struct RotateSecretOptions {
    /// Id of the webhook (whe_…).
    webhook: WebhookId,
    /// Hours during which messages carry signatures with both secrets, 0 to 168.
    #[arg(long, value_name = "HOURS", default_value_t = 24, value_parser = whole_number(0..=OVERLAP_HOURS_MAX))]
    overlap_hours: u16,
    /// Idempotency key. Repeating a rotation with the same key replaces the secret once, and shows the new
    /// one again. Default: a new key.
    #[arg(long, value_name = "UUID", value_parser = parse_idempotency_key)]
    idempotency_key: Option<Uuid>,
}

#[derive(Deserialize)]
struct RotatedSecret {
    id: WebhookId,
    secret: String,
    previous_secret_valid_until: String,
}

pub(super) async fn run(
    client: &ApiClient,
    rotate: &RotateSecretOptions,
    is_json: bool,
) -> anyhow::Result<()> {
    let id = rotate.webhook.to_string();
    // A retry with another key would rotate once more, and end the overlap of the receiver's secret.
    let key = CallKey::given_or_new(rotate.idempotency_key);
    let path = ["v1", "webhooks", &id, "rotate-secret"];
    let call = ApiCall::new(Method::POST, &path, StatusCode::OK)
        .header("idempotency-key", Some(key.value.hyphenated().to_string()))
        .body(json!({ "overlap_hours": rotate.overlap_hours }));
    let answer = client.send_keyed(&call, key, UNKNOWN).await?;
    if answer.header("idempotent-replayed").is_some() {
        note("This secret was made before under the same idempotency key.");
    }
    let rotated: RotatedSecret = client.read(&call, &answer)?;
    let shown = if is_json {
        answer.text()
    } else {
        rotated.shown()
    };
    print(&shown).with_context(|| {
        let key = key.value;
        format!("the secret is replaced, under the idempotency key {key}")
    })?;
    note("Keep the secret: no other command shows it.");
    Ok(())
}

impl RotatedSecret {
    /// Returns names and values for people.
    fn shown(self) -> String {
        let valid_until = short_time(&self.previous_secret_valid_until);
        record(&[
            ("ID", self.id.to_string()),
            ("Secret", self.secret),
            ("Previous secret", format!("valid until {valid_until}")),
        ])
    }
}
