//! Headers by which a browser says that nobody looks at the answer yet, or that the visitor asks not
//! to be tracked.

/// Number of bytes of a header value that are looked at.
const VALUE_BYTES_MAX: usize = 64;

/// Returns true if the request loads a page in advance: `Sec-Purpose` or `Purpose` contains
/// `prefetch`, or `X-Moz` is `prefetch`.
pub fn is_prefetch(
    sec_purpose: Option<&[u8]>,
    purpose: Option<&[u8]>,
    x_moz: Option<&[u8]>,
) -> bool {
    let purposes = [sec_purpose, purpose].into_iter().flatten();
    let is_named = purposes.map(kept).any(|value| {
        let mut parts = value.windows(PREFETCH.len());
        parts.any(|part| part.eq_ignore_ascii_case(PREFETCH))
    });
    is_named || x_moz.is_some_and(|value| kept(value).eq_ignore_ascii_case(PREFETCH))
}

const PREFETCH: &[u8] = b"prefetch";

/// Returns true if the visitor asks not to be tracked: `DNT` or `Sec-GPC` is `1`.
pub fn asks_for_privacy(dnt: Option<&[u8]>, sec_gpc: Option<&[u8]>) -> bool {
    let mut values = [dnt, sec_gpc].into_iter().flatten();
    values.any(|value| value.trim_ascii() == b"1")
}

fn kept(value: &[u8]) -> &[u8] {
    value[..value.len().min(VALUE_BYTES_MAX)].trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefetch_is_found_in_any_case() {
        for value in ["prefetch", "Prefetch;prerender", "prerender, PREFETCH"] {
            assert!(is_prefetch(Some(value.as_bytes()), None, None), "{value}");
            assert!(is_prefetch(None, Some(value.as_bytes()), None), "{value}");
        }
        assert!(is_prefetch(None, None, Some(b"Prefetch")));
        assert!(!is_prefetch(None, None, Some(b"prefetch, preview")));
        assert!(!is_prefetch(Some(b"preview"), Some(b""), None));
        assert!(!is_prefetch(None, None, None));
    }

    #[test]
    fn long_values_are_cut() {
        let value = format!("{}prefetch", "x".repeat(60));
        assert!(!is_prefetch(Some(value.as_bytes()), None, None));
    }

    #[test]
    fn privacy_is_asked_by_one() {
        assert!(asks_for_privacy(Some(b"1"), None));
        assert!(asks_for_privacy(None, Some(b" 1 ")));
        assert!(!asks_for_privacy(Some(b"0"), Some(b"")));
        assert!(!asks_for_privacy(None, None));
    }
}
