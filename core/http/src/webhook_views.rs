//! Webhooks and their deliveries as sent to owners and to operators (`docs/api.md#webhooks`).
//!
//! The views of a creation and of a rotation are made of an event, so that a replay answers byte for byte as the first
//! request did. A secret is derived from the master key each time, and never stored.

#![expect(
    missing_docs,
    reason = "members with an inlined schema have its description in the OpenAPI document"
)]

use std::fmt;

use linkledger_core::{
    id::{DeliveryId, EventId, WebhookId},
    timestamp,
    webhook::{DisabledReason, Webhook, WebhookSecret, WebhookUrl},
};
use linkledger_event_store::webhooks::{
    deliveries::StoredDelivery,
    rows::{StoredWebhook, WebhookHealth},
};
use serde::Serialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::openapi::Timestamp;

/// A webhook. A member that has no value is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Webhook)]
pub struct WebhookView {
    /// Id of the webhook: opaque text that never changes.
    #[schema(value_type = String, examples("whe_01h455vb4pex5vsknk084sn02q"))]
    pub id: WebhookId,
    /// Address that receives the messages.
    #[schema(value_type = String, examples("https://shop.example.com/hooks"))]
    pub url: WebhookUrl,
    /// Types of the messages that the webhook receives; empty for all types but `link.clicks`.
    #[schema(examples(json!(["link.created", "link.deleted"])))]
    pub types: Vec<String>,
    /// Description for people.
    #[schema(required = false, examples("shop"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// True if messages are sent.
    pub enabled: bool,
    /// Reason why the service disabled the webhook: `gone` (an answer was 410) or `unreachable` (five days without a
    /// success); later releases may add reasons.
    #[schema(required = false, examples("unreachable"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<&'static str>,
    /// True if messages are sent in the order of the events: up to 100 in a request, and one request at a time.
    pub in_order: bool,
    pub health: HealthView,
    /// Number of deliveries that wait for a retry, up to 1,000.
    #[schema(minimum = 0, examples(0))]
    pub waiting: i64,
    /// Number of deliveries that failed for good, up to 1,000.
    #[schema(minimum = 0, examples(0))]
    pub failed: i64,
    /// True while a replay runs.
    pub is_replaying: bool,
    #[schema(inline, value_type = Timestamp)]
    #[serde(with = "timestamp")]
    pub created_at: OffsetDateTime,
    // Time of the last change of the webhook itself.
    #[schema(inline, value_type = Timestamp)]
    #[serde(with = "timestamp")]
    pub updated_at: OffsetDateTime,
    /// Secret that signs the messages: only in the answer to the creation.
    #[schema(value_type = String, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<ShownWebhookSecret>,
}

/// Health of the receiver of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = WebhookHealth)]
pub struct HealthView {
    /// `healthy`, `refusing` (no message was accepted since the first that was refused), `ill` (no answer, or an answer
    /// of a broken server), `blocked` (messages wait until the operators of the service act, for the reason in
    /// `last_error`) or `disabled`; later releases may add states.
    #[schema(examples("healthy"))]
    pub state: &'static str,
    // Time of the first of the failed attempts since the last success.
    #[schema(inline, value_type = Timestamp, required = false)]
    #[serde(
        serialize_with = "timestamp::serialize",
        skip_serializing_if = "Option::is_none"
    )]
    pub ill_since: Option<OffsetDateTime>,
    // Time of the next attempt at an ill receiver.
    #[schema(inline, value_type = Timestamp, required = false)]
    #[serde(
        serialize_with = "timestamp::serialize",
        skip_serializing_if = "Option::is_none"
    )]
    pub next_probe_at: Option<OffsetDateTime>,
    // Time of the last message that was accepted.
    #[schema(inline, value_type = Timestamp, required = false)]
    #[serde(
        serialize_with = "timestamp::serialize",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_success_at: Option<OffsetDateTime>,
    // Time of the last attempt.
    #[schema(inline, value_type = Timestamp, required = false)]
    #[serde(
        serialize_with = "timestamp::serialize",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_attempt_at: Option<OffsetDateTime>,
    /// Status of the last answer.
    #[schema(required = false, examples(204))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_status: Option<i16>,
    /// Reason why the last attempt failed, or why messages are blocked.
    #[schema(required = false, examples("timeout"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// A delivery of one message. A member that has no value is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Delivery)]
