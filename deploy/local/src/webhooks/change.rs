//! `linkledger webhooks change`: changes a webhook, and disables or enables it.

use clap::Args;
use linkledger_core::id::WebhookId;
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value};

use super::webhook::print_webhook;
use crate::{
    client::{ApiCall, ApiClient},
    output::WrongUse,
};

/// Options of `linkledger webhooks change`.
#[derive(Debug, Args)]
pub(crate) struct ChangeWebhookOptions {
    /// Id of the webhook (whe_…).
    webhook: WebhookId,
    /// New address of the receiver.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Send only messages of this type; repeat the option for several types. An empty value stands for all types but
    /// link.clicks.
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// New description; an empty value removes it.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Send nothing until --enable.
    #[arg(long, conflicts_with = "enable")]
    disable: bool,
    /// Send again, from the event at which the webhook stopped.
    #[arg(long)]
    enable: bool,
    /// Send messages in the order of the log, up to 100 in a request; --in-order=false: one in a request, up to 8 at
    /// once.
    #[arg(
        long,
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    in_order: Option<bool>,
}

impl ChangeWebhookOptions {
    /// Returns the changes as a merge patch.
    fn patch(&self) -> Map<String, Value> {
        let mut patch = Map::new();
        if let Some(url) = &self.url {
            patch.insert("url".to_owned(), url.as_str().into());
        }
        if self.types == [""] {
            patch.insert("types".to_owned(), Value::Array(Vec::new()));
        } else if !self.types.is_empty() {
            patch.insert("types".to_owned(), self.types.clone().into());
        }
        if let Some(description) = &self.description {
            let is_removed = description.is_empty();
            let value = (!is_removed).then(|| description.clone());
            patch.insert("description".to_owned(), value.into());
        }
        if self.disable || self.enable {
            patch.insert("enabled".to_owned(), self.enable.into());
        }
        if let Some(in_order) = self.in_order {
            patch.insert("in_order".to_owned(), in_order.into());
        }
        patch
    }
}

pub(super) async fn run(
    client: &ApiClient,
    change: &ChangeWebhookOptions,
    is_json: bool,
) -> anyhow::Result<()> {
    let patch = change.patch();
    if patch.is_empty() {
        let advice = "name a change, such as --url or --enable";
        return Err(WrongUse(advice.to_owned()).into());
    }
    let id = change.webhook.to_string();
    let call = ApiCall::new(Method::PATCH, &["v1", "webhooks", &id], StatusCode::OK)
        .body(Value::Object(patch));
    let answer = client.send(&call).await?;
    print_webhook(client, &call, &answer, is_json)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        change: ChangeWebhookOptions,
    }

    fn patch(arguments: &[&str]) -> Value {
        let id = "whe_01jd3k5x7zexrbfmv2pcg9h4ta";
        let arguments = ["x", id].into_iter().chain(arguments.iter().copied());
        Value::Object(Cli::try_parse_from(arguments).unwrap().change.patch())
    }

    #[test]
    fn empty_values_stand_for_all_types_and_no_description() {
        let all = patch(&["--type", "", "--description", ""]);
        assert_eq!(all, json!({ "types": [], "description": null }));
        let some = patch(&["--type", "link.created", "--type", "link.deleted"]);
        assert_eq!(some, json!({ "types": ["link.created", "link.deleted"] }));
    }

    #[test]
    fn flags_set_both_values_of_a_member() {
        let on = patch(&["--enable", "--in-order"]);
        assert_eq!(on, json!({ "enabled": true, "in_order": true }));
        let off = patch(&["--disable", "--in-order=false"]);
        assert_eq!(off, json!({ "enabled": false, "in_order": false }));
        assert_eq!(patch(&[]), json!({}));
    }
}
