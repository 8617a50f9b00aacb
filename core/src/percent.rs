//! Strict decoding of percent-encoded text: what is malformed is refused, never repaired.

/// Decodes the percent-encoded bytes once. Returns `None` for a `%` without two hexadecimal digits.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => (hex_digit(bytes.next()?)? << 4) | hex_digit(bytes.next()?)?,
            plain => plain,
        });
    }
    Some(decoded)
}

fn hex_digit(byte: u8) -> Option<u8> {
    let digit = char::from(byte).to_digit(16)?;
    u8::try_from(digit).ok()
}
