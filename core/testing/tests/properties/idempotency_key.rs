//! `Idempotency-Key`.

use linkledger_core::commands::IdempotencyKey;

const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// A key is a UUID in 36 characters, bare or in quotes; its case and the quotes do not matter.
pub(crate) fn property(input: &[u8]) -> bool {
    let Ok(value) = std::str::from_utf8(input) else {
        return false;
    };
    let bare = match value.as_bytes() {
        [b'"', .., b'"'] => &value[1..value.len() - 1],
        _ => value,
    };
    let fits = |(place, byte): (usize, u8)| {
        if HYPHENS.contains(&place) {
            byte == b'-'
        } else {
            byte.is_ascii_hexdigit()
        }
    };
    let is_key = bare.len() == 36 && bare.bytes().enumerate().all(fits);
    let key = IdempotencyKey::parse(value);
    assert_eq!(key.is_some(), is_key, "{value:?}");
    key.is_some_and(|key| {
        let lower = bare.to_ascii_lowercase();
        assert_eq!(key.stored(), format!("create:{lower}"));
        for spelling in [bare.to_ascii_uppercase(), format!("\"{lower}\""), lower] {
            assert_eq!(IdempotencyKey::parse(&spelling), Some(key), "{spelling}");
        }
        true
    })
}

#[test]
fn a_key_is_a_uuid_in_36_characters() {
    super::seeds::explore("idempotency_key", property);
}
