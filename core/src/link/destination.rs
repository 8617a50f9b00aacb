//! Destinations of links (`docs/api.md#destinations`): parsed like WHATWG URLs, but invalid
//! addresses are refused instead of repaired.

use std::{collections::HashSet, fmt};

use url::{Host, Url};

use crate::field::FieldCode;

/// Maximal length of a destination after serialisation, in bytes.
pub const LENGTH_MAX: usize = 2_048;
/// Regular expression of serialised destinations.
pub const PATTERN: &str = "^https?://[!-~]+$";
/// Maximal length of a host name, in bytes (RFC 1035).
const HOST_LENGTH_MAX: usize = 253;
/// Maximal length of a label of a host name, in bytes (RFC 1035).
const LABEL_LENGTH_MAX: usize = 63;
/// Last labels of host names that are not on the public internet.
const PRIVATE_SUFFIXES: &[&str] = &["internal", "invalid", "local", "localhost", "onion", "test"];

/// Host names that this service serves. A link to these hosts could loop.
#[derive(Debug, Clone, Default)]
pub struct OwnHosts(HashSet<String>);

impl OwnHosts {
    /// Returns the hosts of these addresses.
    pub fn of<'a>(addresses: impl IntoIterator<Item = &'a Url>) -> Self {
        Self(
            addresses
                .into_iter()
                .filter_map(|url| url.host_str())
                .map(str::to_owned)
                .collect(),
        )
    }
}

/// An absolute `http` or `https` address on a public host, in its serialised form.
///
/// `Debug` shows the host only: paths and queries of destinations may hold secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Destination(String);

impl Destination {
    /// Parses a destination.
    ///
    /// # Errors
    /// Returns the first violated rule, in the order of `docs/api.md#order-of-checks`.
    pub fn parse(text: &str, own_hosts: &OwnHosts) -> Result<Self, FieldCode> {
        if text.contains('\0') {
            return Err(FieldCode::ContainsNul);
        }
        if text.chars().any(char::is_control) || text.starts_with(' ') || text.ends_with(' ') {
            return Err(FieldCode::UrlControlCharacter);
        }
        let authority = authority(text)?;
        let url = Url::parse(text).map_err(|_| FieldCode::UrlInvalid)?;
        if authority.contains('@') {
            return Err(FieldCode::UrlUserinfoNotAllowed);
        }
        let host = match url.host() {
            Some(Host::Domain(host)) => host,
            Some(Host::Ipv4(_) | Host::Ipv6(_)) => return Err(FieldCode::UrlIpNotAllowed),
            None => return Err(FieldCode::UrlInvalid),
        };
        if !is_public_host(host) {
            return Err(FieldCode::UrlHostNotAllowed);
        }
        if url
            .port()
            .is_some_and(|port| !matches!(port, 80 | 443 | 1024..))
        {
            return Err(FieldCode::UrlPortNotAllowed);
        }
        if own_hosts.0.contains(host) {
            return Err(FieldCode::UrlSelfReference);
        }
        if url.as_str().len() > LENGTH_MAX {
            return Err(FieldCode::UrlTooLong);
        }
        Ok(Self(url.into()))
    }

    /// Returns the serialised form, which is stored, returned and sent in `Location` byte for byte.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the serialised form.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Destination({:?})", HostOnly(&self.0))
    }
}

/// Host of destinations: a public host name in the form in which destinations are stored, without a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationHost(String);

impl DestinationHost {
    /// Parses a host name, by the rules for the host of a destination.
    ///
    /// # Errors
    /// Returns the first violated rule; no destination has such a host.
    pub fn parse(text: &str) -> Result<Self, FieldCode> {
        if text.contains(['/', '?', '#', '@', ':', '\\']) {
            return Err(FieldCode::UrlHostNotAllowed);
        }
        let own_hosts = OwnHosts::default();
        let destination = Destination::parse(&format!("https://{text}/"), &own_hosts)?;
        let host = authority(destination.as_str())?;
        Ok(Self(host.to_owned()))
    }

    /// Returns the host name: lower case, international names as A-labels.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `Debug` output of a destination: only the host, no path and no query.
pub(crate) struct HostOnly<'a>(pub(crate) &'a str);

impl fmt::Debug for HostOnly<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/…", authority(self.0).unwrap_or_default())
    }
}

