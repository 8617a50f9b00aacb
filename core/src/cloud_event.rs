//! An event as a Kafka record: `CloudEvents` 1.0, Kafka binding, binary mode (`docs/events.md`).
//!
//! The value of the record is the payload, byte for byte. All other attributes are headers with
//! ASCII values. [`PublishedEvent::to_json`] returns the same event as one JSON object, without
//! Kafka.

mod mac;
mod record;

use std::fmt::{self, Write as _};

use serde::{Serialize, Serializer as _, ser::SerializeMap as _};
use serde_json::value::RawValue;

use crate::{envelope::RecordedEvent, event::Subject, id::LinkId, shard::SHARD_COUNT, timestamp};

pub use self::{
    mac::{RecordKey, RecordMac},
    record::{Headers, RecordError},
};

/// The topic of the public event stream.
pub const TOPIC: &str = "linkledger.events.v1";
/// Topic of the stream of clicks.
pub const CLICKS_TOPIC: &str = "linkledger.clicks.v1";
/// Number of partitions of the topic of clicks. Never changes during the life of a topic.
pub const CLICK_PARTITIONS: u8 = 16;
// Who has claimed a shard counts the partition with its number.
const _: () = assert!(CLICK_PARTITIONS == SHARD_COUNT);
/// Header: position in the shard, padded with zeros, without gaps.
pub const SEQUENCE: &str = "ce_sequence";
/// Header: epoch of the log, within which sequences can be compared.
pub const LOG_EPOCH: &str = "ce_logepoch";
/// Header: state of the link after the event, as JSON. A creation lacks it, since its payload is the state.
const LINK_STATE: &str = "ce_linkstate";
/// Header: message authentication code, for the projector.
pub const MAC: &str = "ce_mac";

const CONTENT_TYPE: &str = "content-type";
/// Attribute: media type of the payload. In a record, the header `content-type`.
const DATA_CONTENT_TYPE: &str = "datacontenttype";
/// Prefix of the header of each attribute.
const PREFIX: &str = "ce_";
const TYPE_PREFIX: &str = "linkledger.";

/// Maximal number of headers of a record.
pub const HEADERS_MAX: usize = 15;
/// Maximal size of a record in bytes, with key and headers: a change of all details, each as long as
/// allowed, and the state after it.
pub const RECORD_BYTES_MAX: u32 = 100 * 1024;
/// Usual maximal length of a header's value, in bytes.
const HEADER_LENGTH_USUAL: usize = 64;

/// An event as published: the event and the epoch of its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedEvent {
    /// The event. Of its metadata, only trace context and state of the link are published.
    pub event: RecordedEvent,
    /// The epoch of the log.
    pub log_epoch: i32,
    /// Message authentication code of the record. An event outside of Kafka has none.
    pub mac: Option<RecordMac>,
}

impl PublishedEvent {
    /// Returns the event without a message authentication code.
    pub const fn new(event: RecordedEvent, log_epoch: i32) -> Self {
        Self {
            event,
            log_epoch,
            mac: None,
        }
    }

    /// Returns the event with its message authentication code, as the relay publishes it.
    #[must_use]
    pub fn signed(mut self, key: &RecordKey) -> Self {
        self.mac = Some(key.mac(&self));
        self
    }

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

    /// Calls `write_header` with each header of the record, from one reused buffer but for the state of a link, which
    /// creations lack.
    ///
    /// Allocating a dozen strings for each of thousands of records a second would cost more than
    /// writing the headers.
    pub fn each_header(&self, mut write_header: impl FnMut(&'static str, &str)) {
        self.each_attribute(&mut write_header);
        if let Some(mac) = self.mac {
            write_header(MAC, &mac.to_string());
        }
    }

    /// Calls `write_header` with each header but the message authentication code.
    fn each_attribute(&self, mut write_header: impl FnMut(&'static str, &str)) {
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
        if let Some(link) = &event.metadata.link {
            write(LINK_STATE, format_args!("{}", ascii_json(link)));
        }
    }

    /// Returns the event in the JSON event format of `CloudEvents`, on one line. Each attribute is
    /// a string, as in the headers; `data` is the payload.
    ///
    /// # Errors
    /// Returns an error if the payload is not JSON.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let headers = self.headers();
        let payload = on_one_line(&self.event.payload);
        let data: &RawValue = serde_json::from_str(&payload)?;
        let mut json = Vec::new();
        let mut writer = serde_json::Serializer::new(&mut json);
        let mut object = writer.serialize_map(None)?;
        for (header, value) in &headers {
            let name = match *header {
                CONTENT_TYPE => DATA_CONTENT_TYPE,
                header => header
                    .strip_prefix(PREFIX)
                    .expect("every other header is an attribute"),
            };
            object.serialize_entry(name, value)?;
        }
        object.serialize_entry("data", data)?;
        object.end()?;
        Ok(String::from_utf8(json).expect("serde_json writes UTF-8"))
    }
}

/// Returns the subject of an event: its account, or one of the account's links.
fn subject(event: &RecordedEvent) -> Subject {
    if event.stream_id == event.account_id.uuid() {
        Subject::Account(event.account_id)
    } else {
        Subject::Link(LinkId::from_uuid(event.stream_id))
    }
}

/// Returns the value as JSON in which each character beyond ASCII is escaped.
///
/// # Panics
/// Panics if the value is no JSON.
fn ascii_json(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).expect("plain members");
    if json.is_ascii() {
        return json;
    }
    let mut ascii = String::with_capacity(2 * json.len());
    for character in json.chars() {
        if character.is_ascii() {
            ascii.push(character);
            continue;
        }
        // JSON has such characters in strings only, where any may be escaped.
        for unit in character.encode_utf16(&mut [0; 2]) {
            write!(ascii, "\\u{unit:04x}").expect("a string takes all");
        }
    }
    ascii
}

/// Replaces line breaks by spaces. JSON has line breaks only between tokens, never in a string.
fn on_one_line(payload: &str) -> std::borrow::Cow<'_, str> {
    if payload.contains(['\r', '\n']) {
        payload.replace(['\r', '\n'], " ").into()
    } else {
        payload.into()
    }
}

#[cfg(test)]
mod tests;
