//! Cursors: authenticated tokens for the start of the next page of a list (`docs/api.md#lists`).
//!
//! A caller can only send back a cursor that was issued for the same list. A cursor names a place
//! between rows, so a cursor remains valid when its row is deleted.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use crate::id::AccountId;

/// Version of the cursors of a whole list: version, place, tag.
const WHOLE_LIST: u8 = 1;
/// Version of the cursors of a list with filters or another order: version, place, digest, tag.
const FILTERED_LIST: u8 = 2;
const PLACE_LENGTH: usize = 16;
/// Length of the digest of the filters. The tag protects the digest, which only has to differ for other filters.
const DIGEST_LENGTH: usize = 12;
/// Half of the hash: 128 bits cannot be guessed.
const TAG_LENGTH: usize = 16;
/// Separates the authentication codes of whole lists from other uses of the same keys.
const PURPOSE: &[u8] = b"linkledger cursor\0";
/// Separates the authentication codes of filtered lists from those of whole lists.
const PURPOSE_FILTERED: &[u8] = b"linkledger filtered cursor\0";
/// Minimal length of a key, in bytes: the length of the hash.
const KEY_LENGTH_MIN: usize = 32;

/// The list and the account that a cursor is valid for.
#[derive(Debug, Clone)]
pub struct CursorScope {
    /// Path of the list.
    pub list: String,
    /// Filters and order of the list as a query in canonical form; empty for the whole list in its usual order.
    pub filters: String,
    /// Owner of the list.
    pub account_id: AccountId,
}

/// Reason why a cursor is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CursorRefusal {
    /// The cursor was not issued by these keys for this list of this account.
    NotIssued,
    /// The cursor was issued for this list of this account with other filters, or in another order.
    OtherFilters,
}

/// Reason why the setting with the keys is invalid. Names a key by its index, never by its text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CursorKeyError {
    /// The text is neither hex nor base64url.
    #[error("key {place} is not usable: it is neither hex nor base64url without padding")]
    Encoding {
        /// Index of the key in the setting, from 1.
        place: usize,
    },
    /// The key has too few bytes to be a secret.
    #[error("key {place} is not usable: it has {length} bytes, {KEY_LENGTH_MIN} are needed")]
    TooShort {
        /// Index of the key in the setting, from 1.
        place: usize,
        /// Length of the key in bytes.
        length: usize,
    },
}

/// The keys of this service. The first key signs, all keys are accepted: a rotation of keys does
/// not break running scans.
pub struct CursorKeys {
    first: Hmac<Sha256>,
    others: Vec<Hmac<Sha256>>,
}

impl CursorKeys {
    /// Parses the keys of the setting: hex or base64url, separated by commas.
    ///
    /// # Errors
    /// Returns [`CursorKeyError`] for the first invalid key.
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

    /// Returns the cursor of the place right after `place`.
    pub fn seal(&self, scope: &CursorScope, place: u128) -> String {
        let mut cursor = Vec::with_capacity(1 + PLACE_LENGTH + DIGEST_LENGTH + TAG_LENGTH);
        let is_filtered = !scope.filters.is_empty();
        cursor.push(if is_filtered {
            FILTERED_LIST
        } else {
            WHOLE_LIST
        });
        cursor.extend(place.to_be_bytes());
        if is_filtered {
            cursor.extend(digest(&scope.filters));
        }
        let tag = authenticate(&self.first, scope, &cursor).finalize();
        cursor.extend(&tag.into_bytes()[..TAG_LENGTH]);
        // Both lengths are multiples of three: base64 has no spare bits, so a cursor has exactly one spelling.
        URL_SAFE_NO_PAD.encode(cursor)
    }

    /// Returns the place of a cursor.
    ///
    /// # Errors
    /// Returns [`CursorRefusal`] if the cursor was not sealed by these keys for this scope.
    pub fn open(&self, scope: &CursorScope, text: &str) -> Result<u128, CursorRefusal> {
        let cursor = URL_SAFE_NO_PAD.decode(text).ok();
        let cursor = cursor.ok_or(CursorRefusal::NotIssued)?;
        let (signed, tag) = cursor
            .split_last_chunk::<TAG_LENGTH>()
            .ok_or(CursorRefusal::NotIssued)?;
        let (place, sealed_digest) = split(signed).ok_or(CursorRefusal::NotIssued)?;
        let is_authentic = std::iter::once(&self.first).chain(&self.others).any(|key| {
            authenticate(key, scope, signed)
                .verify_truncated_left(tag)
                .is_ok()
        });
        if !is_authentic {
            return Err(CursorRefusal::NotIssued);
        }
        let filters = scope.filters.as_str();
        let wanted_digest = (!filters.is_empty()).then(|| digest(filters));
        if sealed_digest != wanted_digest {
            return Err(CursorRefusal::OtherFilters);
        }
        Ok(place)
    }
}

/// Returns place and digest of the signed part of a cursor; a cursor of a whole list has no digest.
fn split(signed: &[u8]) -> Option<(u128, Option<[u8; DIGEST_LENGTH]>)> {
    let (version, rest) = signed.split_first()?;
    let (place, digest) = rest.split_first_chunk::<PLACE_LENGTH>()?;
    let place = u128::from_be_bytes(*place);
    match *version {
        WHOLE_LIST if digest.is_empty() => Some((place, None)),
        FILTERED_LIST => Some((place, Some(digest.try_into().ok()?))),
        _ => None,
    }
}

