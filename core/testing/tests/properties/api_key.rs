//! API keys.

use linkledger_core::api_key::ApiKey;

const DIGITS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A key is accepted if and only if its checksum is correct, and shows no more than its prefix.
pub(crate) fn property(input: &[u8]) -> bool {
    // Random input never has a correct checksum, so the input is also completed with one.
    let random = input.iter().chain(std::iter::repeat(&0)).take(30);
    let random: String = random
        .map(|byte| char::from(DIGITS[usize::from(*byte) % 62]))
        .collect();
    let body = format!("llk_{random}");
    assert!(is_accepted(&format!("{body}{}", checksum(&body))));
    std::str::from_utf8(input).is_ok_and(is_accepted)
}

fn is_accepted(text: &str) -> bool {
    let is_key = text.len() == 40
        && text.starts_with("llk_")
        && text.bytes().skip(4).all(|byte| DIGITS.contains(&byte))
        && text.ends_with(&checksum(&text[..34]));
    let key = ApiKey::parse(text);
    assert_eq!(key.is_some(), is_key, "{text:?}");
    key.is_some_and(|key| {
        assert_eq!(key.reveal(), text);
        assert_eq!(format!("{key:?}"), format!("ApiKey({}…)", &text[..8]));
        true
    })
}

/// Computes CRC32 bit by bit, in base62.
fn checksum(body: &str) -> String {
    let mut crc = u32::MAX;
    for byte in body.bytes() {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    let digit = |place: u32| DIGITS[usize::try_from(!crc / 62_u32.pow(place) % 62).unwrap()];
    (0..6).rev().map(|place| char::from(digit(place))).collect()
}

#[test]
fn key_is_valid_iff_checksum_fits() {
    super::seeds::explore("api_key", property);
}
