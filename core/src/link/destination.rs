//! Destinations of links (`docs/api.md#destinations`): parsed like WHATWG URLs, but invalid
//! addresses are refused instead of repaired.

mod characters;
mod rules;

use std::{borrow::Cow, fmt, ops::Deref};

use percent_encoding::percent_decode_str;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use url::{Host, ParseError, Url};

use self::characters::is_invisible_in_host;
pub use self::characters::is_space_at_end;
pub use self::rules::{DestinationHosts, DestinationRules, DestinationSchemes};
use crate::field::FieldCode;

/// Maximal length of a destination after serialisation, in bytes.
pub const LENGTH_MAX: usize = 8_192;
/// Regular expression of serialised destinations.
pub const PATTERN: &str = "^[a-z][a-z0-9+.-]*:[!-~]+$";
/// Maximal length of a host name, in bytes (RFC 1035).
const HOST_LENGTH_MAX: usize = 253;
/// Maximal length of a label of a host name, in bytes (RFC 1035).
const LABEL_LENGTH_MAX: usize = 63;
/// Ends of host names that are not on the public internet.
const PRIVATE_SUFFIXES: &[&str] = &[
    "corp",
    "home",
    "home.arpa",
    "internal",
    "invalid",
    "lan",
    "local",
    "localhost",
    "onion",
    "test",
];
/// Schemes after whose colon digits are a number of a telephone, and no port.
const NUMBERED_SCHEMES: &[&str] = &["callto", "fax", "sip", "sips", "sms", "tel"];

/// An absolute address that the rules accept, or accepted when a link received the address, in its serialised form.
///
/// `Debug` shows the host only, or the scheme of an address outside of the web: paths and queries of destinations
/// may hold secrets.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Destination(String);

impl Destination {
    /// Parses a destination.
    ///
    /// # Errors
    /// Returns the first violated rule, in the order of `docs/api.md#order-of-checks`.
    pub fn parse(text: &str, rules: &DestinationRules) -> Result<Self, FieldCode> {
        if text.contains('\0') {
            return Err(FieldCode::ContainsNul);
        }
        if text.chars().any(char::is_control) {
            return Err(FieldCode::UrlControlCharacter);
        }
        if text.starts_with(is_space_at_end) || text.ends_with(is_space_at_end) {
            return Err(FieldCode::UrlSpaceAtEnd);
        }
        let (scheme, rest) = split_scheme(text, rules)?;
        if !rules.accept_scheme(&scheme) {
            return Err(FieldCode::UrlSchemeNotAllowed);
        }
        let serialised = match &*scheme {
            "http" | "https" => parse_web_address(text, rest, rules)?.into(),
            _ => parse_other_address(text)?,
        };
        if serialised.len() > LENGTH_MAX {
            return Err(FieldCode::UrlTooLong);
        }
        Ok(Self(serialised))
    }

    /// Returns a destination that a link has received before, whatever the rules are now.
    pub fn stored(serialised: impl Into<String>) -> Self {
        Self(serialised.into())
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

impl Deref for Destination {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.split(':').next().unwrap_or_default();
        match authority(self) {
            Some(authority) if scheme.starts_with("http") => write!(f, "{authority}/…"),
            _ => write!(f, "{scheme}:…"),
        }
    }
}

impl JsonSchema for Destination {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Destination".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": LENGTH_MAX, "pattern": PATTERN })
    }
}

/// Host of destinations in the form in which destinations are stored, without a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationHost(String);

impl DestinationHost {
    /// Parses a host, by the most generous rules for the host of a destination.
    ///
    /// # Errors
    /// Returns the first violated rule; no destination has such a host.
    pub fn parse(text: &str) -> Result<Self, FieldCode> {
        let is_ipv6 = text.starts_with('[') && text.ends_with(']');
        let is_long = text.chars().nth(HOST_LENGTH_MAX).is_some();
        if is_long || text.contains(['/', '?', '#', '@', '\\']) || (text.contains(':') && !is_ipv6)
        {
            return Err(FieldCode::UrlHostNotAllowed);
        }
        let rules = DestinationRules::of_lookups();
        let destination = Destination::parse(&format!("https://{text}/"), &rules)?;
        let host = authority(destination.as_str()).ok_or(FieldCode::UrlHostNotAllowed)?;
        Ok(Self(host.to_owned()))
    }

    /// Returns the host: lower case, international names as A-labels.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the text between `//` and the path.
fn authority(address: &str) -> Option<&str> {
    let (_, rest) = address.split_once("://")?;
    rest.split(['/', '?', '#']).next()
}

/// Returns the scheme in lower case, and the text after its colon. An address that only lacks its scheme can have a
/// colon all the same: before a port, or inside the path.
fn split_scheme<'t>(
    text: &'t str,
    rules: &DestinationRules,
) -> Result<(String, &'t str), FieldCode> {
    let Some((scheme, rest)) = text.split_once(':') else {
        return Err(without_scheme(text));
    };
    if rules::is_scheme(scheme) {
        let scheme = scheme.to_ascii_lowercase();
        let may_be_host = !rules.accept_scheme(&scheme) && !rules::is_harmful(&scheme);
        if may_be_host && is_host_before_port(&scheme, rest) {
            return Err(FieldCode::UrlSchemeMissing);
        }
        return Ok((scheme, rest));
    }
    // A quote, a bracket or a word before the scheme.
    if rest.starts_with("//") && !scheme.contains(['/', '?', '#']) {
        return Err(FieldCode::UrlInvalid);
    }
    Err(without_scheme(text))
}

