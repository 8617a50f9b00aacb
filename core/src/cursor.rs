//! Cursors: where the next page of a list begins, authenticated, so that a caller can only send
//! back what it was given for this list (contract §6).
//!
//! A cursor names a place between rows, not a row: it outlives the row that it was made from.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::id::AccountId;

/// Form of the bytes below; another form gets another number.
const VERSION: u8 = 1;
const PLACE_LENGTH: usize = 16;
/// Half of the hash: nobody guesses 128 bits.
const TAG_LENGTH: usize = 16;
const SIGNED_LENGTH: usize = 1 + PLACE_LENGTH;
/// A multiple of three, so that base64 has no spare bits and each cursor exactly one spelling.
const CURSOR_LENGTH: usize = SIGNED_LENGTH + TAG_LENGTH;
/// Keeps these authentications apart from any other use of the same keys.
const PURPOSE: &[u8] = b"linkledger cursor\0";
/// Shortest key, in bytes: as long as the hash.
const KEY_LENGTH_MIN: usize = 32;

/// What a cursor is good for.
#[derive(Debug, Clone)]
pub struct CursorScope {
    /// Path of the list, and its filters as a query in their one spelling.
    pub list: String,
    /// Whose list.
    pub account_id: AccountId,
}

/// Why the setting is not usable; names a key by its place, never by its text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CursorKeyError {
    /// Not the text of any bytes.
    #[error("key {place} is not usable: it is neither hex nor base64url without padding")]
    Encoding {
        /// Of the key in the setting, from 1.
        place: usize,
    },
    /// Too few bytes to be a secret.
    #[error("key {place} is not usable: it has {length} bytes, {KEY_LENGTH_MIN} are needed")]
    TooShort {
        /// Of the key in the setting, from 1.
        place: usize,
        /// How many bytes it has.
        length: usize,
    },
}

/// The keys of this service: the first one signs, all are accepted, so that keys can be rotated
/// without breaking a scan.
pub struct CursorKeys {
    first: Hmac<Sha256>,
    others: Vec<Hmac<Sha256>>,
}

impl CursorKeys {
    /// The keys of the setting: in hex or base64url, separated by commas.
    ///
    /// # Errors
    /// [`CursorKeyError`] of the first one that is not usable.
    pub fn parse(text: &str) -> Result<Self, CursorKeyError> {
        let mut keys = text
            .split(',')
            .zip(1..)
            .map(|(key, place)| parse_key(key.trim(), place));
        let first = keys.next().expect("the first part of a text, if empty")?;
        Ok(Self {
            first,
            others: keys.collect::<Result<_, _>>()?,
        })
    }

    /// The opaque text of the place right after `place`.
    pub fn seal(&self, scope: &CursorScope, place: u128) -> String {
        let mut cursor = [0; CURSOR_LENGTH];
        cursor[0] = VERSION;
        cursor[1..SIGNED_LENGTH].copy_from_slice(&place.to_be_bytes());
        let tag = authenticate(&self.first, scope, &cursor[..SIGNED_LENGTH]).finalize();
        cursor[SIGNED_LENGTH..].copy_from_slice(&tag.into_bytes()[..TAG_LENGTH]);
        URL_SAFE_NO_PAD.encode(cursor)
    }

    /// The place of that text, if it was sealed here for this scope.
    pub fn open(&self, scope: &CursorScope, text: &str) -> Option<u128> {
        let cursor: [u8; CURSOR_LENGTH] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
        let (signed, tag) = cursor.split_at(SIGNED_LENGTH);
        let is_authentic = std::iter::once(&self.first).chain(&self.others).any(|key| {
            authenticate(key, scope, signed)
                .verify_truncated_left(tag)
                .is_ok()
        });
        (is_authentic && signed[0] == VERSION)
            .then(|| u128::from_be_bytes(signed[1..].try_into().expect("PLACE_LENGTH bytes")))
    }
}

/// All parts but the list are of fixed length: no two scopes give the same bytes.
fn authenticate(key: &Hmac<Sha256>, scope: &CursorScope, signed: &[u8]) -> Hmac<Sha256> {
    key.clone()
        .chain_update(PURPOSE)
        .chain_update(&scope.list)
        .chain_update(scope.account_id.uuid().as_bytes())
        .chain_update(signed)
}

