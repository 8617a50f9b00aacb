use std::collections::HashMap;

use time::macros::datetime;
use uuid::Uuid;

use super::*;
use crate::{
    envelope::{Metadata, StateAfter},
    event::Event,
    id::{AccountId, EventId},
    link::{
        Destination, DetailChanges, Expiry, LinkDetails, LinkDetailsChanged, LinkEvent, LinkState,
        Tags, destination, details, tag,
    },
    shard::Shard,
};

/// Returns a state with a title beyond ASCII.
fn state() -> LinkState {
    LinkState {
        slug: "Spring".to_owned(),
        created_at: datetime!(2026-11-20 09:51:00.123 UTC),
        destination_url: Destination::stored("https://example.com/"),
        disabled_by_operator: true,
        disabled_by_owner: false,
        deleted: false,
        details: LinkDetails {
            title: Some("Größe \"M\"".to_owned()),
            ..LinkDetails::NONE
        },
    }
}

/// Returns an event of a link, as published with the state after it.
pub(super) fn published_of_link() -> PublishedEvent {
    let mut published = published(5);
    published.event.metadata.link = Some(state().into());
    published
}

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
    PublishedEvent::new(event, 1)
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
fn record_of_link_has_the_state_after_it() {
    let headers = published_of_link().headers();
    let expected = (
        "ce_linkstate",
        r#"{"slug":"Spring","created_at":"2026-11-20T09:51:00.123Z","destination_url":"https://example.com/","disabled_by_operator":true,"details":{"title":"Gr\u00f6\u00dfe \"M\""}}"#,
    );
    let (name, value) = headers.last().unwrap();
    assert_eq!((*name, value.as_str()), expected);
}

