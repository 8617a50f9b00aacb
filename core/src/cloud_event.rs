//! An event as a Kafka record: `CloudEvents` 1.0, Kafka binding, binary mode (`docs/events.md`).
//!
//! The value of the record is the payload, byte for byte. All other attributes are headers with
//! ASCII values. [`PublishedEvent::to_json`] returns the same event as one JSON object, without
//! Kafka.

mod json;

use std::fmt::{self, Write as _};

use crate::{
    envelope::{Metadata, RecordedEvent},
    event::Subject,
    id::{AccountId, EventId, LinkId},
    shard::{Position, Shard},
    timestamp,
};

/// The topic of the public event stream.
pub const TOPIC: &str = "linkledger.events.v1";
/// Header: position in the shard, padded with zeros, without gaps.
pub const SEQUENCE: &str = "ce_sequence";
/// Header: epoch of the log, within which sequences can be compared.
pub const LOG_EPOCH: &str = "ce_logepoch";

const CONTENT_TYPE: &str = "content-type";
/// Prefix of the header of each attribute.
const PREFIX: &str = "ce_";
const TYPE_PREFIX: &str = "linkledger.";

/// Maximal number of headers of a record.
pub const HEADERS_MAX: usize = 13;
/// Usual maximal length of a header's value, in bytes.
const HEADER_LENGTH_USUAL: usize = 64;

/// A record that linkledger did not write, or that is damaged.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A required header is missing.
    #[error("the record has no header `{0}`")]
    Missing(&'static str),
    /// The value of a header is malformed.
    #[error("the record's header `{0}` is malformed")]
    Malformed(&'static str),
}

/// An event as published: the event and the epoch of its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedEvent {
    /// The event. Of its metadata, only the trace context is published.
    pub event: RecordedEvent,
    /// The epoch of the log.
    pub log_epoch: i32,
}

/// Headers of a record. A linear search: for a dozen headers, hashing costs more than comparing.
#[derive(Debug, Clone)]
pub struct Headers<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Headers<'a> {
    /// Returns the value of the header with this name. If several have the name, the last counts.
    fn get(&self, name: &str) -> Option<&'a str> {
        let found = self.0.iter().rfind(|(key, _)| *key == name);
        found.map(|(_, value)| *value)
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Headers<'a> {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(headers: I) -> Self {
        let mut all = Vec::with_capacity(HEADERS_MAX);
        all.extend(headers);
        Self(all)
    }
}

impl PublishedEvent {
    /// Returns the record's key: the account, so that events of an account stay in order.
    pub fn key(&self) -> String {
        self.event.account_id.to_string()
    }

