//! Cursors: tokens for the start of the next page of a list (`docs/api.md#lists`).
//!
//! A cursor is no secret, and proves nothing: whoever knows the format can make one, for any place of an own list.
//! So a place must be harmless whatever it is, and the statement alone decides whose rows a page shows. The checksum
//! tells a client early that its cursor was cut, edited, or belongs to another list.
//!
//! A cursor names a place between rows, so a cursor remains valid when its row is deleted.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use crate::id::AccountId;

/// First byte of a cursor. The others are the digest of the filters, the place and the checksum.
const VERSION: u8 = 1;
/// Length of the digest of the filters, in bytes.
const DIGEST_LENGTH: usize = 8;
/// Length of the checksum over all other bytes, the list and its owner.
const CHECKSUM_LENGTH: usize = 8;

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
    /// The cursor was changed, or is not of this list of this account.
    NotOfList,
    /// The cursor is of this list of this account with other filters, or in another order.
    OtherFilters,
}

/// Sort key of the last item before a page. Lists must bear every value.
pub trait Place: Sized {
    /// Returns the place as bytes, of which there is one spelling.
    fn to_bytes(&self) -> Vec<u8>;

    /// Returns the place of the bytes, if they are one.
    fn of_bytes(bytes: &[u8]) -> Option<Self>;
}

/// Place by an id.
impl Place for u128 {
    fn to_bytes(&self) -> Vec<u8> {
        self.to_be_bytes().to_vec()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::from_be_bytes)
    }
}

/// Place by a version.
impl Place for i64 {
    fn to_bytes(&self) -> Vec<u8> {
        self.to_be_bytes().to_vec()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::from_be_bytes)
    }
}

/// Place by a text that Postgres can compare.
impl Place for String {
    fn to_bytes(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        (!text.contains('\0')).then(|| text.to_owned())
    }
}

impl CursorScope {
    /// Returns the cursor of the place right after `place`.
    pub fn cursor_after(&self, place: &impl Place) -> String {
        let mut cursor = vec![VERSION];
        cursor.extend(self.digest_of_filters());
        cursor.extend(place.to_bytes());
        cursor.extend(self.checksum(&cursor));
        URL_SAFE_NO_PAD.encode(cursor)
    }

    /// Returns the place of a cursor. A cursor has one spelling: the decoder refuses spare bits and padding.
    ///
    /// # Errors
    /// Returns [`CursorRefusal`] if the cursor was changed, or is not of this list.
    pub fn place_of<P: Place>(&self, cursor: &str) -> Result<P, CursorRefusal> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor);
        let bytes = bytes.map_err(|_| CursorRefusal::NotOfList)?;
        let (digest, place) = self.split(&bytes).ok_or(CursorRefusal::NotOfList)?;
        if digest != self.digest_of_filters() {
            return Err(CursorRefusal::OtherFilters);
        }
        P::of_bytes(place).ok_or(CursorRefusal::NotOfList)
    }

    /// Returns digest and place, if version and checksum are right.
    fn split<'c>(&self, cursor: &'c [u8]) -> Option<(&'c [u8], &'c [u8])> {
        let (summed, checksum) = cursor.split_last_chunk::<CHECKSUM_LENGTH>()?;
        let (version, rest) = summed.split_first()?;
        let is_right = *version == VERSION && *checksum == self.checksum(summed);
        rest.split_at_checked(DIGEST_LENGTH).filter(|_| is_right)
    }

    fn digest_of_filters(&self) -> [u8; DIGEST_LENGTH] {
        first_bytes(Sha256::digest(&self.filters).into())
    }

    fn checksum(&self, summed: &[u8]) -> [u8; CHECKSUM_LENGTH] {
        let hash = Sha256::new()
            .chain_update(self.account_id.uuid().as_bytes())
            .chain_update(&self.list)
            // No path has a zero byte, so no two scopes give the same bytes.
            .chain_update([0])
            .chain_update(summed);
        first_bytes(hash.finalize().into())
    }
}

