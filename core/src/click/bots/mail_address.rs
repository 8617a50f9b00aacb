//! Mail addresses in user agents, by which owners of sites reach the owner of a crawler.

/// Shortest last label of a host.
const LAST_LABEL_MIN: usize = 2;

/// Returns true if the text has a mail address: `@` between a name and a host such as `example.com`. Browsers write
/// `@` otherwise, as in `android@111.0` or `en_US@calendar=gregorian`.
pub(super) fn has_mail_address(text: &[u8]) -> bool {
    let mut ats = text.iter().enumerate().filter(|(_, byte)| **byte == b'@');
    ats.any(|(at, _)| {
        let name = text[..at].last();
        name.is_some_and(|it| is_of_label(*it)) && begins_with_host(&text[at + 1..])
    })
}

fn begins_with_host(text: &[u8]) -> bool {
    let is_of_host = |byte: &u8| is_of_label(*byte) || *byte == b'.';
    let length = text.iter().position(|byte| !is_of_host(byte));
    let host = &text[..length.unwrap_or(text.len())];
    let mut labels = host.split(|byte| *byte == b'.').filter(|it| !it.is_empty());
    let has_begin = labels.next().is_some();
    let last = labels.next_back().unwrap_or_default();
    has_begin && last.len() >= LAST_LABEL_MIN && last.iter().all(u8::is_ascii_alphabetic)
}

fn is_of_label(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_addresses_are_told_from_other_signs() {
        for text in [
            "Example (ops@example.com)",
            "x a@b.example.org. y",
            "Gecko/1 x-y@a-b.de",
        ] {
            assert!(has_mail_address(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "@",
            "a@",
            "@example.com",
            "a @example.com",
            "a@example",
            "Ecosia android@111.0.5563",
            "iOS 17; en_US@calendar=gregorian",
            "a@b.c",
            "a@.com",
        ] {
            assert!(!has_mail_address(text.as_bytes()), "{text}");
        }
    }
}