pub struct DeliveryView {
    /// Id of the delivery: opaque text that never changes.
    #[schema(value_type = String, examples("dlv_01h455vb4pex5vsknk084sn02r"))]
    pub id: DeliveryId,
    /// Id of the event, which is the `webhook-id` of the message; of a test an id of its own.
    #[schema(value_type = String, examples("evt_01h455vb4pex5vsknk084sn02s"))]
    pub event_id: EventId,
    /// Type of the message.
    #[serde(rename = "type")]
    #[schema(examples("link.created"))]
    pub message_type: String,
    /// `waiting`, `failed` or `delivered`; later releases may add states.
    #[schema(examples("waiting"))]
    pub state: &'static str,
    /// Number of attempts so far, without those that met a receiver that was ill before.
    #[schema(minimum = 0, examples(1))]
    pub attempts: i32,
    #[schema(inline, value_type = Timestamp, required = false)]
    #[serde(
        serialize_with = "timestamp::serialize",
        skip_serializing_if = "Option::is_none"
    )]
    pub next_attempt_at: Option<OffsetDateTime>,
    #[schema(inline, value_type = Timestamp, required = false)]
    #[serde(
        serialize_with = "timestamp::serialize",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_attempt_at: Option<OffsetDateTime>,
    /// Status of the last answer.
    #[schema(required = false, examples(422))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_status: Option<i16>,
    /// Reason why the last attempt failed.
    #[schema(required = false, examples("timeout"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Beginning of the body of the last answer.
    #[schema(required = false, examples("unknown type"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    #[schema(inline, value_type = Timestamp)]
    #[serde(with = "timestamp")]
    pub created_at: OffsetDateTime,
}

/// New secret of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = RotatedSecret)]
pub struct RotatedSecretView {
    /// Id of the webhook.
    #[schema(value_type = String, examples("whe_01h455vb4pex5vsknk084sn02q"))]
    pub id: WebhookId,
    /// Secret that signs the messages from now on.
    #[schema(value_type = String)]
    pub secret: ShownWebhookSecret,
    // Instant up to which messages are also signed with the secret before.
    #[schema(inline, value_type = Timestamp)]
    #[serde(with = "timestamp")]
    pub previous_secret_valid_until: OffsetDateTime,
}

/// Secret of a webhook, for an answer. `Debug` hides it.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ShownWebhookSecret(String);

impl From<&WebhookSecret> for ShownWebhookSecret {
    fn from(secret: &WebhookSecret) -> Self {
        Self(secret.reveal())
    }
}

impl fmt::Debug for ShownWebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShownWebhookSecret(…)")
    }
}

impl WebhookView {
    /// Returns the view of a webhook that was just created, with its secret.
    pub fn of_new(webhook: &Webhook, secret: &WebhookSecret) -> Self {
        Self {
            id: webhook.webhook_id,
            url: webhook.url.clone(),
            types: webhook.types.clone(),
            description: webhook.description.clone(),
            enabled: webhook.enabled,
            disabled_reason: None,
            in_order: webhook.in_order,
            health: HealthView::of_new(),
            waiting: 0,
            failed: 0,
            is_replaying: false,
            created_at: webhook.created_at,
            updated_at: webhook.updated_at,
            secret: Some(secret.into()),
        }
    }

    /// Returns the example of the `OpenAPI` document, without a secret.
    pub fn example() -> Value {
        json!({
            "id": "whe_01h455vb4pex5vsknk084sn02q",
            "url": "https://shop.example.com/hooks",
            "types": ["link.created", "link.deleted"],
            "description": "shop",
            "enabled": true,
            "in_order": false,
            "health": {
                "state": "healthy",
                "last_success_at": "2026-11-20T09:51:00.123Z",
                "last_attempt_at": "2026-11-20T09:51:00.123Z",
                "last_status": 204,
            },
            "waiting": 0,
            "failed": 0,
            "is_replaying": false,
            "created_at": "2026-11-20T09:51:00.123Z",
            "updated_at": "2026-11-20T09:51:00.123Z",
        })
    }

    /// Returns the example of a new webhook, with a secret.
    pub fn example_of_new() -> Value {
        let mut example = Self::example();
        example["health"] = json!({ "state": "healthy" });
        example["secret"] = json!(EXAMPLE_SECRET);
        example
    }
}

impl From<StoredWebhook> for WebhookView {
    fn from(stored: StoredWebhook) -> Self {
        let StoredWebhook {
            webhook,
            health,
            waiting,
            failed,
            replays,
        } = stored;
        Self {
            id: webhook.webhook_id,
            health: HealthView::of(webhook.enabled, health),
            url: webhook.url,
            types: webhook.types,
            description: webhook.description,
            enabled: webhook.enabled,
            disabled_reason: webhook.disabled_reason.map(DisabledReason::name),
            in_order: webhook.in_order,
            waiting,
            failed,
            is_replaying: replays,
            created_at: webhook.created_at,
            updated_at: webhook.updated_at,
            secret: None,
        }
    }
}

impl HealthView {
    /// Returns the health of a webhook without attempts.
    const fn of_new() -> Self {
        Self {
            state: "healthy",
            ill_since: None,
            next_probe_at: None,
            last_success_at: None,
            last_attempt_at: None,
            last_status: None,
            last_error: None,
        }
    }

