//! Destinations of links.

use std::{net::Ipv4Addr, sync::LazyLock};

use linkledger_core::link::{Destination, OwnHosts};
use url::Url;

const OWN_HOST: &str = "sho.rt";
static OWN_HOSTS: LazyLock<OwnHosts> =
    LazyLock::new(|| OwnHosts::of([&Url::parse(&format!("https://{OWN_HOST}")).unwrap()]));
const PRIVATE: [&str; 6] = ["internal", "invalid", "local", "localhost", "onion", "test"];

/// An accepted destination serialises to itself, can be sent as `Location`, and leads to a public
/// host that is not the service's. Checked without the parser under test, because redirects are
/// read by parsers of all kinds.
pub(crate) fn property(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else {
        return false;
    };
    let Ok(destination) = Destination::parse(text, &OWN_HOSTS) else {
        return false;
    };
    let serialised = destination.as_str();
    let again = Destination::parse(serialised, &OWN_HOSTS);
    assert_eq!(again.as_ref(), Ok(&destination), "{serialised}");
    assert!(serialised.len() <= 2_048);
    // Neither spaces nor control characters, and nothing that needs an encoding.
    assert!(
        serialised.bytes().all(|byte| byte.is_ascii_graphic()),
        "{serialised}"
    );
    assert!(!serialised.contains('\\'), "{serialised}");
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
    assert_eq!(shown, format!("Destination({}/…)", &rest[..end]));
    true
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
        && !is_number
        && host.parse::<Ipv4Addr>().is_err()
}

#[test]
fn destination_is_canonical_and_public() {
    super::seeds::explore("destination", property);
}
