//! `linkledger webhooks create`: creates a webhook under an idempotency key.

use anyhow::Context as _;
use clap::Args;
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::webhook::print_webhook;
use crate::{
    client::{
        ApiCall, ApiClient,
        keyed::{CallKey, parse_idempotency_key},
    },
    output::note,
};

/// Outcome of a create without an answer, and the effect of its repetition.
const UNKNOWN: (&str, &str) = (
    "The webhook may exist or not",
    "makes one webhook, and shows its secret",
);

/// Options of `linkledger webhooks create`.
#[derive(Debug, Args)]
pub(crate) struct CreateWebhookOptions {
    /// Address of the receiver: https, with a public host.
    url: String,
    /// Send only messages of this type, such as link.created; repeat the option for several types. Default: all types
    /// but link.clicks.
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Description for people.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Send messages in the order of the log, up to 100 in a request. Default: one in a request, up to 8 at once.
    #[arg(long)]
    in_order: bool,
    /// Idempotency key. Repeating a create with the same key gives one webhook, and shows its secret again.
    /// Default: a new key.
    #[arg(long, value_name = "UUID", value_parser = parse_idempotency_key)]
    idempotency_key: Option<Uuid>,
}

pub(super) async fn run(
    client: &ApiClient,
    create: &CreateWebhookOptions,
    is_json: bool,
) -> anyhow::Result<()> {
    let key = CallKey::given_or_new(create.idempotency_key);
    let call = ApiCall::new(Method::POST, &["v1", "webhooks"], StatusCode::CREATED)
        .header("idempotency-key", Some(key.value.hyphenated().to_string()))
        .body(body(create));
    let answer = client.send_keyed(&call, key, UNKNOWN).await?;
    if answer.header("idempotent-replayed").is_some() {
        note("This webhook was created before under the same idempotency key.");
    }
    print_webhook(client, &call, &answer, is_json).with_context(|| {
        let key = key.value;
        format!("the webhook is created, under the idempotency key {key}")
    })?;
    note("Keep the secret: no other command shows it.");
    Ok(())
}

fn body(create: &CreateWebhookOptions) -> Value {
    let mut body = Map::new();
    body.insert("url".to_owned(), create.url.as_str().into());
    if !create.types.is_empty() {
        body.insert("types".to_owned(), create.types.clone().into());
    }
    if let Some(description) = &create.description {
        body.insert("description".to_owned(), description.as_str().into());
    }
    if create.in_order {
        body.insert("in_order".to_owned(), true.into());
    }
    Value::Object(body)
}
