//! Types of settings that several services share.

use std::{
    convert::Infallible,
    fmt,
    io::{self, Read},
    net::IpAddr,
    str::FromStr,
};

use url::{Host, Url};

/// A setting that must not be shown.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Returns the secret text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl FromStr for Secret {
    /// Never fails: an error of the command line would show the secret.
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

/// Longest address of a database on standard input, in bytes.
const DATABASE_URL_BYTES_MAX: u64 = 8192;

/// Parses the address of a database; `-` stands for standard input, where no list of processes shows the address.
///
/// # Errors
/// Returns an error if standard input cannot be read or has no address.
pub fn parse_database_url(text: &str) -> Result<Secret, String> {
    match text {
        "-" => read_database_url(io::stdin().lock()),
        text => Ok(Secret(text.to_owned())),
    }
}

fn read_database_url(source: impl Read) -> Result<Secret, String> {
    let mut text = String::new();
    let read = source
        .take(DATABASE_URL_BYTES_MAX)
        .read_to_string(&mut text);
    read.map_err(|error| format!("cannot read the address from standard input: {error}"))?;
    let address = text.trim();
    if address.is_empty() {
        return Err("standard input has no address of a database".to_owned());
    }
    Ok(Secret(address.to_owned()))
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Start of public addresses: scheme, host and perhaps a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl(Url);

/// The address cannot be the start of other addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an http or https address without query and fragment")]
pub struct InvalidBaseUrl;

impl BaseUrl {
    /// Returns the address without a trailing slash, so that a path can be appended.
    pub fn as_str(&self) -> &str {
        self.0.as_str().trim_end_matches('/')
    }

    /// Returns the parsed address, which may end with a slash.
    pub fn url(&self) -> &Url {
        &self.0
    }
}

impl FromStr for BaseUrl {
    type Err = InvalidBaseUrl;

    fn from_str(text: &str) -> Result<Self, InvalidBaseUrl> {
        let is_usable = |url: &Url| {
            matches!(url.scheme(), "http" | "https")
                && url.query().is_none()
                && url.fragment().is_none()
        };
        let url = text.parse().ok().filter(is_usable);
        url.map(Self).ok_or(InvalidBaseUrl)
    }
}

/// Origin of a web page: scheme, host and perhaps a port (RFC 6454).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(String);

impl Origin {
    /// Returns the origin as browsers send it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Origin {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let is_origin = text.parse().is_ok_and(|url: Url| {
            url.scheme().starts_with("http")
                && url.origin().ascii_serialization() == text
                && !text.contains('*')
        });
        is_origin.then(|| Self(text.to_owned())).ok_or(
            "not an origin such as https://app.example.com: no path, no wildcard, lower case",
        )
    }
}

/// Returns true for a name or an address of this machine itself; an IPv6 address may have brackets.
pub fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host
            .trim_matches(['[', ']'])
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Host name or IP address, in the form of a parsed address: lower case, international names as A-labels, IPv6 in
/// brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName(String);

impl HostName {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let host = Host::parse(text).ok().filter(|_| !text.contains('*'));
        let name = host.map(|host| host.to_string());
        let name = name
            .as_ref()
            .map(|name| name.strip_suffix('.').unwrap_or(name));
        name.map(|name| Self(name.to_owned())).ok_or(
            "not a host name such as go.example.com: no scheme, no port, no path, no wildcard",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_address_is_read_from_input() {
        let read = |text: &str| read_database_url(text.as_bytes());
        let address = read("postgres://user:secret@host/name\n").unwrap();
        assert_eq!(address.reveal(), "postgres://user:secret@host/name");
        assert!(read(" \n").unwrap_err().contains("no address"));
    }

    #[test]
    fn a_base_address_ends_without_a_slash() {
        for (text, kept) in [
            ("http://127.0.0.1:8080", Some("http://127.0.0.1:8080")),
            ("https://api.example.com/", Some("https://api.example.com")),
            (
                "https://example.com/links/",
                Some("https://example.com/links"),
            ),
            ("example.com", None),
            ("ftp://example.com", None),
            ("https://example.com?x=1", None),
            ("https://example.com/#x", None),
            ("", None),
        ] {
            let parsed: Option<BaseUrl> = text.parse().ok();
            assert_eq!(parsed.as_ref().map(BaseUrl::as_str), kept, "{text}");
        }
    }

    #[test]
    fn an_origin_is_what_browsers_send() {
        for (text, is_origin) in [
            ("https://app.example.com", true),
            ("http://localhost:3000", true),
            ("https://app.example.com:443", false),
            ("https://App.example.com", false),
            ("https://app.example.com/", false),
            ("https://*.example.com", false),
            ("*", false),
            ("null", false),
            ("ftp://example.com", false),
        ] {
            assert_eq!(text.parse::<Origin>().is_ok(), is_origin, "{text}");
        }
    }

    #[test]
    fn a_host_name_has_no_port_and_no_wildcard() {
        for (text, name) in [
            ("go.example.com", Some("go.example.com")),
            ("Go.Example.com.", Some("go.example.com")),
            ("gr\u{fc}n.example", Some("xn--grn-ioa.example")),
            ("query-api", Some("query-api")),
            ("10.0.0.7", Some("10.0.0.7")),
            ("[::1]", Some("[::1]")),
            ("go.example.com:8080", None),
            ("https://go.example.com", None),
            ("go.example.com/x", None),
            ("*.example.com", None),
            ("*", None),
            (" go.example.com", None),
            ("", None),
        ] {
            let parsed: Option<HostName> = text.parse().ok();
            assert_eq!(parsed.as_ref().map(HostName::as_str), name, "{text}");
        }
    }

    #[test]
    fn debug_output_does_not_show_secrets() {
        let secret: Secret = "postgres://user:password@host/".parse().unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }
}
