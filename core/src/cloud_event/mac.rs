//! Message authentication code of a record: whoever may write to the topic cannot make or change an event.
//!
//! HMAC-SHA-256 (RFC 2104), cut to 128 bits, over the shard, all other attributes as they are written, and the payload.
//! Each log has a key of its own, which only relay and projector may read. Clicks have another key, and codes of id
//! and value.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::{MAC, PREFIX, PublishedEvent, record::Headers};
use crate::shard::Shard;

/// Name that stands for the payload among the attributes.
const PAYLOAD: &str = "data";

/// Key of the message authentication codes of a log's records.
#[derive(Clone)]
pub struct RecordKey(Hmac<Sha256>);

/// Message authentication code of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordMac(u128);

/// Running computation of a code. The bytes are put together first: hashing whole blocks at once is faster than part by
/// part.
struct Code {
    key: Hmac<Sha256>,
    bytes: Vec<u8>,
}

/// Bytes of most records.
const RECORD_BYTES: usize = 1_024;

impl RecordKey {
    /// Returns the key with these bytes, of which there should be 32.
    pub fn new(bytes: &[u8]) -> Self {
        Self(Hmac::new_from_slice(bytes).expect("HMAC takes keys of any length"))
    }

    /// Returns true if the relay of the log with this key has published the record, as it is, to the partition of the
    /// shard.
    ///
    /// Looks at the bytes that were received, not at what they mean: a value that is read and written again may be
    /// another one. An attribute of a later release counts too.
    pub fn verifies(&self, shard: Shard, headers: &Headers<'_>, payload: &str) -> bool {
        let Some(mac) = headers.get(MAC) else {
            return false;
        };
        let mut code = self.code(shard);
        for (name, value) in headers.iter().filter(|(name, _)| *name != MAC) {
            code.add(name, value);
        }
        code.add(PAYLOAD, payload);
        verifies(code.finish(), mac)
    }

    /// Returns the code of a record of clicks.
    pub fn mac_of_click(&self, id: &str, value: &[u8]) -> RecordMac {
        half(self.code_of_click(id, value))
    }

    /// Returns true if `mac` is the code of the record of clicks.
    pub fn verifies_click(&self, id: &str, value: &[u8], mac: &str) -> bool {
        verifies(self.code_of_click(id, value), mac)
    }

    /// Ids have no line break: none can pass for an id and the begin of a value.
    fn code_of_click(&self, id: &str, value: &[u8]) -> Hmac<Sha256> {
        let id = self.0.clone().chain_update(id).chain_update("\n");
        id.chain_update(value)
    }

    /// Returns the code of an event's record.
    pub(super) fn mac(&self, event: &PublishedEvent) -> RecordMac {
        let mut code = self.code(event.event.shard);
        event.each_attribute(|name, value| code.add(name, value));
        code.add(PAYLOAD, &event.event.payload);
        half(code.finish())
    }

    fn code(&self, shard: Shard) -> Code {
        let mut code = Code {
            key: self.0.clone(),
            bytes: Vec::with_capacity(RECORD_BYTES),
        };
        code.bytes.extend(shard.number().to_be_bytes());
        code
    }
}

/// Returns the first half of the finished computation.
fn half(hmac: Hmac<Sha256>) -> RecordMac {
    let bytes = hmac.finalize().into_bytes();
    let half = bytes.first_chunk().expect("SHA-256 has 32 bytes");
    RecordMac(u128::from_be_bytes(*half))
}

/// Returns true if the text is the first half of the finished computation. Takes as long for each wrong code.
fn verifies(hmac: Hmac<Sha256>, mac: &str) -> bool {
    mac.parse().is_ok_and(|RecordMac(mac)| {
        let half = mac.to_be_bytes();
        hmac.verify_truncated_left(&half).is_ok()
    })
}

impl Code {
    fn finish(self) -> Hmac<Sha256> {
        self.key.chain_update(self.bytes)
    }

    /// Adds an attribute, or the payload, with its length: none can pass for two, or for the begin of the next.
    fn add(&mut self, name: &str, value: &str) {
        if name == PAYLOAD || name.starts_with(PREFIX) {
            for part in [name, value] {
                self.bytes.extend((part.len() as u64).to_be_bytes());
                self.bytes.extend(part.as_bytes());
            }
        }
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

    /// Reads 32 digits in lower case: a code has one form.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_whole = text.len() == 32 && text.bytes().all(is_hex);
        u128::from_str_radix(if is_whole { text } else { "" }, 16).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{published, published_of_link},
        *,
    };

