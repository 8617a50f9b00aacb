//! `linkledger webhooks replay`: sends earlier events once more.

use clap::Args;
use linkledger_core::id::WebhookId;
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    client::{ApiCall, ApiClient},
    output::{note, print},
};

/// Options of `linkledger webhooks replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayOptions {
    /// Id of the webhook (whe_…).
    webhook: WebhookId,
    /// First event: that of this instant or the next one, such as 2026-11-20T12:00:00Z.
    #[arg(
        long,
        value_name = "INSTANT",
        conflicts_with = "after",
        required_unless_present = "after"
    )]
    from: Option<String>,
    /// Begin with the event after this one (evt_…), which is the webhook-id of its message.
    #[arg(long, value_name = "EVENT")]
    after: Option<String>,
    /// Last event: before this instant. Default: the last event of now.
    #[arg(long, value_name = "INSTANT")]
    to: Option<String>,
}

/// Member of the answer to a replay that tells whether anything is sent.
#[derive(Deserialize)]
struct ReplayAnswer {
    is_replaying: bool,
}

pub(super) async fn run(
    client: &ApiClient,
    replay: &ReplayOptions,
    is_json: bool,
) -> anyhow::Result<()> {
    let members = [
        ("from", &replay.from),
        ("after", &replay.after),
        ("to", &replay.to),
    ];
    let body: Map<String, Value> = members
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), Value::String(value.clone()?))))
        .collect();
    let id = replay.webhook.to_string();
    let path = ["v1", "webhooks", &id, "replay"];
    let call =
        ApiCall::unrepeatable(Method::POST, &path, StatusCode::ACCEPTED).body(Value::Object(body));
    let advice = format!(
        "The replay may have begun. Look with `linkledger webhooks get {id}` before you repeat the \
         command: a second replay sends the messages once more."
    );
    let answer = client.send(&call).await;
    let answer = answer.map_err(|failure| failure.advise_if_unknown(&advice))?;
    let replay: ReplayAnswer = client.read(&call, &answer)?;
    if is_json {
        return print(&answer.text());
    }
    if replay.is_replaying {
        note(&format!(
            "the replay of {id} has begun; `linkledger webhooks get {id}` shows whether it still runs"
        ));
    } else {
        note("no events in this range: nothing is sent");
    }
    Ok(())
}
