//! The destination of a record: without blanks at its ends, out of HTML, with a scheme.

use std::borrow::Cow;

use super::html::decoded;

/// Returns an address out of HTML, and with `https://` if the address has no scheme but a host with a dot.
/// The text has no blanks at its ends.
pub(super) fn fitted(address: &str, is_html: bool) -> Cow<'_, str> {
    let address = if is_html {
        decoded(address)
    } else {
        Cow::Borrowed(address)
    };
    if let Some(rest) = address.strip_prefix("//") {
        return if begins_with_host(rest) {
            format!("https://{rest}").into()
        } else {
            address
        };
    }
    if !begins_with_host(&address) {
        return address;
    }
    Cow::Owned(format!("https://{address}"))
}

/// Returns true if a text could be an address, with or without a scheme.
pub(super) fn is_address(text: &str) -> bool {
    let end = text.find(['/', '?', '#']).unwrap_or(text.len());
    let scheme = text[..end].strip_suffix(':');
    let has_scheme =
        scheme.is_some_and(|scheme| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    has_scheme && text[end..].starts_with("//")
        || begins_with_host(text.strip_prefix("//").unwrap_or(text))
}

/// Returns true if a text begins with a host name that has a dot, perhaps with a port: not with a scheme, the user
/// of a mail address, or words.
fn begins_with_host(text: &str) -> bool {
    let end = text.find(['/', '?', '#']).unwrap_or(text.len());
    let authority = &text[..end];
    let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
    let is_host_character = |c: char| {
        c.is_alphanumeric()
            || matches!(c, '-' | '_' | '.' | '\u{3002}')
            || !c.is_ascii() && !c.is_whitespace()
    };
    host.contains(['.', '\u{3002}'])
        && !host.starts_with('.')
        && !host.ends_with('.')
        && !host.contains("..")
        && host.chars().all(is_host_character)
        && port.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_without_a_scheme_gets_https() {
        for (given, expected) in [
            ("betcalcio.com", "https://betcalcio.com"),
            (
                "example.com/path?x=https://e.com",
                "https://example.com/path?x=https://e.com",
            ),
            ("example.com:8080/x", "https://example.com:8080/x"),
            ("//example.com/x", "https://example.com/x"),
            (
                "\u{43f}\u{440}.\u{440}\u{444}/x",
                "https://\u{43f}\u{440}.\u{440}\u{444}/x",
            ),
            ("1.1.1.1/dns", "https://1.1.1.1/dns"),
        ] {
            assert_eq!(fitted(given, false), expected);
            assert!(is_address(given), "{given}");
        }
    }

    #[test]
    fn other_texts_keep_their_form() {
        for given in [
            "https://example.com/?a=1&amp;b=2",
            "HTTP://example.com",
            "ftp://example.com/",
            "mailto:a@example.com",
            "tel:+1555",
            "http:example.com",
            "a@example.com",
            "/path",
            "///x.com",
            "hello world.",
            "foo",
            "localhost:80",
            "",
            "javascript:alert(1.0)",
            "e.com:x/",
            ".com",
            "a..b",
        ] {
            assert_eq!(fitted(given, false), given);
        }
    }

    #[test]
    fn entities_of_html_are_characters() {
        let given = "https://ozh.org/?a=1&amp;b=2&copy=3";
        assert_eq!(fitted(given, true), "https://ozh.org/?a=1&b=2&copy=3");
    }
}
