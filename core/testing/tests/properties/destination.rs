//! Destinations of links.

use std::{net::Ipv4Addr, sync::LazyLock};

use linkledger_core::link::{Destination, DestinationRules};
use url::Url;

const OWN_HOST: &str = "sho.rt";
static RULES: LazyLock<DestinationRules> = LazyLock::new(|| {
    DestinationRules::of_own([&Url::parse(&format!("https://{OWN_HOST}")).unwrap()])
});
const PRIVATE: [&str; 9] = [
    "corp",
    "home",
    "internal",
    "invalid",
    "lan",
    "local",
    "localhost",
    "onion",
    "test",
];

/// An accepted destination serialises to itself, can be sent as `Location`, and leads to a public
/// host that is not the service's. Checked without the parser under test, because redirects are
/// read by parsers of all kinds.
pub(crate) fn property(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else {
        return false;
    };
    check_lookup(text);
    let Ok(destination) = Destination::parse(text, &RULES) else {
        return false;
    };
    let serialised = destination.as_str();
    let again = Destination::parse(serialised, &RULES);
    assert_eq!(again.as_ref(), Ok(&destination), "{serialised}");
    assert!(serialised.len() <= 8_192);
    // Neither spaces nor control characters, and nothing that needs an encoding.
    assert!(
        serialised.bytes().all(|byte| byte.is_ascii_graphic()),
        "{serialised}"
    );
    let before_query = serialised.split(['?', '#']).next().unwrap();
    assert!(!before_query.contains('\\'), "{serialised}");
    let rest = serialised
        .strip_prefix("https://")
        .or_else(|| serialised.strip_prefix("http://"))
        .unwrap();
    let end = rest.find(['/', '?', '#']).unwrap();
    assert!(rest[end..].starts_with('/'), "{serialised}");
    let (host, port) = rest[..end].split_once(':').unwrap_or((&rest[..end], "443"));
    assert!(is_public(host), "{serialised}");
    assert_ne!(host, OWN_HOST);
    let port: u16 = port.parse().unwrap();
    assert!(port == 80 || port == 443 || port >= 1_024, "{serialised}");
    let shown = format!("{destination:?}");
    assert_eq!(shown, format!("{}/…", &rest[..end]));
    true
}

/// Checks an address under the most generous rules: it serialises to itself, fits a header, and is harmless.
fn check_lookup(text: &str) {
    let rules = DestinationRules::of_lookups();
    let Ok(destination) = Destination::parse(text, &rules) else {
        assert!(Destination::parse(text, &RULES).is_err(), "{text:?}");
        return;
    };
    let serialised = destination.as_str();
    let again = Destination::parse(serialised, &rules);
    assert_eq!(again.as_ref(), Ok(&destination), "{serialised}");
    let is_graphic = serialised.bytes().all(|byte| byte.is_ascii_graphic());
    assert!(is_graphic && serialised.len() <= 8_192, "{serialised}");
    let scheme = serialised.split(':').next().unwrap();
    assert!(
        !["data", "file", "javascript", "vbscript"].contains(&scheme),
        "{serialised}"
    );
}

fn is_public(host: &str) -> bool {
    let is_label = |label: &str| {
        let allowed = b"abcdefghijklmnopqrstuvwxyz0123456789-_";
        (1..=63).contains(&label.len()) && label.bytes().all(|byte| allowed.contains(&byte))
    };
    let labels: Vec<&str> = host.split('.').collect();
    let last = labels[labels.len() - 1];
    // Some parsers read a number at the end as an IPv4 address.
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last
            .strip_prefix("0x")
            .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    labels.len() >= 2
        && host.len() <= 253
        && labels.iter().all(|label| is_label(label))
        && !PRIVATE.contains(&last)
        && !format!(".{host}").ends_with(".home.arpa")
        && !is_number
        && host.parse::<Ipv4Addr>().is_err()
}

#[test]
fn destination_is_canonical_and_public() {
    super::seeds::explore("destination", property);
}