/// Returns the text between `//` and the path, before a parser repairs it.
fn authority(text: &str) -> Result<&str, FieldCode> {
    let (scheme, rest) = text.split_once(':').ok_or(FieldCode::UrlInvalid)?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    if !is_scheme {
        return Err(FieldCode::UrlInvalid);
    }
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(FieldCode::UrlSchemeNotAllowed);
    }
    let rest = rest.strip_prefix("//").ok_or(FieldCode::UrlInvalid)?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if text.contains('\\') || authority.is_empty() {
        return Err(FieldCode::UrlInvalid);
    }
    Ok(authority)
}

fn is_public_host(host: &str) -> bool {
    let is_label = |label: &str| {
        (1..=LABEL_LENGTH_MAX).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
    };
    let Some((_, last)) = host.rsplit_once('.') else {
        return false;
    };
    host.len() <= HOST_LENGTH_MAX
        && host.split('.').all(is_label)
        && !PRIVATE_SUFFIXES.contains(&last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<String, FieldCode> {
        let own = [
            Url::parse("https://sho.rt").unwrap(),
            Url::parse("https://api.sho.rt:8443").unwrap(),
        ];
        Destination::parse(text, &OwnHosts::of(&own)).map(|d| d.as_str().to_owned())
    }

    #[test]
    fn destination_is_kept_serialised() {
        for (text, serialised) in [
            ("https://example.com", "https://example.com/"),
            ("HTTPS://EXAMPLE.COM/Path", "https://example.com/Path"),
            ("http://example.com:80/", "http://example.com/"),
            ("https://example.com:80/", "https://example.com:80/"),
            ("https://example.com:1024/", "https://example.com:1024/"),
            ("http://fa\u{df}.de", "http://xn--fa-hia.de/"),
            ("https://e.com/a/../../b", "https://e.com/b"),
            ("https://e.com//x;y", "https://e.com//x;y"),
            (
                "https://e.com/%0d%0aSet-Cookie:x=1",
                "https://e.com/%0d%0aSet-Cookie:x=1",
            ),
            (
                "https://e.com/#\"><script>",
                "https://e.com/#%22%3E%3Cscript%3E",
            ),
            ("https://e.com/@a?b@c", "https://e.com/@a?b@c"),
            ("http://a_b.com/", "http://a_b.com/"),
            ("https://e.com/\u{e4}", "https://e.com/%C3%A4"),
        ] {
            assert_eq!(parse(text).as_deref(), Ok(serialised), "{text}");
        }
    }

    #[test]
    fn host_has_the_form_of_stored_destinations() {
        use FieldCode::{
            ContainsNul, UrlControlCharacter, UrlHostNotAllowed, UrlInvalid, UrlIpNotAllowed,
        };
        for (text, host) in [
            ("example.com", "example.com"),
            ("Shop.EXAMPLE.com", "shop.example.com"),
            ("fa\u{df}.de", "xn--fa-hia.de"),
            ("xn--fa-hia.de", "xn--fa-hia.de"),
            ("a_b.com", "a_b.com"),
        ] {
            let parsed = DestinationHost::parse(text).unwrap();
            assert_eq!(parsed.as_str(), host, "{text}");
        }
        for (text, code) in [
            ("", UrlInvalid),
            ("https://example.com", UrlHostNotAllowed),
            ("example.com/", UrlHostNotAllowed),
            ("example.com:443", UrlHostNotAllowed),
            ("me@example.com", UrlHostNotAllowed),
            ("example.com?a", UrlHostNotAllowed),
            ("example.com#a", UrlHostNotAllowed),
            ("example.com\\a", UrlHostNotAllowed),
            ("example", UrlHostNotAllowed),
            ("example.com.", UrlHostNotAllowed),
            ("a..com", UrlHostNotAllowed),
            ("a.local", UrlHostNotAllowed),
            ("127.0.0.1", UrlIpNotAllowed),
            ("0x7f.1", UrlIpNotAllowed),
            ("e\0.com", ContainsNul),
            ("e\n.com", UrlControlCharacter),
            (" example.com", UrlInvalid),
            ("%25.com", UrlInvalid),
            ("*.example.com", UrlHostNotAllowed),
        ] {
            assert_eq!(DestinationHost::parse(text), Err(code), "{text:?}");
        }
    }

    #[test]
    fn first_violated_rule_gives_the_code() {
        use FieldCode::{
            ContainsNul, UrlControlCharacter, UrlHostNotAllowed, UrlInvalid, UrlIpNotAllowed,
            UrlPortNotAllowed, UrlSchemeNotAllowed, UrlSelfReference, UrlUserinfoNotAllowed,
        };
        for (text, code) in [
            ("https://e.com/\0\n", ContainsNul),
            ("https://e.com/\r\nSet-Cookie: x", UrlControlCharacter),
            ("https://e\t.com/", UrlControlCharacter),
            (" https://e.com/", UrlControlCharacter),
            ("https://e.com/ ", UrlControlCharacter),
            ("", UrlInvalid),
            ("example.com", UrlInvalid),
            ("//example.com", UrlInvalid),
            ("/path:x", UrlInvalid),
            ("javascript:alert(1)", UrlSchemeNotAllowed),
            ("data:text/html,x", UrlSchemeNotAllowed),
            ("ftp://ftp.example.com/", UrlSchemeNotAllowed),
            ("http:example.com", UrlInvalid),
            ("http:/example.com", UrlInvalid),
            ("http:///example.com", UrlInvalid),
            ("https:\\\\example.com", UrlInvalid),
            ("http://good.com\\@evil.com", UrlInvalid),
            ("http://a b/", UrlInvalid),
            ("http://a%00b/", UrlInvalid),
            ("http://256.0.0.1/", UrlInvalid),
            ("http://xn--/", UrlInvalid),
            ("https://user@example.com/", UrlUserinfoNotAllowed),
            ("https://@example.com/", UrlUserinfoNotAllowed),
            ("https://example.com:443@evil.com", UrlUserinfoNotAllowed),
            ("https://user@127.0.0.1/", UrlUserinfoNotAllowed),
            ("http://127.0.0.1", UrlIpNotAllowed),
            ("http://127.1", UrlIpNotAllowed),
            ("http://2130706433", UrlIpNotAllowed),
            ("http://0x7f000001", UrlIpNotAllowed),
            ("http://%31%32%37.0.0.1", UrlIpNotAllowed),
            ("http://[::1]:22/", UrlIpNotAllowed),
            ("http://8.8.8.8", UrlIpNotAllowed),
            ("http://localhost:8080", UrlHostNotAllowed),
            ("http://printer/", UrlHostNotAllowed),
            ("http://x.local/", UrlHostNotAllowed),
            ("http://metadata.google.internal/", UrlHostNotAllowed),
            ("http://a..b/", UrlHostNotAllowed),
            ("http://example.com./", UrlHostNotAllowed),
            ("http://SHO.RT./x", UrlHostNotAllowed),
            ("http://a!b.com/", UrlHostNotAllowed),
            ("http://x.onion:22/", UrlHostNotAllowed),
            ("https://example.com:22/", UrlPortNotAllowed),
            ("https://example.com:0/", UrlPortNotAllowed),
            ("https://sho.rt:22/", UrlPortNotAllowed),
            ("https://SHO.rt/x", UrlSelfReference),
            ("https://s%68o.rt/x", UrlSelfReference),
            ("http://\u{ff53}ho.rt", UrlSelfReference),
            ("https://api.sho.rt/", UrlSelfReference),
        ] {
            assert_eq!(parse(text), Err(code), "{text:?}");
        }
        let label = "a".repeat(64);
        assert_eq!(
            parse(&format!("http://{label}.com/")),
            Err(UrlHostNotAllowed)
        );
        let host = format!("{}com", "a234567.".repeat(32));
        assert_eq!(parse(&format!("http://{host}/")), Err(UrlHostNotAllowed));
    }

    #[test]
    fn length_is_counted_after_serialisation() {
        let fitting = format!("https://e.com/{}", "a".repeat(LENGTH_MAX - 14));
        assert_eq!(parse(&fitting).unwrap().len(), LENGTH_MAX);
        assert_eq!(parse(&format!("{fitting}a")), Err(FieldCode::UrlTooLong));
        let emoji = format!("https://e.com/{}", "\u{1f600}".repeat(200));
        assert_eq!(parse(&emoji), Err(FieldCode::UrlTooLong));
    }

    #[test]
    fn debug_output_hides_path_and_query() {
        let destination =
            Destination::parse("https://e.com/secret?token=1", &OwnHosts::default()).unwrap();
        assert_eq!(format!("{destination:?}"), "Destination(e.com/…)");
    }
}
