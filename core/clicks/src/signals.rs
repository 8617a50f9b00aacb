//! Headers by which a browser says that nobody looks at the answer yet, or that the visitor asks not
//! to be tracked.

/// Number of bytes of a header value that are looked at.
const VALUE_BYTES_MAX: usize = 64;

/// Words of a request that loads a page before anybody looks at it.
const EARLY_WORDS: [&[u8]; 2] = [b"prefetch", b"preview"];

/// Returns true if the request loads a page in advance, or for a preview: one of the values of `Sec-Purpose`,
/// `Purpose`, `X-Purpose` and `X-Moz` contains `prefetch` or `preview`, in any letter case.
pub fn is_prefetch<'a>(values: impl IntoIterator<Item = Option<&'a [u8]>>) -> bool {
    let mut values = values.into_iter().flatten().map(kept);
    values.any(|value| EARLY_WORDS.iter().any(|word| contains(value, word)))
}

fn contains(value: &[u8], word: &[u8]) -> bool {
    let mut parts = value.windows(word.len());
    parts.any(|part| part.eq_ignore_ascii_case(word))
}

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
    fn prefetch_and_preview_are_found_in_any_case() {
        for value in [
            "prefetch",
            "Prefetch;prerender",
            "prerender, PREFETCH",
            "preview",
            "Preview",
            "instant; PREVIEW",
        ] {
            for header in 0..4 {
                let mut values = [None; 4];
                values[header] = Some(value.as_bytes());
                assert!(is_prefetch(values), "{value}");
            }
        }
        assert!(!is_prefetch([
            Some(&b"prefetc"[..]),
            Some(b""),
            Some(b"navigate"),
            None
        ]));
    }

    #[test]
    fn long_values_are_cut() {
        let value = format!("{}prefetch", "x".repeat(60));
        assert!(!is_prefetch([Some(value.as_bytes())]));
    }

    #[test]
    fn privacy_is_asked_by_one() {
        assert!(asks_for_privacy(Some(b"1"), None));
        assert!(asks_for_privacy(None, Some(b" 1 ")));
        assert!(!asks_for_privacy(Some(b"0"), Some(b"")));
        assert!(!asks_for_privacy(None, None));
    }
}
