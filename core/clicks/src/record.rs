//! A click as a Kafka record: `CloudEvents` 1.0, Kafka binding, binary mode (`docs/clicks.md`).

use std::{borrow::Cow, str::FromStr as _};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Click, ClickDetails, ClickKind, Device};
use linkledger_core::link::slug;
use linkledger_core::{
    cloud_event::{MAC, RecordKey},
    id::{AccountId, LinkId},
    timestamp,
};

/// Type of the record, with its version.
const TYPE: &str = "linkledger.LinkClicked.v1";
const SOURCE_PREFIX: &str = "/linkledger/recorders/";
/// Number of headers of a record.
const HEADERS: usize = 7;

/// Form of `clicked_at`, as a regular expression.
const CLICKED_AT_PATTERN: &str = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$";

/// Identity of a recorder: one start of query-api.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecorderId(pub Uuid);

/// Place of a record among the clicks of its recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPlace {
    /// Recorder of the click.
    pub recorder_id: RecorderId,
    /// Partition of the topic.
    pub partition: u8,
    /// Number of the record among the recorder's records in the partition: from 1, without gaps.
    pub sequence: u64,
}

/// A record that linkledger did not write, or that is damaged.
#[derive(Debug, thiserror::Error)]
pub enum ClickRecordError {
    /// No recorder of this installation has written the record.
    #[error("the record's code is not that of its id and value")]
    Forged,
    /// A header is missing or malformed.
    #[error("the record's header `{0}` is missing or malformed")]
    Header(&'static str),
    /// The value is no click.
    #[error("the record's value is no click: {0}")]
    Value(#[from] serde_json::Error),
    /// A member of the value is malformed.
    #[error("the record's member `{0}` is malformed")]
    Member(&'static str),
}

/// A visitor followed a short link; or, with `count`, several visits of one link, hour and kind.
///
/// Details that are unknown are absent, and so are all details of a record with `count`.
#[derive(Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(title = "LinkClicked")]
struct ClickValue<'a> {
    /// Id of the link; equal to the record's key.
    link_id: LinkId,
    /// Account that owns the link.
    account_id: AccountId,
    /// Slug of the link, in lower case.
    #[serde(borrow)]
    #[schemars(length(min = slug::LENGTH_MIN, max = slug::LENGTH_MAX), regex(pattern = slug::PATTERN))]
    slug: Cow<'a, str>,
    /// Instant of the request, RFC 3339, UTC, milliseconds; of a record with `count`, of its first click.
    #[serde(borrow)]
    #[schemars(regex(pattern = CLICKED_AT_PATTERN))]
    clicked_at: Cow<'a, str>,
    /// Probable kind of the visitor: a person, or a crawler, monitor, link preview, prefetch or program.
    #[serde(borrow)]
    #[schemars(extend("enum" = ["human", "bot"]))]
    kind: Cow<'a, str>,
    /// Keyed hash of client address and user agent; equal only for one visitor, account and UTC day. Absent for
    /// bots, for a visitor who asks not to be tracked (`DNT`, `Sec-GPC`), and while the day has no salt.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = "^[0-9a-f]{16}$"))]
    visitor: Option<Cow<'a, str>>,
    /// Country of the client address, ISO 3166-1 alpha-2.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = "^[A-Z]{2}$"))]
    country: Option<Cow<'a, str>>,
    /// Host of the page with the link, in lower case.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    referrer_host: Option<Cow<'a, str>>,
    /// Family of the browser, such as `Chrome`.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    browser: Option<Cow<'a, str>>,
    /// Family of the operating system, such as `iOS`.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    os: Option<Cow<'a, str>>,
    /// Form of the device.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["desktop", "mobile", "tablet", "other"]))]
    device: Option<Cow<'a, str>>,
    /// Number of clicks in the record; absent for one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 2))]
    count: u32,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

impl Click {
    /// Returns the record's value, as JSON.
    pub fn to_value(&self) -> Vec<u8> {
        let details = &self.details;
        let borrowed = |text: &Option<String>| text.as_deref().map(str::to_owned).map(Cow::Owned);
        let value = ClickValue {
            link_id: self.link_id,
            account_id: self.account_id,
            slug: Cow::Borrowed(&self.slug),
            clicked_at: Cow::Owned(timestamp::format(self.clicked_at)),
            kind: Cow::Borrowed(self.kind.name()),
            visitor: details
                .visitor
                .map(|hash| Cow::Owned(format!("{hash:016x}"))),
            country: borrowed(&details.country),
            referrer_host: borrowed(&details.referrer_host),
            browser: borrowed(&details.browser),
            os: borrowed(&details.os),
            device: details.device.map(|device| Cow::Borrowed(device.name())),
            count: self.count,
        };
        serde_json::to_vec(&value).expect("members have string keys")
    }

    /// Returns the JSON Schema of a record's value.
    pub fn value_schema() -> schemars::Schema {
        schemars::schema_for!(ClickValue<'_>)
    }

    /// Reads a record's value.
    ///
    /// # Errors
    /// Returns an error if the value is no click.
    pub fn from_value(value: &[u8]) -> Result<Self, ClickRecordError> {
        use ClickRecordError::Member;
        let value: ClickValue<'_> = serde_json::from_slice(value)?;
        let kind = ClickKind::of_name(&value.kind).ok_or(Member("kind"))?;
        let visitor = value
            .visitor
            .map(|hash| parse_visitor(&hash).ok_or(Member("visitor")))
            .transpose()?;
        let device = value
            .device
            .map(|name| Device::of_name(&name).ok_or(Member("device")))
            .transpose()?;
        if value.count == 0 {
            return Err(Member("count"));
        }
        Ok(Self {
            link_id: value.link_id,
            account_id: value.account_id,
            slug: value.slug.into_owned(),
            clicked_at: timestamp::parse(&value.clicked_at).ok_or(Member("clicked_at"))?,
            kind,
            count: value.count,
            details: ClickDetails {
                visitor,
                country: value.country.map(Cow::into_owned),
                referrer_host: value.referrer_host.map(Cow::into_owned),
                browser: value.browser.map(Cow::into_owned),
                os: value.os.map(Cow::into_owned),
                device,
            },
        })
    }
}

/// Parses 16 hex digits in lower case.
fn parse_visitor(text: &str) -> Option<u64> {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (text.len() == 16 && text.bytes().all(is_hex))
        .then(|| u64::from_str_radix(text, 16).ok())
        .flatten()
}

impl RecordPlace {
    /// Returns the id of the record.
    fn id(self) -> String {
        let Self {
            recorder_id: RecorderId(recorder),
            partition,
            sequence,
        } = self;
        format!("{recorder}-{partition}-{sequence}")
    }

    /// Returns the headers of the record with this value, with its code.
    pub fn headers(
        self,
        value: &[u8],
        key: &RecordKey,
    ) -> [(&'static str, Cow<'static, str>); HEADERS] {
        let (id, recorder) = (self.id(), self.recorder_id.0);
        let mac = key.mac_of_click(&id, value).to_string();
        [
            ("content-type", "application/json".into()),
            ("ce_specversion", "1.0".into()),
            ("ce_id", id.into()),
            ("ce_source", format!("{SOURCE_PREFIX}{recorder}").into()),
            ("ce_type", TYPE.into()),
            ("ce_sequence", self.sequence.to_string().into()),
            (MAC, mac.into()),
        ]
    }

    /// Reads the place of a record of `partition`, and verifies its code: of the bytes as they were received.
    ///
    /// # Errors
    /// Returns an error if a header is missing or malformed, or if no recorder has written the record.
    pub fn read<'a>(
        partition: u8,
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        value: &[u8],
        key: &RecordKey,
    ) -> Result<Self, ClickRecordError> {
        use ClickRecordError::Header;
        let (mut source, mut sequence, mut mac, mut has_type) = (None, None, None, false);
        for (name, value) in headers {
            let text = || std::str::from_utf8(value).ok();
            match name {
                "ce_source" => source = text(),
                "ce_sequence" => sequence = text(),
                MAC => mac = text(),
                "ce_type" => has_type = value == TYPE.as_bytes(),
                _ => {}
            }
        }
        if !has_type {
            return Err(Header("ce_type"));
        }
        let recorder_id = source
            .and_then(|source| source.strip_prefix(SOURCE_PREFIX))
            .and_then(|text| Uuid::from_str(text).ok())
            .ok_or(Header("ce_source"))?;
        let sequence: u64 = sequence
            .and_then(|text| text.parse().ok())
            .filter(|sequence| *sequence > 0 && *sequence <= i64::MAX.cast_unsigned())
            .ok_or(Header("ce_sequence"))?;
        let place = Self {
            recorder_id: RecorderId(recorder_id),
            partition,
            sequence,
        };
        if mac.is_some_and(|mac| key.verifies_click(&place.id(), value, mac)) {
            Ok(place)
        } else {
            Err(ClickRecordError::Forged)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::macros::datetime;

    use super::*;

    fn click() -> Click {
        Click {
            link_id: LinkId::from_uuid(Uuid::from_u128(1)),
            account_id: AccountId::from_uuid(Uuid::from_u128(2)),
            slug: "spring".to_owned(),
            clicked_at: datetime!(2026-11-23 09:51:00.123 UTC),
            kind: ClickKind::Human,
            count: 1,
            details: ClickDetails {
                visitor: Some(0x00ab),
                country: Some("DE".to_owned()),
                referrer_host: Some("news.example".to_owned()),
                browser: Some("Firefox".to_owned()),
                os: Some("Linux".to_owned()),
                device: Some(Device::Desktop),
            },
        }
    }

    #[test]
    fn record_round_trips() {
        let key = RecordKey::new(&[7; 32]);
        let place = RecordPlace {
            recorder_id: RecorderId(Uuid::from_u128(3)),
            partition: 5,
            sequence: 7,
        };
        let value = click().to_value();
        let headers = place.headers(&value, &key);
        let headers = || {
            headers
                .iter()
                .map(|(name, value)| (*name, value.as_bytes()))
        };
        let read = |partition, key: &RecordKey, changed: Option<(&'static str, &'static [u8])>| {
            let headers = headers().map(|(name, value)| match changed {
                Some((of, other)) if of == name => (name, other),
                _ => (name, value),
            });
            RecordPlace::read(partition, headers, &value, key)
        };
        assert_eq!(read(5, &key, None).unwrap(), place);
        assert_eq!(Click::from_value(&value).unwrap(), click());
        // Records that no recorder has written.
        let source = b"/linkledger/recorders/00000000-0000-0000-0000-000000000004";
        for forged in [
            read(4, &key, None),
            read(5, &RecordKey::new(&[8; 32]), None),
            read(5, &key, Some(("ce_sequence", b"8"))),
            read(5, &key, Some(("ce_source", source))),
            read(5, &key, Some((MAC, b"7"))),
        ] {
            assert!(
                matches!(forged, Err(ClickRecordError::Forged)),
                "{forged:?}"
            );
        }
    }

    #[test]
    fn value_has_only_known_members() {
        let mut click = click();
        let value = String::from_utf8(click.to_value()).unwrap();
        assert_eq!(
            value,
            concat!(
                r#"{"link_id":"lnk_00000000000000000000000001","#,
                r#""account_id":"acc_00000000000000000000000002","slug":"spring","#,
                r#""clicked_at":"2026-11-23T09:51:00.123Z","kind":"human","#,
                r#""visitor":"00000000000000ab","country":"DE","referrer_host":"news.example","#,
                r#""browser":"Firefox","os":"Linux","device":"desktop"}"#,
            )
        );
        click.details = ClickDetails::default();
        click.count = 12;
        let value = String::from_utf8(click.to_value()).unwrap();
        assert!(value.ends_with(r#""kind":"human","count":12}"#), "{value}");
    }

    #[test]
    fn malformed_members_are_refused() {
        let good = String::from_utf8(click().to_value()).unwrap();
        for (from, to) in [
            ("\"human\"", "\"person\""),
            ("00000000000000ab", "00000000000000AB"),
            ("00000000000000ab", "ab"),
            ("2026-11-23T", "2026-11-33T"),
            ("desktop", "toaster"),
            ("lnk_0", "lnk_9"),
            ("\"slug\":\"spring\",", ""),
            ("\"device\"", "\"count\":0,\"device\""),
        ] {
            let changed = good.replacen(from, to, 1);
            assert_ne!(changed, good);
            assert!(Click::from_value(changed.as_bytes()).is_err(), "{changed}");
        }
    }

    proptest! {
        #[test]
        fn other_bytes_never_panic(bytes: Vec<u8>) {
            drop(Click::from_value(&bytes));
        }
    }
}
