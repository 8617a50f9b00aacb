//! Typed identifiers: a prefix and a `UUIDv7` in 26 characters (`TypeID` 0.3).
//!
//! HTTP, Kafka and logs have the text form of an id; SQL has the bare `uuid`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

/// The text is not an id of the expected type, or not in canonical spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an identifier is wanted: {0} and 26 characters of 0-9 and a-z")]
pub struct InvalidId(pub(crate) &'static str);

/// Crockford's base32 in lower case: no `i`, `l`, `o`, `u`.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const SUFFIX_LENGTH: usize = 26;

/// Value of each byte as a digit, or [`NO_DIGIT`].
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut value = 0;
    while value < ALPHABET.len() {
        #[expect(clippy::cast_possible_truncation, reason = "below 32")]
        let digit = value as u8;
        digits[ALPHABET[value] as usize] = digit;
        value += 1;
    }
    digits
};
const NO_DIGIT: u8 = u8::MAX;

fn encode_suffix(uuid: Uuid) -> [u8; SUFFIX_LENGTH] {
    let mut bits = uuid.as_u128();
    let mut suffix = [0; SUFFIX_LENGTH];
    for character in suffix.iter_mut().rev() {
        *character = ALPHABET[usize::try_from(bits & 31).expect("five bits fit")];
        bits >>= 5;
    }
    suffix
}

fn decode_suffix(suffix: &str) -> Option<Uuid> {
    let bytes = suffix.as_bytes();
    // 26 characters carry 130 bits; a first character above '7' would exceed 128 bits.
    if bytes.len() != SUFFIX_LENGTH || bytes[0] > b'7' {
        return None;
    }
    let mut bits: u128 = 0;
    for byte in bytes {
        let digit = DIGITS[usize::from(*byte)];
        if digit == NO_DIGIT {
            return None;
        }
        bits = (bits << 5) | u128::from(digit);
    }
    Some(Uuid::from_u128(bits))
}

macro_rules! typed_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl $name {
            /// Prefix of the text form.
            pub const PREFIX: &'static str = concat!($prefix, "_");

            /// Regular expression of the text form.
            pub const PATTERN: &'static str =
                concat!("^", $prefix, "_[0-7][0-9a-hjkmnp-tv-z]{25}$");

            /// Returns the id of a UUID.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// Returns the UUID of the id, as stored in SQL.
            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let suffix = encode_suffix(self.0);
                f.write_str(Self::PREFIX)?;
                f.write_str(std::str::from_utf8(&suffix).expect("the alphabet is ASCII"))
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let suffix = text.strip_prefix(Self::PREFIX);
                let uuid = suffix.and_then(decode_suffix);
                uuid.map(Self).ok_or(InvalidId(Self::PREFIX))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "pattern": Self::PATTERN })
            }
        }
    };
}

typed_id!(
    /// Id of a short link.
    LinkId, "lnk");
typed_id!(
    /// Id of an account: the owner of links and credits.
    AccountId, "acc");
typed_id!(
    /// Id of an API key; public, unlike the secret key.
    KeyId, "key");
typed_id!(
    /// Id of an admin key; public, unlike the secret key.
    AdminKeyId, "adm");
typed_id!(
    /// Id of an event of the log.
    EventId, "evt");
typed_id!(
    /// Id of an entry of an account's ledger; has the UUID of the entry's event.
    EntryId, "ent");
typed_id!(
    /// Id of a webhook: an address that receives messages about events.
    WebhookId, "whe");
typed_id!(
    /// Id of a delivery: a message that a webhook received, or that waits for it.
    DeliveryId, "dlv");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_form_conforms_to_typeid() {
        let uuid = Uuid::parse_str("01890a5d-ac96-774b-bcce-b302099a8057").unwrap();
        assert_eq!(
            LinkId::from_uuid(uuid).to_string(),
            "lnk_01h455vb4pex5vsknk084sn02q"
        );
        assert_eq!(
            LinkId::from_uuid(Uuid::nil()).to_string(),
            "lnk_00000000000000000000000000"
        );
    }

    #[test]
    fn other_spellings_of_an_id_are_refused() {
        for text in [
            "",
            "lnk_",
            "01h455vb4pex5vsknk084sn02q",
            "acc_01h455vb4pex5vsknk084sn02q",
            "LNK_01h455vb4pex5vsknk084sn02q",
            "lnk_01H455VB4PEX5VSKNK084SN02Q",
            "lnk_01h455vb4pex5vsknk084sn02",
            "lnk_01h455vb4pex5vsknk084sn02qq",
            "lnk_01h455vb4pex5vsknk084sn02l",
            "lnk_81h455vb4pex5vsknk084sn02q",
            "lnk_01h455vb4pex5vsknk084sn02\u{e9}",
        ] {
            assert_eq!(text.parse::<LinkId>(), Err(InvalidId("lnk_")), "{text}");
        }
    }

    proptest! {
        #[test]
        fn ids_round_trip_through_text(bits: u128) {
            let id = LinkId::from_uuid(Uuid::from_u128(bits));
            prop_assert_eq!(id.to_string().parse(), Ok(id));
        }
    }
}