    /// Returns the record's headers.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = Vec::with_capacity(HEADERS_MAX);
        self.each_header(|name, value| headers.push((name, value.to_owned())));
        headers
    }

    /// Calls `write_header` with each header of the record, from one reused buffer.
    ///
    /// Allocating a dozen strings for each of thousands of records a second would cost more than
    /// writing the headers.
    pub fn each_header(&self, mut write_header: impl FnMut(&'static str, &str)) {
        let event = &self.event;
        let (event_type, version) = (&event.event_type, event.schema_version);
        let mut buffer = String::with_capacity(HEADER_LENGTH_USUAL);
        let mut write = |name, value: fmt::Arguments<'_>| {
            buffer.clear();
            buffer.write_fmt(value).expect("a string takes all");
            write_header(name, &buffer);
        };
        write(CONTENT_TYPE, format_args!("application/json"));
        write("ce_specversion", format_args!("1.0"));
        write("ce_id", format_args!("{}", event.event_id));
        write(
            "ce_source",
            format_args!("/linkledger/shards/{}", event.shard),
        );
        write(
            "ce_type",
            format_args!("{TYPE_PREFIX}{event_type}.v{version}"),
        );
        write("ce_subject", format_args!("{}", subject(event)));
        let time = timestamp::format(event.recorded_at);
        write("ce_time", format_args!("{time}"));
        write(
            "ce_dataschema",
            format_args!("urn:linkledger:schema:{event_type}:v{version}"),
        );
        write("ce_partitionkey", format_args!("{}", event.account_id));
        write(SEQUENCE, format_args!("{:020}", event.position));
        write(LOG_EPOCH, format_args!("{}", self.log_epoch));
        write("ce_streamversion", format_args!("{}", event.version));
        if let Some(traceparent) = &event.metadata.traceparent {
            write("ce_traceparent", format_args!("{traceparent}"));
        }
    }

    /// Returns the event in the JSON event format of `CloudEvents`, on one line. Each attribute is
    /// a string, as in the headers; `data` is the payload.
    ///
    /// # Errors
    /// Returns an error if the payload is not JSON.
    pub fn to_json(&self) -> serde_json::Result<String> {
        json::to_json(self)
    }

    /// Reads the event of a record from `shard`'s partition.
    ///
    /// # Errors
    /// Returns [`RecordError`] for the first header that is missing or malformed.
    pub fn from_record(
        shard: Shard,
        headers: &Headers<'_>,
        payload: String,
    ) -> Result<Self, RecordError> {
        let get = |name| headers.get(name).ok_or(RecordError::Missing(name));
        let account_id: AccountId = parsed("ce_partitionkey", get("ce_partitionkey")?)?;
        let (event_type, schema_version) = get("ce_type")?
            .strip_prefix(TYPE_PREFIX)
            .and_then(|name| name.rsplit_once(".v"))
            .ok_or(RecordError::Malformed("ce_type"))?;
        let recorded_at =
            timestamp::parse(get("ce_time")?).map_err(|_| RecordError::Malformed("ce_time"))?;
        let event = RecordedEvent {
            shard,
            position: counted::<Position>(SEQUENCE, get(SEQUENCE)?)?,
            stream_id: parsed::<Subject>("ce_subject", get("ce_subject")?)?.stream_id(),
            version: counted("ce_streamversion", get("ce_streamversion")?)?,
            account_id,
            event_id: parsed::<EventId>("ce_id", get("ce_id")?)?,
            event_type: event_type.to_owned(),
            schema_version: counted("ce_type", schema_version)?,
            payload,
            metadata: Metadata {
                traceparent: headers.get("ce_traceparent").map(str::to_owned),
                ..Metadata::default()
            },
            recorded_at,
        };
        Ok(Self {
            event,
            log_epoch: counted(LOG_EPOCH, get(LOG_EPOCH)?)?,
        })
    }
}

fn parsed<T: std::str::FromStr>(name: &'static str, text: &str) -> Result<T, RecordError> {
    text.parse().map_err(|_| RecordError::Malformed(name))
}

