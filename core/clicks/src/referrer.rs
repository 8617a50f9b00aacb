//! Host of the page, or name of the app, with the link, from `Referer`.

use url::Url;

use super::{HEADER_BYTES_MAX, cut};

/// Maximum length of a host, in characters.
const HOST_LENGTH_MAX: usize = 253;

/// Schemes of addresses whose host names an app, such as `android-app://com.example.mail/`.
const APP_SCHEMES: [&str; 2] = ["android-app", "ios-app"];

/// Returns the host of `Referer` in lower case, with IDNA names in their ASCII form, or the name of an app; `None` for
/// the short host itself, and if the value is malformed or the address of neither a page nor an app.
pub fn referrer_host(referer: &[u8], short_host: Option<&str>) -> Option<String> {
    let kept = cut(referer);
    let text = match std::str::from_utf8(kept) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&kept[..error.valid_up_to()]).ok()?,
    };
    // In a shortened value the host must be complete, or another host would be recorded. The caller may have
    // shortened the value before.
    let is_cut = text.len() < referer.len() || referer.len() >= HEADER_BYTES_MAX;
    if is_cut && !has_complete_authority(text) {
        return None;
    }
    let url = Url::parse(text).ok()?;
    let is_app = APP_SCHEMES.contains(&url.scheme());
    if !is_app && !matches!(url.scheme(), "http" | "https") {
        return None;
    }
    let host = url.host_str()?;
    // The URL standard lowers the letters of web hosts only.
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let is_recorded = is_host_name(&host)
        && host.len() <= HOST_LENGTH_MAX
        && !short_host.is_some_and(|short| short.eq_ignore_ascii_case(&host));
    is_recorded.then_some(host)
}

/// Returns true for names as in DNS, and addresses. By the URL standard `*` alone and `a;=1+1;` would be hosts too:
/// the former is the mark of other values in statistics, the latter a formula for some spreadsheets.
fn is_host_name(host: &str) -> bool {
    let is_name = |part: char| part.is_ascii_alphanumeric() || matches!(part, '-' | '_' | '.');
    host.starts_with('[')
        || host.chars().all(is_name) && host.contains(|part: char| part.is_ascii_alphanumeric())
}

/// Returns true if the host of an address ends before the end of the text.
fn has_complete_authority(text: &str) -> bool {
    text.split_once("://")
        .is_some_and(|(_, rest)| rest.contains(['/', '?', '#', '\\']))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn host(referer: &str) -> Option<String> {
        referrer_host(referer.as_bytes(), Some("sho.rt"))
    }

    #[test]
    fn host_is_lower_case_ascii() {
        for (referer, expected) in [
            ("https://News.Example/path?q=1#x", "news.example"),
            ("http://news.example:8080", "news.example"),
            ("https://user:secret@news.example./", "news.example"),
            ("https://bücher.example/", "xn--bcher-kva.example"),
            ("https://192.0.2.1/", "192.0.2.1"),
            ("https://a_b.news-1.example/", "a_b.news-1.example"),
            ("https://[2001:DB8::1]/", "[2001:db8::1]"),
            ("android-app://com.Example.Mail", "com.example.mail"),
            (
                "android-app://com.example.mail/https/news.example/x",
                "com.example.mail",
            ),
            ("ios-app://284882215/fb/", "284882215"),
            ("IOS-APP://com.example.reader/", "com.example.reader"),
        ] {
            assert_eq!(host(referer).as_deref(), Some(expected), "{referer}");
        }
    }

    #[test]
    fn other_values_have_no_host() {
        for referer in [
            "",
            "news.example",
            "/path",
            "https://",
            "https:///",
            "android-app:///com.example",
            "android-app:com.example",
            "android-app://com.exa%20mple/",
            "ios-app://a;=1+1;/",
            "chrome-extension://abcdef/",
            "data:text/html,x",
            "https://sho.rt/spring",
            "https://SHO.RT./",
            "https://exa mple/",
            "https://*/",
            "https://a;=1+1;/",
            "https://a$b.example/",
            "about:blank",
        ] {
            assert_eq!(host(referer), None, "{referer}");
        }
    }

    #[test]
    fn cut_value_has_its_host_or_none() {
        let long = format!("https://news.example/{}", "a".repeat(600));
        assert_eq!(host(&long).as_deref(), Some("news.example"));
        // The cut is inside a character.
        let accents = format!("https://news.example/{}", "é".repeat(600));
        assert_eq!(host(&accents).as_deref(), Some("news.example"));
        // The cut is inside the host: a part of the host must not be recorded.
        let credentials = format!("https://{}@news.example/", "a".repeat(495));
        assert_eq!(host(&credentials), None);
        assert_eq!(host(&credentials[..HEADER_BYTES_MAX]), None);
        let latin = b"https://news.example/caf\xe9";
        assert_eq!(referrer_host(latin, None).as_deref(), Some("news.example"));
        assert_eq!(referrer_host(b"https://caf\xe9.example/", None), None);
    }

    proptest! {
        #[test]
        fn any_bytes_result_in_a_short_host_or_none(
            referer in prop::collection::vec(any::<u8>(), 0..8_192)
        ) {
            if let Some(host) = referrer_host(&referer, None) {
                prop_assert!(host.len() <= HOST_LENGTH_MAX);
                prop_assert!(!host.chars().any(char::is_uppercase));
            }
        }
    }
}