#[test]
fn record_lacks_operator_and_account_of_metadata() {
    let account =
        r#"{"name":"x","state":"active","balance":0,"created_at":"2026-11-20T09:51:00.123Z"}"#;
    let metadata = format!(r#"{{"actor":"operator","operator":"ada","account":{account}}}"#);
    let of_nobody = published(2).headers().into_iter();
    let mut published = published(2);
    published.event.metadata = Metadata::of_stored(&metadata);
    assert!(published.event.metadata.account.is_some());
    let names = published.headers().into_iter().map(|(name, _)| name);
    let expected = of_nobody
        .map(|(name, _)| name)
        .filter(|name| *name != "ce_traceparent");
    assert_eq!(names.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn record_has_at_most_headers_max() {
    let signed = published_of_link().signed(&RecordKey::new(b"key"));
    assert_eq!(signed.headers().len(), HEADERS_MAX);
}

/// Returns details with the longest values: each character of an address takes two bytes of JSON,
/// each other one four bytes, or twelve of a header.
fn longest_details(distinct: char) -> LinkDetails {
    let astral = |count: usize| "\u{10428}".repeat(count);
    let tag = |number: u8| {
        let sign = char::from(b'a' + number);
        format!("{sign}{distinct}{}", astral(tag::TAG_LENGTH_MAX - 2))
    };
    let numbers = 0..u8::try_from(tag::TAGS_MAX).unwrap();
    LinkDetails {
        title: Some(format!(
            "{distinct}{}",
            astral(details::TITLE_LENGTH_MAX - 1)
        )),
        external_id: Some(distinct.to_string().repeat(details::EXTERNAL_ID_LENGTH_MAX)),
        tags: Tags::of(numbers.map(tag).collect()),
        expires_at: Some(Expiry::at(datetime!(2099-12-31 23:59:59.999 UTC))),
        expired_url: Some(longest_address(distinct)),
    }
}

fn longest_address(distinct: char) -> Destination {
    let prefix = format!("https://e.com/?{distinct}");
    let rest = "\\".repeat(destination::LENGTH_MAX - prefix.len());
    Destination::stored(format!("{prefix}{rest}"))
}

/// Maximal length of the header with the state, by `docs/events.md`.
const STATE_BYTES_MAX: usize = 52 * 1024;

#[test]
fn longest_record_has_at_most_record_bytes_max() {
    let mut published = published_of_link();
    let changes = DetailChanges::between(&longest_details('a'), &longest_details('b'));
    let event = LinkDetailsChanged {
        link_id: LinkId::from_uuid(published.event.stream_id),
        account_id: published.event.account_id,
        changes: changes.unwrap(),
    };
    let event = Event::Link(LinkEvent::DetailsChanged(event));
    published.event.payload = event.to_payload();
    let state = LinkState {
        slug: "s".repeat(64),
        destination_url: longest_address('c'),
        disabled_by_owner: true,
        details: longest_details('b'),
        ..state()
    };
    published.event.metadata.link = Some(state.into());
    let headers = published.headers();
    let (_, state) = headers.last().unwrap();
    assert!(state.len() < STATE_BYTES_MAX, "{}", state.len());
    let headers: usize = headers
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    let bytes = published.key().len() + headers + published.event.payload.len();
    assert!(bytes < RECORD_BYTES_MAX as usize, "{bytes}");
    // Far less would make the limit of a batch needlessly small.
    assert!(bytes > RECORD_BYTES_MAX as usize * 9 / 10, "{bytes}");
}

#[test]
fn attributes_conform_to_cloudevents() {
    for (name, value) in published_of_link().headers() {
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
        // A title may have spaces.
        let is_plain = value
            .bytes()
            .all(|byte| byte.is_ascii_graphic() || byte == b' ');
        assert!(!value.is_empty() && is_plain, "{name}: {value}");
    }
}

#[test]
fn event_round_trips_through_record() {
    let mut of_later_release = published(5);
    let unknown = serde_json::json!({ "frozen": true });
    of_later_release.event.metadata.link = Some(StateAfter::Unknown(unknown));
    let signed = published_of_link().signed(&RecordKey::new(b"key"));
    for published in [published(2), published_of_link(), of_later_release, signed] {
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
    let published = published_of_link();
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
        ("ce_linkstate", "{"),
    ] {
        let sound = headers.insert(name, value).unwrap();
        assert_eq!(
            read(&headers),
            format!("the record's header `{name}` is missing or malformed")
        );
        headers.insert(name, sound);
    }
    let refusal = "the record's header `ce_type` is missing or malformed";
    headers.insert("ce_type", "other.Event.v1");
    assert_eq!(read(&headers), refusal);
    headers.remove("ce_type");
    assert_eq!(read(&headers), refusal);
}

#[test]
fn characters_beyond_ascii_are_escaped() {
    let text = "a\"\u{fc}\u{1f517}";
    let json = ascii_json(&text);
    assert_eq!(json, r#""a\"\u00fc\ud83d\udd17""#);
    assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
}

#[test]
fn json_format_has_attributes_and_data() {
    let mut event = published(2);
    event.event.payload = r#"{"amount":1,"reason":"\u00fc \n"}"#.to_owned();
    let expected = r#"{"datacontenttype":"application/json","specversion":"1.0","id":"evt_00000000000000000000000009","source":"/linkledger/shards/3","type":"linkledger.CreditsCharged.v1","subject":"acc_00000000000000000000000002","time":"2026-11-20T09:51:00.123Z","dataschema":"urn:linkledger:schema:CreditsCharged:v1","partitionkey":"acc_00000000000000000000000002","sequence":"00000000000000000042","logepoch":"1","streamversion":"7","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","data":{"amount":1,"reason":"\u00fc \n"}}"#;
    assert_eq!(event.to_json().unwrap(), expected);
}

#[test]
fn multiline_payload_becomes_one_line() {
    let mut event = published(5);
    event.event.payload = "\n{\r\n  \"amount\": 1\n}\n".to_owned();
    let json = event.to_json().unwrap();
    assert!(!json.contains(['\r', '\n']), "{json}");
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(read["data"]["amount"], 1);
}

#[test]
fn payload_that_is_not_json_is_refused() {
    for payload in ["", "{", "{} {}", "{\"a\":\n"] {
        let mut event = published(2);
        event.event.payload = payload.to_owned();
        assert!(event.to_json().is_err(), "{payload}");
    }
}