/// Parses a number that is at least 1.
fn counted<T>(name: &'static str, text: &str) -> Result<T, RecordError>
where
    T: std::str::FromStr + PartialOrd + From<u8>,
{
    let number = text.parse().ok().filter(|number| *number >= T::from(1));
    number.ok_or(RecordError::Malformed(name))
}

/// Returns the subject of an event: its account, or one of the account's links.
fn subject(event: &RecordedEvent) -> Subject {
    if event.stream_id == event.account_id.uuid() {
        Subject::Account(event.account_id)
    } else {
        Subject::Link(LinkId::from_uuid(event.stream_id))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use time::macros::datetime;
    use uuid::Uuid;

    use super::*;

    pub(super) fn published(stream_id: u128) -> PublishedEvent {
        let event = RecordedEvent {
            shard: Shard::new(3).unwrap(),
            position: 42,
            stream_id: Uuid::from_u128(stream_id),
            version: 7,
            account_id: AccountId::from_uuid(Uuid::from_u128(2)),
            event_id: EventId::from_uuid(Uuid::from_u128(9)),
            event_type: "CreditsCharged".to_owned(),
            schema_version: 1,
            payload: "{}".to_owned(),
            metadata: Metadata {
                traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
                ..Metadata::default()
            },
            recorded_at: datetime!(2026-11-20 09:51:00.123 UTC),
        };
        PublishedEvent {
            event,
            log_epoch: 1,
        }
    }

    #[test]
    fn record_has_the_documented_headers() {
        let headers = published(2).headers();
        let expected = [
            ("content-type", "application/json"),
            ("ce_specversion", "1.0"),
            ("ce_id", "evt_00000000000000000000000009"),
            ("ce_source", "/linkledger/shards/3"),
            ("ce_type", "linkledger.CreditsCharged.v1"),
            ("ce_subject", "acc_00000000000000000000000002"),
            ("ce_time", "2026-11-20T09:51:00.123Z"),
            ("ce_dataschema", "urn:linkledger:schema:CreditsCharged:v1"),
            ("ce_partitionkey", "acc_00000000000000000000000002"),
            ("ce_sequence", "00000000000000000042"),
            ("ce_logepoch", "1"),
            ("ce_streamversion", "7"),
            (
                "ce_traceparent",
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            ),
        ];
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        assert_eq!(headers, expected);
    }

    #[test]
    fn record_has_at_most_headers_max() {
        assert_eq!(published(2).headers().len(), HEADERS_MAX);
    }

    #[test]
    fn attributes_conform_to_cloudevents() {
        for (name, value) in published(2).headers() {
            let attribute = name.strip_prefix(PREFIX);
            let is_named = attribute.is_none_or(|attribute| {
                (1..=20).contains(&attribute.len())
                    && attribute
                        .bytes()
                        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            });
            assert!(
                is_named && (attribute.is_some() || name == CONTENT_TYPE),
                "{name}"
            );
            let is_plain = value.bytes().all(|byte| byte.is_ascii_graphic());
            assert!(!value.is_empty() && is_plain, "{name}: {value}");
        }
    }

    #[test]
    fn event_round_trips_through_record() {
        for stream_id in [2, 5] {
            let published = published(stream_id);
            let headers = published.headers();
            let headers = headers
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            let read = PublishedEvent::from_record(published.event.shard, &headers, "{}".into());
            assert_eq!(read.unwrap(), published);
        }
    }

    #[test]
    fn last_header_of_a_name_counts() {
        let published = published(2);
        let written = published.headers();
        let headers = written.iter().map(|(name, value)| (*name, value.as_str()));
        let headers = [(SEQUENCE, "7")].into_iter().chain(headers).collect();
        let read = PublishedEvent::from_record(published.event.shard, &headers, "{}".into());
        assert_eq!(read.unwrap(), published);
    }

    #[test]
    fn missing_or_malformed_header_is_named() {
        let published = published(2);
        let headers = published.headers();
        let mut headers: HashMap<_, _> = headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let read = |headers: &HashMap<_, _>| {
            let headers = headers
                .iter()
                .map(|(name, value)| (*name, *value))
                .collect();
            let error = PublishedEvent::from_record(published.event.shard, &headers, "{}".into());
            error.unwrap_err().to_string()
        };
        for (name, value) in [
            ("ce_time", "9999-12-31T23:59:59-00:01"),
            ("ce_sequence", "00000000000000000000"),
            ("ce_streamversion", "-1"),
            ("ce_logepoch", "0"),
            ("ce_type", "linkledger.CreditsCharged.v0"),
        ] {
            let sound = headers.insert(name, value).unwrap();
            assert_eq!(
                read(&headers),
                format!("the record's header `{name}` is malformed")
            );
            headers.insert(name, sound);
        }
        headers.insert("ce_type", "other.Event.v1");
        assert_eq!(read(&headers), "the record's header `ce_type` is malformed");
        headers.remove("ce_type");
        assert_eq!(read(&headers), "the record has no header `ce_type`");
    }
}
