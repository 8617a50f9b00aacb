use std::collections::HashMap;

use time::macros::datetime;
use uuid::Uuid;

use super::*;
use crate::{
    envelope::Metadata,
    id::{AccountId, EventId},
    shard::Shard,
};

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
