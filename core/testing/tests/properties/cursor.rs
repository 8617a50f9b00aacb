//! Cursors of lists.

use std::sync::LazyLock;

use linkledger_core::{cursor::CursorScope, id::AccountId};
use uuid::Uuid;

static SCOPE: LazyLock<CursorScope> = LazyLock::new(|| CursorScope {
    list: "/v1/links".to_owned(),
    filters: String::new(),
    account_id: AccountId::from_uuid(Uuid::from_u128(1)),
});

/// A cursor is accepted only in the spelling in which it was issued.
pub(crate) fn property(input: &[u8]) -> bool {
    // Random input never has a correct checksum, so the input also changes an issued cursor.
    if let Some((place, change)) = input.split_first_chunk::<16>() {
        let cursor = SCOPE.cursor_after(&u128::from_be_bytes(*place));
        assert!(is_accepted(&cursor));
        // One character: more changes could result in another issued cursor.
        if let [at, character, ..] = change {
            let mut changed = cursor.clone().into_bytes();
            changed[usize::from(*at) % cursor.len()] = character % 128;
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(is_accepted(&changed), changed == cursor, "{changed:?}");
        }
    }
    std::str::from_utf8(input).is_ok_and(is_accepted)
}

fn is_accepted(text: &str) -> bool {
    let place = SCOPE.place_of::<u128>(text);
    place.is_ok_and(|place| {
        assert_eq!(SCOPE.cursor_after(&place), text);
        true
    })
}

#[test]
fn cursor_has_exactly_one_spelling() {
    super::seeds::explore("cursor", property);
}