fn digest(filters: &str) -> [u8; DIGEST_LENGTH] {
    let hash: [u8; 32] = Sha256::digest(filters).into();
    let (digest, _) = hash.split_first_chunk().expect("a hash is longer");
    *digest
}

/// Computes the authentication code. All parts but the list have a length that the version decides, so no two
/// scopes give the same bytes.
fn authenticate(key: &Hmac<Sha256>, scope: &CursorScope, signed: &[u8]) -> Hmac<Sha256> {
    let purpose = match signed.first() {
        Some(&FILTERED_LIST) => PURPOSE_FILTERED,
        _ => PURPOSE,
    };
    key.clone()
        .chain_update(purpose)
        .chain_update(&scope.list)
        .chain_update(scope.account_id.uuid().as_bytes())
        .chain_update(signed)
}

fn parse_key(text: &str, place: usize) -> Result<Hmac<Sha256>, CursorKeyError> {
    // A text of hex digits is also valid base64url, but is read as hex. No random base64url key of
    // this length consists of hex digits only.
    let bytes = match decode_hex(text) {
        Some(bytes) => bytes,
        // The source error contains characters of the key, so it is dropped.
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
        filtered(list, "", account)
    }

    fn filtered(list: &str, filters: &str, account: u128) -> CursorScope {
        CursorScope {
            list: list.to_owned(),
            filters: filters.to_owned(),
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
    fn cursor_is_valid_for_own_list_only() {
        let keys = keys(OLD);
        let cursor = keys.seal(&own(), PLACE);
        assert_eq!(keys.open(&own(), &cursor), Ok(PLACE));
        for other in [
            scope("/v1/links", 2),
            scope("/v1/link", 1),
            scope("/v1/links?slug=abc", 1),
        ] {
            let refused = keys.open(&other, &cursor);
            assert_eq!(refused, Err(CursorRefusal::NotIssued), "{other:?}");
        }
    }

    #[test]
    fn filtered_cursor_is_bound_to_filters_and_account() {
        let keys = keys(OLD);
        let own_filters = filtered("/v1/links", "slug=abc", 1);
        let cursor = keys.seal(&own_filters, PLACE);
        assert_eq!(keys.open(&own_filters, &cursor), Ok(PLACE));
        for (other, refusal) in [
            (own(), CursorRefusal::OtherFilters),
            (
                filtered("/v1/links", "slug=abd", 1),
                CursorRefusal::OtherFilters,
            ),
            (
                filtered("/v1/links", "slug=abc", 2),
                CursorRefusal::NotIssued,
            ),
            (
                filtered("/v1/link", "slug=abc", 1),
                CursorRefusal::NotIssued,
            ),
        ] {
            assert_eq!(keys.open(&other, &cursor), Err(refusal), "{other:?}");
        }
        let whole = keys.seal(&own(), PLACE);
        let refused = keys.open(&own_filters, &whole);
        assert_eq!(refused, Err(CursorRefusal::OtherFilters));
    }

    #[test]
    fn cursors_of_the_first_version_stay_valid() {
        // Sealed by the release that had no filtered cursors.
        let cursor = "AQGJCl2slndLvM6zAgmagFdPi7RU_4aBaAocjtOcbaes";
        assert_eq!(keys(OLD).seal(&own(), PLACE), cursor);
        assert_eq!(keys(OLD).open(&own(), cursor), Ok(PLACE));
    }

    #[test]
    fn every_flipped_bit_invalidates_a_cursor() {
        let keys = keys(OLD);
        for (scope, length) in [
            (own(), 33),
            (filtered("/v1/links", "sort=created_at", 1), 45),
        ] {
            let cursor = URL_SAFE_NO_PAD.decode(keys.seal(&scope, PLACE)).unwrap();
            assert_eq!(cursor.len(), length);
            for bit in 0..8 * cursor.len() {
                let mut flipped = cursor.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(
                    keys.open(&scope, &URL_SAFE_NO_PAD.encode(flipped)),
                    Err(CursorRefusal::NotIssued),
                    "{bit}"
                );
            }
        }
    }

    #[test]
    fn other_spellings_of_a_cursor_are_invalid() {
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
            let refused = keys.open(&own(), &text);
            assert_eq!(refused, Err(CursorRefusal::NotIssued), "{text:?}");
        }
    }

    #[test]
    fn rotated_keys_accept_older_cursors() {
        let (old, both, new) = (keys(OLD), keys(&format!("{NEW}, {OLD}")), keys(NEW));
        let given_before = old.seal(&own(), PLACE);
        assert_eq!(both.open(&own(), &given_before), Ok(PLACE));
        let refused = new.open(&own(), &given_before);
        assert_eq!(refused, Err(CursorRefusal::NotIssued));
        assert_eq!(both.seal(&own(), PLACE), new.seal(&own(), PLACE));
    }

    #[test]
    fn invalid_key_is_named_by_index() {
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
        fn places_round_trip_and_random_text_fails(place: u128, text: String, filters: String) {
            let keys = keys(OLD);
            let scope = filtered("/v1/links", &filters, 1);
            prop_assert_eq!(keys.open(&scope, &keys.seal(&scope, place)), Ok(place));
            prop_assert_eq!(keys.open(&scope, &text), Err(CursorRefusal::NotIssued));
        }
    }
}