    type Record = (Vec<(&'static str, String)>, String);

    fn key() -> RecordKey {
        RecordKey::new(&[7; 32])
    }

    fn record(event: PublishedEvent) -> Record {
        let signed = event.signed(&key());
        (signed.headers(), signed.event.payload)
    }

    fn signed() -> Record {
        record(published_of_link())
    }

    fn verifies(key: &RecordKey, shard: i64, (headers, payload): &Record) -> bool {
        let headers = headers.iter().map(|(name, value)| (*name, value.as_str()));
        key.verifies(Shard::new(shard).unwrap(), &headers.collect(), payload)
    }

    #[test]
    fn code_is_hmac_sha256_of_attributes_and_payload() {
        let (headers, _) = signed();
        // Computed by Python's module `hmac`.
        let expected = "9edc2ed6d4d41b31d59bf6d57fe02c66";
        assert_eq!(headers.last().unwrap().1, expected);
    }

    #[test]
    fn code_of_a_click_is_hmac_sha256_of_id_and_value() {
        let verifies = |id, value, mac: &str| key().verifies_click(id, value, mac);
        // Computed by Python's module `hmac`.
        let mac = key().mac_of_click("7-5-42", b"{}").to_string();
        assert_eq!(mac, "0d4ce6aa8597927ccf78f28c15ccb6d8");
        assert!(verifies("7-5-42", b"{}", &mac));
        assert!(!verifies("7-5-43", b"{}", &mac));
        assert!(!verifies("7-5-42", b"{} ", &mac));
        assert!(!RecordKey::new(&[8; 32]).verifies_click("7-5-42", b"{}", &mac));
        for other in ["", "0", &format!("+{mac}"), &mac.to_uppercase(), &mac[1..]] {
            assert!(!verifies("7-5-42", b"{}", other), "{other}");
        }
    }

    #[test]
    fn any_change_of_a_record_is_noticed() {
        let sound = signed();
        assert!(verifies(&key(), 3, &sound));
        assert!(!verifies(&key(), 4, &sound), "another partition");
        assert!(!verifies(&RecordKey::new(&[8; 32]), 3, &sound));
        let is_attribute = |name: &str| name.starts_with(PREFIX);
        for nth in 0..sound.0.len() {
            if !is_attribute(sound.0[nth].0) {
                continue;
            }
            let (mut altered, mut lacking, mut doubled) =
                (sound.clone(), sound.clone(), sound.clone());
            altered.0[nth].1.push('0');
            let (name, _) = lacking.0.remove(nth);
            let twice = doubled.0[nth].clone();
            doubled.0.insert(0, twice);
            for record in [altered, lacking, doubled] {
                // The last of two equal codes counts.
                assert!(!verifies(&key(), 3, &record) || name == MAC, "{name}");
            }
        }
        let mut longer = sound.clone();
        longer.1.push(' ');
        assert!(!verifies(&key(), 3, &longer));
    }

    #[test]
    fn attribute_cannot_move_into_the_payload() {
        let mut moved = record(published(2));
        let last = moved.0.len() - 2;
        let (name, value) = moved.0.remove(last);
        assert_eq!(name, "ce_traceparent");
        // As the code takes both in: lengths below 128 are text, as a payload must be.
        let mut frames = String::new();
        for part in [name, value.as_str()] {
            frames.push_str(std::str::from_utf8(&(part.len() as u64).to_be_bytes()).unwrap());
            frames.push_str(part);
        }
        moved.1.insert_str(0, &frames);
        assert!(!verifies(&key(), 3, &moved));
    }

    #[test]
    fn attribute_of_a_later_release_is_verified() {
        // As the relay of that release computes it.
        let mut later = signed();
        let mut code = key().code(Shard::new(3).unwrap());
        later.0.insert(1, ("ce_later", "x".to_owned()));
        for (name, value) in later.0.iter().filter(|(name, _)| *name != MAC) {
            code.add(name, value);
        }
        code.add(PAYLOAD, &later.1);
        later.0.last_mut().unwrap().1 = half(code.finish()).to_string();
        assert!(verifies(&key(), 3, &later));
        later.0[1].1.push('y');
        assert!(!verifies(&key(), 3, &later));
    }
}