fn parse_key(text: &str, place: usize) -> Result<Hmac<Sha256>, CursorKeyError> {
    // Hex digits are base64url too, but no random key of that length has nothing else.
    let bytes = match decode_hex(text) {
        Some(bytes) => bytes,
        // Not as a source: that error names characters of the key.
        None => URL_SAFE_NO_PAD
            .decode(text)
            .map_err(|_| CursorKeyError::Encoding { place })?,
    };
    if bytes.len() < KEY_LENGTH_MIN {
        let length = bytes.len();
        return Err(CursorKeyError::TooShort { place, length });
    }
    Ok(Hmac::new_from_slice(&bytes).expect("HMAC takes keys of any length"))
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    pairs
        .iter()
        .map(|[high, low]| u8::try_from(digit(*high)? * 16 + digit(*low)?).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    const OLD: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const NEW: &str = "_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-8";
    const PLACE: u128 = 0x0189_0a5d_ac96_774b_bcce_b302_099a_8057;

    fn scope(list: &str, account: u128) -> CursorScope {
        CursorScope {
            list: list.to_owned(),
            account_id: AccountId::from_uuid(Uuid::from_u128(account)),
        }
    }

    fn own() -> CursorScope {
        scope("/v1/links", 1)
    }

    fn keys(text: &str) -> CursorKeys {
        CursorKeys::parse(text).unwrap()
    }

    #[test]
    fn a_cursor_is_good_for_its_own_list_and_account_only() {
        let keys = keys(OLD);
        let cursor = keys.seal(&own(), PLACE);
        assert_eq!(keys.open(&own(), &cursor), Some(PLACE));
        for other in [
            scope("/v1/links", 2),
            scope("/v1/link", 1),
            scope("/v1/links?slug=abc", 1),
        ] {
            assert_eq!(keys.open(&other, &cursor), None, "{other:?}");
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let keys = keys(OLD);
        let cursor = URL_SAFE_NO_PAD.decode(keys.seal(&own(), PLACE)).unwrap();
        assert_eq!(cursor.len(), CURSOR_LENGTH);
        for bit in 0..8 * cursor.len() {
            let mut flipped = cursor.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                keys.open(&own(), &URL_SAFE_NO_PAD.encode(flipped)),
                None,
                "{bit}"
            );
        }
    }

    #[test]
    fn another_spelling_is_another_cursor() {
        let keys = keys(OLD);
        let cursor = keys.seal(&own(), PLACE);
        for text in [
            String::new(),
            cursor.to_lowercase(),
            cursor.to_uppercase(),
            format!("{cursor}="),
            format!("{cursor}A"),
            format!(" {cursor}"),
            format!("{cursor}\n"),
            cursor[1..].to_owned(),
            cursor[..cursor.len() - 1].to_owned(),
        ] {
            assert_eq!(keys.open(&own(), &text), None, "{text:?}");
        }
    }

    #[test]
    fn keys_can_be_rotated() {
        let (old, both, new) = (keys(OLD), keys(&format!("{NEW}, {OLD}")), keys(NEW));
        let given_before = old.seal(&own(), PLACE);
        assert_eq!(both.open(&own(), &given_before), Some(PLACE));
        assert_eq!(new.open(&own(), &given_before), None);
        assert_eq!(both.seal(&own(), PLACE), new.seal(&own(), PLACE));
    }

    #[test]
    fn an_unusable_key_is_named_by_its_place() {
        for (text, complaint) in [
            ("", "key 1 is not usable: it has 0 bytes, 32 are needed"),
            (
                &OLD[2..],
                "key 1 is not usable: it has 31 bytes, 32 are needed",
            ),
            (
                &format!("{OLD},secret?"),
                "key 2 is not usable: it is neither hex nor base64url without padding",
            ),
            (
                &format!("{OLD},"),
                "key 2 is not usable: it has 0 bytes, 32 are needed",
            ),
        ] {
            let error = CursorKeys::parse(text).err().unwrap();
            assert_eq!(error.to_string(), complaint, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_place_survives_its_cursor_and_no_text_is_one_by_chance(place: u128, text: String) {
            let keys = keys(OLD);
            prop_assert_eq!(keys.open(&own(), &keys.seal(&own(), place)), Some(place));
            prop_assert_eq!(keys.open(&own(), &text), None);
        }
    }
}
