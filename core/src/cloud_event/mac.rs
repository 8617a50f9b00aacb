//! Message authentication code of a record: whoever may write to the topic cannot make or change an event.
//!
//! HMAC-SHA-256 (RFC 2104), cut to 128 bits, over all other attributes of the record, its shard among them, and
//! the payload. Each log has a key of its own, which only relay and projector may read.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::PublishedEvent;

/// Key of the message authentication codes of a log's records.
#[derive(Clone)]
pub struct RecordKey(Hmac<Sha256>);

/// Message authentication code of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordMac(u128);

impl RecordKey {
    /// Returns the key with these bytes, of which there should be 32.
    pub fn new(bytes: &[u8]) -> Self {
        Self(Hmac::new_from_slice(bytes).expect("HMAC takes keys of any length"))
    }

    /// Returns the code of an event's record.
    pub(super) fn mac(&self, event: &PublishedEvent) -> RecordMac {
        let bytes = self.hmac(event).finalize().into_bytes();
        let half = bytes.first_chunk().expect("SHA-256 has 32 bytes");
        RecordMac(u128::from_be_bytes(*half))
    }

    /// Returns true if the code is that of the event's record. Takes as long for each wrong code.
    pub(super) fn verifies(&self, event: &PublishedEvent, RecordMac(mac): RecordMac) -> bool {
        let verified = self.hmac(event).verify_truncated_left(&mac.to_be_bytes());
        verified.is_ok()
    }

    fn hmac(&self, event: &PublishedEvent) -> Hmac<Sha256> {
        let mut hmac = self.0.clone();
        event.each_attribute(|name, value| {
            // With its length, so that no value can pass for the header after it.
            hmac.update(name.as_bytes());
            hmac.update(&(value.len() as u64).to_be_bytes());
            hmac.update(value.as_bytes());
        });
        hmac.update(event.event.payload.as_bytes());
        hmac
    }
}

// Without the key.
impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecordKey")
    }
}

impl fmt::Display for RecordMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl std::str::FromStr for RecordMac {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::published_of_link, *};
    use crate::{id::AccountId, shard::Shard};

    fn key() -> RecordKey {
        RecordKey::new(&[7; 32])
    }

    #[test]
    fn code_is_hmac_sha256_of_attributes_and_payload() {
        let signed = published_of_link().signed(&key());
        // Computed by Python's module `hmac`.
        let expected = "b10154b430f3286ca50ed21ac1b67d67";
        assert_eq!(signed.mac.unwrap().to_string(), expected);
    }

    #[test]
    fn any_change_of_a_record_is_noticed() {
        let signed = published_of_link().signed(&key());
        assert!(signed.is_authentic(&key()));
        let changes: &[fn(&mut PublishedEvent)] = &[
            |it| it.log_epoch += 1,
            |it| it.event.shard = Shard::new(4).unwrap(),
            |it| it.event.position += 1,
            |it| it.event.stream_id = uuid::Uuid::nil(),
            |it| it.event.version += 1,
            |it| it.event.account_id = AccountId::from_uuid(uuid::Uuid::nil()),
            |it| it.event.event_id = crate::id::EventId::from_uuid(uuid::Uuid::nil()),
            |it| it.event.event_type.push('x'),
            |it| it.event.schema_version += 1,
            |it| it.event.payload.push(' '),
            |it| it.event.metadata.traceparent = None,
            |it| it.event.metadata.link = None,
            |it| it.event.recorded_at += time::Duration::milliseconds(1),
            |it| it.mac = None,
            |it| it.mac = Some("0".parse().unwrap()),
        ];
        for (nth, change) in changes.iter().enumerate() {
            let mut record = signed.clone();
            change(&mut record);
            assert!(!record.is_authentic(&key()), "change {nth}");
        }
        assert!(!signed.is_authentic(&RecordKey::new(&[8; 32])));
    }
}