/// Returns the code for a text without a scheme: a scheme mends it only if it begins like an address.
fn without_scheme(text: &str) -> FieldCode {
    let begins_like_address = |c: char| {
        c.is_alphanumeric() || matches!(c, '/' | '\\' | '[' | '.' | '_' | '-' | '?' | '#')
    };
    if text.is_empty() || text.starts_with(begins_like_address) {
        FieldCode::UrlSchemeMissing
    } else {
        FieldCode::UrlInvalid
    }
}

/// Returns true for `example.com:8080/path` and `localhost:3000`: the text before the colon is a host.
fn is_host_before_port(host: &str, rest: &str) -> bool {
    let port = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if port.is_empty() {
        return host.contains('.') && !rest.starts_with('/');
    }
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    is_port && !NUMBERED_SCHEMES.contains(&host)
}

/// Parses an address of the web. `rest` is the text after the colon of the scheme.
fn parse_web_address(text: &str, rest: &str, rules: &DestinationRules) -> Result<Url, FieldCode> {
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    if rest[..end].contains('\\') {
        return Err(FieldCode::UrlBackslash);
    }
    let after_slashes = rest.strip_prefix("//").ok_or(FieldCode::UrlInvalid)?;
    let authority = after_slashes.split(['/', '?', '#']).next();
    let authority = authority.filter(|authority| !authority.is_empty());
    let authority = authority.ok_or(FieldCode::UrlInvalid)?;
    let (url, is_port) = match Url::parse(text) {
        Ok(url) => (url, true),
        Err(ParseError::InvalidPort) => (without_port(authority)?, false),
        Err(_) => return Err(FieldCode::UrlInvalid),
    };
    if authority.contains('@') {
        return Err(FieldCode::UrlUserinfoNotAllowed);
    }
    check_host(&url, authority, rules)?;
    let is_usual_port = url
        .port()
        .is_none_or(|port| matches!(port, 80 | 443 | 1024..) || rules.accept_all_hosts());
    if !is_port || !is_usual_port {
        return Err(FieldCode::UrlPortNotAllowed);
    }
    if url.host_str().is_some_and(|host| rules.own(host)) {
        return Err(FieldCode::UrlSelfReference);
    }
    Ok(url)
}

/// Parses the host before a port that is none: the rules of the host come first.
fn without_port(authority: &str) -> Result<Url, FieldCode> {
    let host = authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host);
    Url::parse(&format!("https://{host}")).map_err(|_| FieldCode::UrlInvalid)
}

/// Checks the host of an address. `authority` is the sent text of the host, before the parser repaired it.
fn check_host(url: &Url, authority: &str, rules: &DestinationRules) -> Result<(), FieldCode> {
    let host = match url.host() {
        Some(Host::Domain(host)) => Some(host),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) => None,
        None => return Err(FieldCode::UrlInvalid),
    };
    if host.is_none() && !rules.accept_all_hosts() {
        return Err(FieldCode::UrlIpNotAllowed);
    }
    // The parser drops these characters, so the address would lead to another host than it seems to.
    let sent: Cow<'_, str> = percent_decode_str(authority).decode_utf8_lossy();
    let is_name = |host: &str| is_host_name(host) && (rules.accept_all_hosts() || is_public(host));
    if sent.contains(is_invisible_in_host) || !host.is_none_or(is_name) {
        return Err(FieldCode::UrlHostNotAllowed);
    }
    Ok(())
}

fn is_host_name(host: &str) -> bool {
    let is_label = |label: &str| {
        (1..=LABEL_LENGTH_MAX).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
    };
    host.len() <= HOST_LENGTH_MAX && host.split('.').all(is_label)
}

/// Returns true if the name has a dot, and none of the ends of local names.
fn is_public(host: &str) -> bool {
    let is_below = |suffix: &&str| {
        host.strip_suffix(*suffix)
            .is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    host.contains('.') && !PRIVATE_SUFFIXES.iter().any(is_below)
}

/// Parses an address that no web browser opens by itself, such as `mailto:` and `tel:`. Only its characters are checked.
fn parse_other_address(text: &str) -> Result<String, FieldCode> {
    let url = Url::parse(text).map_err(|_| FieldCode::UrlInvalid)?;
    // The parser keeps spaces in addresses without slashes; a header can't.
    let serialised = url.as_str().replace(' ', "%20");
    let has_content = serialised
        .split_once(':')
        .is_some_and(|(_, rest)| !rest.is_empty());
    let is_clean = has_content && serialised.bytes().all(|byte| byte.is_ascii_graphic());
    is_clean.then_some(serialised).ok_or(FieldCode::UrlInvalid)
}

#[cfg(test)]
mod tests;