fn first_bytes<const LENGTH: usize>(hash: [u8; 32]) -> [u8; LENGTH] {
    let first = hash.first_chunk::<LENGTH>();
    *first.expect("a hash is longer")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    const PLACE: u128 = 0x0189_0a5d_ac96_774b_bcce_b302_099a_8057;

    fn scope(list: &str, filters: &str, account: u128) -> CursorScope {
        CursorScope {
            list: list.to_owned(),
            filters: filters.to_owned(),
            account_id: AccountId::from_uuid(Uuid::from_u128(account)),
        }
    }

    fn own() -> CursorScope {
        scope("/v1/links", "", 1)
    }

    #[test]
    fn cursor_is_bound_to_account_list_and_filters() {
        use CursorRefusal::{NotOfList, OtherFilters};
        let filtered = scope("/v1/links", "slug=abc", 1);
        for (scope, others) in [
            (
                own(),
                [
                    (scope("/v1/links", "", 2), NotOfList),
                    (scope("/v1/link", "", 1), NotOfList),
                    (filtered.clone(), OtherFilters),
                ],
            ),
            (
                filtered,
                [
                    (scope("/v1/links", "slug=abc", 2), NotOfList),
                    (scope("/v1/link", "slug=abc", 1), NotOfList),
                    (scope("/v1/links", "slug=abd", 1), OtherFilters),
                ],
            ),
        ] {
            let cursor = scope.cursor_after(&PLACE);
            assert_eq!(scope.place_of(&cursor), Ok(PLACE));
            for (other, refusal) in others {
                assert_eq!(other.place_of::<u128>(&cursor), Err(refusal), "{other:?}");
            }
        }
    }

    #[test]
    fn format_of_cursors_stays_the_same() {
        // Clients keep cursors over a deployment.
        let cursor = own().cursor_after(&PLACE);
        assert_eq!(cursor, "AeOwxEKY_BwUAYkKXayWd0u8zrMCCZqAVyozi6e-Fohf");
    }

    #[test]
    fn every_flipped_bit_invalidates_a_cursor() {
        let sorted = scope("/v1/links", "sort=created_at", 1);
        for scope in [own(), sorted] {
            let cursor = URL_SAFE_NO_PAD.decode(scope.cursor_after(&PLACE)).unwrap();
            assert_eq!(cursor.len(), 33);
            for bit in 0..8 * cursor.len() {
                let mut flipped = cursor.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                let opened = scope.place_of::<u128>(&URL_SAFE_NO_PAD.encode(flipped));
                assert_eq!(opened, Err(CursorRefusal::NotOfList), "{bit}");
            }
        }
    }

    #[test]
    fn other_spellings_of_a_cursor_are_invalid() {
        // The lengths leave 0, 2 and 4 spare bits in the last character.
        for place in ["a", "ab", "abc"].map(str::to_owned) {
            let cursor = own().cursor_after(&place);
            assert_eq!(own().place_of(&cursor), Ok(place));
            let (start, last) = cursor.split_at(cursor.len() - 1);
            let last = ["A", "B", "Q", "g", "w", "_"].map(|other| (other, last));
            let others = last.into_iter().filter(|(other, last)| other != last);
            let changed = others.map(|(other, _)| format!("{start}{other}"));
            for text in changed.chain([
                String::new(),
                cursor.to_lowercase(),
                cursor.to_uppercase(),
                format!("{cursor}="),
                format!("{cursor}A"),
                format!(" {cursor}"),
                format!("{cursor}\n"),
                cursor[1..].to_owned(),
                start.to_owned(),
            ]) {
                let refused = own().place_of::<String>(&text);
                assert_eq!(refused, Err(CursorRefusal::NotOfList), "{text:?}");
            }
        }
    }

    #[test]
    fn forged_place_of_another_kind_is_refused() {
        let version = own().cursor_after(&i64::MIN);
        assert_eq!(own().place_of(&version), Ok(i64::MIN));
        assert!(own().place_of::<u128>(&version).is_err());
        let id = own().cursor_after(&u128::MAX);
        assert!(own().place_of::<i64>(&id).is_err());
        assert!(own().place_of::<String>(&id).is_err());
        // Postgres has no text with a zero byte.
        let text = own().cursor_after(&"a\0b".to_owned());
        assert!(own().place_of::<String>(&text).is_err());
    }

    proptest! {
        #[test]
        fn places_round_trip_and_random_text_fails(
            place: u128, tag in "[^\0]*", text: String, filters: String,
        ) {
            let scope = scope("/v1/links", &filters, 1);
            prop_assert_eq!(scope.place_of(&scope.cursor_after(&place)), Ok(place));
            prop_assert_eq!(scope.place_of(&scope.cursor_after(&tag)), Ok(tag));
            prop_assert_eq!(scope.place_of::<u128>(&text), Err(CursorRefusal::NotOfList));
        }
    }
}
