//! A webhook as the API returns it, and its printed form.

use serde::Deserialize;

use crate::{
    client::{ApiCall, ApiClient, ApiResponse},
    output::print,
    paging::TableRow,
    table::{ColumnLayout, TableColumn, record, short_time},
};

/// A webhook as the API returns it. Only the response to a create has the secret.
#[derive(Debug, Deserialize)]
pub(super) struct WebhookDocument {
    id: String,
    url: String,
    types: Vec<String>,
    description: Option<String>,
    enabled: bool,
    disabled_reason: Option<String>,
    in_order: bool,
    created_at: String,
    health: HealthDocument,
    waiting: i64,
    failed: i64,
    is_replaying: bool,
    secret: Option<String>,
}

/// Health of the receiver as the API returns it.
#[derive(Debug, Deserialize)]
struct HealthDocument {
    state: String,
    ill_since: Option<String>,
    next_probe_at: Option<String>,
    last_success_at: Option<String>,
    last_error: Option<String>,
}

impl TableRow for WebhookDocument {
    const COLUMNS: &[TableColumn] = &[
        TableColumn("ID", ColumnLayout::Text),
        TableColumn("STATE", ColumnLayout::Text),
        TableColumn("WAITING", ColumnLayout::Number),
        TableColumn("FAILED", ColumnLayout::Number),
        TableColumn("TYPES", ColumnLayout::WideOnly),
        TableColumn("URL", ColumnLayout::Text),
    ];

    fn cells(self) -> Vec<String> {
        vec![
            self.id,
            self.health.state,
            self.waiting.to_string(),
            self.failed.to_string(),
            types(&self.types),
            self.url,
        ]
    }
}

/// Returns the types of messages as text.
fn types(types: &[String]) -> String {
    if types.is_empty() {
        "all but link.clicks".to_owned()
    } else {
        types.join(", ")
    }
}

impl WebhookDocument {
    /// Returns names and values for people.
    fn properties(self) -> Vec<(&'static str, String)> {
        let health = self.health;
        let time = |instant: Option<String>| instant.as_deref().map(short_time);
        let order = if self.in_order { "in order" } else { "any" };
        let mut properties = vec![
            ("ID", self.id),
            ("URL", self.url),
            ("Types", types(&self.types)),
            ("Order", order.to_owned()),
            ("Created", short_time(&self.created_at)),
            ("State", health.state),
        ];
        let replay = self.is_replaying.then(|| "running".to_owned());
        let disabled_reason = self.disabled_reason.filter(|_| !self.enabled);
        let optional = [
            ("Description", self.description),
            ("Disabled because", disabled_reason),
            ("Ill since", time(health.ill_since)),
            ("Next probe", time(health.next_probe_at)),
            ("Last success", time(health.last_success_at)),
            ("Last error", health.last_error),
            ("Replay", replay),
            ("Secret", self.secret),
        ];
        let optional = optional.into_iter();
        properties.extend(optional.filter_map(|(name, value)| Some((name, value?))));
        properties.push(("Waiting", self.waiting.to_string()));
        properties.push(("Failed", self.failed.to_string()));
        properties
    }
}

/// Prints the webhook in the response to a call.
pub(super) fn print_webhook(
    client: &ApiClient,
    call: &ApiCall,
    answer: &ApiResponse,
    is_json: bool,
) -> anyhow::Result<()> {
    let webhook: WebhookDocument = client.read(call, answer)?;
    if is_json {
        return print(&answer.text());
    }
    print(&record(&webhook.properties()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn webhook_shows_only_properties_that_are_set() {
        let webhook = json!({
            "id": "whe_1",
            "url": "https://example.com/hook",
            "types": [],
            "description": null,
            "enabled": true,
            "disabled_reason": null,
            "in_order": false,
            "created_at": "2026-11-20T09:51:00.123Z",
            "updated_at": "2026-11-20T09:51:00.123Z",
            "health": { "state": "healthy", "last_status": 200 },
            "waiting": 2,
            "failed": 0,
            "is_replaying": false,
            "secret": "whsec_x",
        });
        let webhook: WebhookDocument = serde_json::from_value(webhook).unwrap();
        assert_eq!(
            record(&webhook.properties()),
            "ID       whe_1\n\
             URL      https://example.com/hook\n\
             Types    all but link.clicks\n\
             Order    any\n\
             Created  2026-11-20T09:51:00Z\n\
             State    healthy\n\
             Secret   whsec_x\n\
             Waiting  2\n\
             Failed   0\n"
        );
    }
}
