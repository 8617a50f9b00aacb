//! A delivery as the API returns it, and its printed form.

use linkledger_core::id::{DeliveryId, WebhookId};
use serde::Deserialize;

use crate::{
    client::{ApiCall, ApiClient, ApiResponse},
    output::print,
    paging::TableRow,
    table::{ColumnLayout, TableColumn, record, short_time},
};

/// State of a message that the receiver has accepted.
const DELIVERED: &str = "delivered";

/// A delivery as the API returns it.
#[derive(Debug, Deserialize)]
pub(super) struct DeliveryDocument {
    pub(super) id: DeliveryId,
    event_id: String,
    #[serde(rename = "type")]
    message_type: String,
    state: String,
    attempts: i64,
    next_attempt_at: Option<String>,
    last_attempt_at: Option<String>,
    last_status: Option<u16>,
    last_error: Option<String>,
    response: Option<String>,
    created_at: String,
}

impl TableRow for DeliveryDocument {
    const COLUMNS: &[TableColumn] = &[
        TableColumn("ID", ColumnLayout::Text),
        TableColumn("CREATED", ColumnLayout::WideOnly),
        TableColumn("TYPE", ColumnLayout::Text),
        TableColumn("STATE", ColumnLayout::Text),
        TableColumn("ATTEMPTS", ColumnLayout::Number),
        TableColumn("LAST RESULT", ColumnLayout::Text),
    ];

    fn cells(self) -> Vec<String> {
        let result = self.result();
        vec![
            self.id.to_string(),
            short_time(&self.created_at),
            self.message_type,
            self.state,
            self.attempts.to_string(),
            result,
        ]
    }
}

impl DeliveryDocument {
    /// Returns true once the receiver was called. The number of attempts does not tell: those that meet an ill receiver
    /// do not count.
    pub(super) fn is_attempted(&self) -> bool {
        self.last_attempt_at.is_some()
    }

    /// Returns true if the receiver has accepted the message.
    pub(super) fn is_delivered(&self) -> bool {
        self.state == DELIVERED
    }

    /// Returns the result of the last attempt.
    pub(super) fn result(&self) -> String {
        let status = self.last_status.map(|status| format!("status {status}"));
        let result = self.last_error.clone().or(status);
        result.unwrap_or_else(|| "-".to_owned())
    }

    /// Returns names and values for people.
    fn properties(self) -> Vec<(&'static str, String)> {
        let result = self.result();
        let mut properties = vec![
            ("ID", self.id.to_string()),
            ("Event", self.event_id),
            ("Type", self.message_type),
            ("Created", short_time(&self.created_at)),
            ("State", self.state),
            ("Attempts", self.attempts.to_string()),
            ("Last result", result),
        ];
        let optional = [
            (
                "Last attempt",
                self.last_attempt_at.as_deref().map(short_time),
            ),
            (
                "Next attempt",
                self.next_attempt_at.as_deref().map(short_time),
            ),
            ("Answer", self.response.filter(|text| !text.is_empty())),
        ];
        let optional = optional.into_iter();
        properties.extend(optional.filter_map(|(name, value)| Some((name, value?))));
        properties
    }
}

/// Makes the call for one delivery.
pub(super) fn get_delivery(webhook_id: WebhookId, delivery_id: DeliveryId) -> ApiCall {
    let (webhook_id, delivery_id) = (webhook_id.to_string(), delivery_id.to_string());
    ApiCall::get(&["v1", "webhooks", &webhook_id, "deliveries", &delivery_id])
}

/// Prints the delivery in the response to a call.
pub(super) fn print_delivery(
    client: &ApiClient,
    call: &ApiCall,
    answer: &ApiResponse,
    is_json: bool,
) -> anyhow::Result<()> {
    let delivery: DeliveryDocument = client.read(call, answer)?;
    if is_json {
        return print(&answer.text());
    }
    print(&record(&delivery.properties()))
}