    fn of(is_enabled: bool, health: WebhookHealth) -> Self {
        let state = if !is_enabled {
            "disabled"
        } else if health.blocked_since.is_some() {
            "blocked"
        } else if health.ill_since.is_some() {
            "ill"
        } else if health.failing_since.is_some() {
            "refusing"
        } else {
            "healthy"
        };
        Self {
            state,
            ill_since: health.ill_since,
            next_probe_at: health.next_probe_at,
            last_success_at: health.last_success_at,
            last_attempt_at: health.last_attempt_at,
            last_status: health.last_status,
            last_error: health.last_error,
        }
    }
}

impl DeliveryView {
    /// Returns the example of the `OpenAPI` document.
    pub fn example() -> Value {
        json!({
            "id": "dlv_01h455vb4pex5vsknk084sn02r",
            "event_id": "evt_01h455vb4pex5vsknk084sn02s",
            "type": "link.created",
            "state": "waiting",
            "attempts": 1,
            "next_attempt_at": "2026-11-20T09:56:00.123Z",
            "last_attempt_at": "2026-11-20T09:51:00.123Z",
            "last_status": 422,
            "response": "unknown type",
            "created_at": "2026-11-20T09:51:00.123Z",
        })
    }

    /// Returns the example of a delivery that was not attempted yet.
    pub fn example_of_test() -> Value {
        json!({
            "id": "dlv_01h455vb4pex5vsknk084sn02r",
            "event_id": "evt_01h455vb4pex5vsknk084sn02s",
            "type": "webhook.test",
            "state": "waiting",
            "attempts": 0,
            "next_attempt_at": "2026-11-20T09:51:00.123Z",
            "created_at": "2026-11-20T09:51:00.123Z",
        })
    }
}

impl From<StoredDelivery> for DeliveryView {
    fn from(delivery: StoredDelivery) -> Self {
        Self {
            id: delivery.delivery_id,
            event_id: delivery.event_id,
            message_type: delivery.message_type,
            state: delivery.state.name(),
            attempts: delivery.attempts,
            next_attempt_at: delivery.next_attempt_at,
            last_attempt_at: delivery.last_attempt_at,
            last_status: delivery.last_status,
            last_error: delivery.last_error,
            response: delivery.response,
            created_at: delivery.created_at,
        }
    }
}

impl RotatedSecretView {
    /// Returns the example of the `OpenAPI` document.
    pub fn example() -> Value {
        json!({
            "id": "whe_01h455vb4pex5vsknk084sn02q",
            "secret": EXAMPLE_SECRET,
            "previous_secret_valid_until": "2026-11-21T09:51:00.123Z",
        })
    }
}

/// Secret of the examples; no webhook has it.
const EXAMPLE_SECRET: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use time::macros::datetime;
    use utoipa::PartialSchema;

    use super::*;

    fn names(object: &Value) -> BTreeSet<&str> {
        let members = object.as_object().unwrap();
        members.keys().map(String::as_str).collect()
    }

    /// Checks that the schema has the members of the example, and requires none but those.
    fn assert_described<T: PartialSchema>(example: &Value) {
        let schema = serde_json::to_value(T::schema()).unwrap();
        let required = schema["required"].as_array().unwrap().iter();
        let required: BTreeSet<&str> = required.map(|it| it.as_str().unwrap()).collect();
        let (described, given) = (names(&schema["properties"]), names(example));
        assert!(given.is_subset(&described), "{given:?}: {described:?}");
        assert!(required.is_subset(&given), "{required:?}: {given:?}");
    }

    #[test]
    fn examples_conform_to_their_schemas() {
        assert_described::<WebhookView>(&WebhookView::example());
        assert_described::<WebhookView>(&WebhookView::example_of_new());
        assert_described::<HealthView>(&WebhookView::example()["health"]);
        assert_described::<DeliveryView>(&DeliveryView::example());
        assert_described::<DeliveryView>(&DeliveryView::example_of_test());
        assert_described::<RotatedSecretView>(&RotatedSecretView::example());
    }

    #[test]
    fn state_of_health_follows_from_illness_and_switch() {
        let at = Some(datetime!(2026-11-20 09:51:00 UTC));
        let state = |is_enabled, blocked_since, ill_since| {
            let health = WebhookHealth {
                ill_since,
                blocked_since,
                ..WebhookHealth::default()
            };
            HealthView::of(is_enabled, health).state
        };
        assert_eq!(state(true, None, None), "healthy");
        assert_eq!(state(true, None, at), "ill");
        assert_eq!(state(true, at, None), "blocked");
        assert_eq!(state(true, at, at), "blocked");
        assert_eq!(state(false, at, at), "disabled");
        assert_eq!(state(false, None, None), "disabled");
    }

    #[test]
    fn secret_is_never_logged() {
        let secret = ShownWebhookSecret(EXAMPLE_SECRET.to_owned());
        assert_eq!(json!(secret), EXAMPLE_SECRET);
        assert!(!format!("{secret:?}").contains("AAAA"));
    }
}
