//! An event of the log as sent to operators: payload and metadata as stored.

use linkledger_core::{
    event::Subject,
    id::{AccountId, EventId, LinkId},
    shard::Position,
    timestamp,
};
use linkledger_event_store::log::ListedEvent;
use linkledger_http::openapi::Timestamp;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};
use time::OffsetDateTime;
use utoipa::ToSchema;

/// An event of the log.
#[derive(Serialize, ToSchema)]
#[schema(as = Event)]
pub(super) struct EventBody {
    #[schema(value_type = String, examples("evt_01h455vb4pex5vsknk084sn02s"))]
    id: EventId,
    /// Type of the event; later releases can add others.
    #[serde(rename = "type")]
    #[schema(examples("CreditsGranted"))]
    event_type: String,
    /// Version of the payload's schema.
    #[schema(minimum = 1, examples(1))]
    schema_version: i16,
    #[schema(inline, value_type = Timestamp)]
    #[serde(with = "timestamp")]
    time: OffsetDateTime,
    /// Account that the event concerns.
    #[schema(value_type = String, examples("acc_01h455vb4pex5vsknk084sn02q"))]
    account_id: AccountId,
    /// Id of the link or the account whose stream has the event.
    #[schema(examples("acc_01h455vb4pex5vsknk084sn02q"))]
    subject: String,
    /// Number of the event in the stream of its subject, from 1.
    #[schema(minimum = 1, examples(2))]
    version: i64,
    /// Shard of the account: a part of the log.
    #[schema(minimum = 0, examples(3))]
    shard: i16,
    /// Number of the event in its shard, from 1, without gaps.
    #[schema(value_type = i64, minimum = 1, examples(4711))]
    position: Position,
    /// Payload of the event, as `docs/events.md` describes it.
    #[schema(value_type = Object)]
    payload: Box<RawValue>,
    /// Circumstances: who caused the event by which request, and the state of the link or the account after it.
    #[schema(value_type = Object)]
    metadata: Box<RawValue>,
}

impl EventBody {
    /// Returns the body of an event.
    pub(super) fn of(ListedEvent { event, metadata }: ListedEvent) -> Self {
        let subject = if event.stream_id == event.account_id.uuid() {
            Subject::Account(event.account_id)
        } else {
            Subject::Link(LinkId::from_uuid(event.stream_id))
        };
        Self {
            id: event.event_id,
            event_type: event.event_type,
            schema_version: event.schema_version,
            time: event.recorded_at,
            account_id: event.account_id,
            subject: subject.to_string(),
            version: event.version,
            shard: event.shard.number(),
            position: event.position,
            payload: raw(event.payload),
            metadata: raw(metadata),
        }
    }

    /// Returns the example of the OpenAPI document.
    pub(super) fn example() -> Value {
        json!({
            "id": "evt_01h455vb4pex5vsknk084sn02s",
            "type": "CreditsGranted",
            "schema_version": 1,
            "time": "2026-11-20T09:51:00.123Z",
            "account_id": "acc_01h455vb4pex5vsknk084sn02q",
            "subject": "acc_01h455vb4pex5vsknk084sn02q",
            "version": 2,
            "shard": 3,
            "position": 4711,
            "payload": {
                "account_id": "acc_01h455vb4pex5vsknk084sn02q",
                "amount": 1000,
                "balance_after": 1000,
                "reason": "invoice paid",
                "reference": "invoice-2026-11-4711",
            },
            "metadata": { "actor": "adm_01h455vb4pex5vsknk084sn02t", "request_id": "01h455vb4pex5vsknk084sn02v" },
        })
    }
}

/// Returns the JSON of a column. Never null: the columns have the type json.
fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
