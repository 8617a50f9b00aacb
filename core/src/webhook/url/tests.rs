//! Tests of the addresses of webhooks.

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<String, FieldCode> {
    UrlRules::default().parse(text).map(WebhookUrl::into_string)
}

fn with_nets(nets: &[&str]) -> UrlRules {
    UrlRules::new(nets.iter().map(|net| net.parse().unwrap()).collect())
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn public_address_is_kept_serialised() {
    for (text, serialised) in [
        ("https://example.com", "https://example.com/"),
        (
            "HTTPS://Hooks.EXAMPLE.com/a?b#c",
            "https://hooks.example.com/a?b#c",
        ),
        ("https://example.com:443/", "https://example.com/"),
        ("https://example.com:80/", "https://example.com:80/"),
        ("https://example.com:8443/in", "https://example.com:8443/in"),
        (
            "https://b\u{fc}cher.example/",
            "https://xn--bcher-kva.example/",
        ),
        (
            "https://xn--bcher-kva.example/",
            "https://xn--bcher-kva.example/",
        ),
        ("https://e.com/@127.0.0.1", "https://e.com/@127.0.0.1"),
        // A name: only its IP addresses are checked, when a message is sent.
        ("https://127.0.0.1.nip.io/", "https://127.0.0.1.nip.io/"),
    ] {
        assert_eq!(parse(text).as_deref(), Ok(serialised), "{text}");
    }
}

#[test]
fn literals_of_all_notations_are_refused() {
    for host in [
        // Public ones too: the certificate of a literal proves nothing about its owner.
        "8.8.8.8",
        "[2606:4700:4700::1111]",
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "127.0.0.1.",
        "0",
        "0.0.0.0",
        "2130706433",
        "0x7f000001",
        "0x7F.1",
        "0x7f.0x0.0x0.0x1",
        "017700000001",
        "0177.0.0.1",
        "0177.0x0.1",
        "4294967295",
        "10.0.0.1",
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "%31%32%37.0.0.1",
        "\u{2460}\u{2461}\u{2466}.\u{24ea}.\u{24ea}.\u{2460}",
        "\u{ff11}27.0.0.1",
        "127\u{3002}0\u{3002}0\u{3002}1",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::ffff:a9fe:a9fe]",
        "[::127.0.0.1]",
        "[2002:7f00:1::]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::a9fe:a9fe]",
        "[2001:0:7f00:1::]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[ff02::1]",
    ] {
        for text in [format!("https://{host}"), format!("https://{host}:443/in")] {
            assert_eq!(parse(&text), Err(FieldCode::UrlIpNotAllowed), "{text}");
        }
    }
}

#[test]
fn addresses_that_mislead_are_refused() {
    use FieldCode::{
        ContainsNul, UrlBackslash, UrlControlCharacter, UrlHostLocal, UrlHostNotAllowed,
        UrlInvalid, UrlPortNotAllowed, UrlSchemeMissing, UrlSchemeNotAllowed, UrlSpaceAtEnd,
        UrlUserinfoNotAllowed,
    };
    for (text, code) in [
        ("https://localhost/", UrlHostLocal),
        ("https://LOCALHOST:8080/", UrlHostLocal),
        ("http://localhost:3000/hook", UrlHostLocal),
        ("https://a.localhost/", UrlHostLocal),
        ("https://localhost./", UrlHostNotAllowed),
        ("http://user@localhost/", UrlSchemeNotAllowed),
        ("https://postgres:5432/", UrlHostNotAllowed),
        ("https://metadata.google.internal/", UrlHostNotAllowed),
        ("https://printer.local/", UrlHostNotAllowed),
        ("https://example.com./", UrlHostNotAllowed),
        ("https://exam\u{200b}ple.com/", UrlHostNotAllowed),
        ("https://exam\u{ad}ple.com/", UrlHostNotAllowed),
        ("https://local\u{ad}host/", UrlHostNotAllowed),
        ("https://256.1.1.1/", UrlInvalid),
        ("https://1.2.3.4.5/", UrlInvalid),
        ("https://0x100000000/", UrlInvalid),
        ("https://[fe80::1%25eth0]/", UrlInvalid),
        ("https://[v1.fe80::a]/", UrlInvalid),
        ("https://[::1/", UrlInvalid),
        ("https://127.0.0.1%00.example.com/", UrlInvalid),
        ("https:/example.com/", UrlInvalid),
        ("https:///example.com/", UrlInvalid),
        ("https://example.com@127.0.0.1/", UrlUserinfoNotAllowed),
        ("https://user:password@example.com/", UrlUserinfoNotAllowed),
        ("https://@example.com/", UrlUserinfoNotAllowed),
        (r"https://example.com\@127.0.0.1/", UrlBackslash),
        (r"https:\\127.0.0.1/", UrlBackslash),
        ("https://example.com:22/", UrlPortNotAllowed),
        ("https://example.com:25/", UrlPortNotAllowed),
        ("https://example.com:0/", UrlPortNotAllowed),
        ("https://example.com:1023/", UrlPortNotAllowed),
        ("https://example.com:65536/", UrlPortNotAllowed),
        ("http://example.com/", UrlSchemeNotAllowed),
        ("http://127.0.0.1/", UrlSchemeNotAllowed),
        ("ftp://example.com/", UrlSchemeNotAllowed),
        ("gopher://127.0.0.1:6379/_INFO", UrlSchemeNotAllowed),
        ("file:///etc/passwd", UrlSchemeNotAllowed),
        ("mailto:a@example.com", UrlSchemeNotAllowed),
        ("//example.com/", UrlSchemeMissing),
        ("example.com/in", UrlSchemeMissing),
        ("", UrlSchemeMissing),
        ("https://example.com/\r\nHost: a", UrlControlCharacter),
        ("https://exa\tmple.com/", UrlControlCharacter),
        ("https://example.com/\0", ContainsNul),
        (" https://example.com/", UrlSpaceAtEnd),
    ] {
        assert_eq!(parse(text), Err(code), "{text:?}");
    }
}

#[test]
fn address_has_at_most_2048_bytes_after_serialisation() {
    let of_length = |length: usize| {
        let start = "https://example.com/";
        format!("{start}{}", "a".repeat(length - start.len()))
    };
    assert_eq!(parse(&of_length(2_048)), Ok(of_length(2_048)));
    assert_eq!(parse(&of_length(2_049)), Err(FieldCode::UrlTooLong));
    let umlauts = format!("https://example.com/{}", "\u{e4}".repeat(340));
    assert_eq!(parse(&umlauts), Err(FieldCode::UrlTooLong));
}

#[test]
fn literal_of_an_allowed_network_is_accepted() {
    use FieldCode::{UrlHostLocal, UrlIpNotAllowed, UrlSchemeNotAllowed, UrlUserinfoNotAllowed};
    let rules = with_nets(&["10.0.0.0/8", "127.0.0.1/32", "fd00::/8"]);
    let parse = |text: &str| rules.parse(text).map(WebhookUrl::into_string);
    for (text, serialised) in [
        ("http://127.0.0.1:9000/in", "http://127.0.0.1:9000/in"),
        ("http://0x7f.1:22", "http://127.0.0.1:22/"),
        ("https://10.1.2.3/", "https://10.1.2.3/"),
        ("https://[fd00::1]:8443/", "https://[fd00::1]:8443/"),
        ("http://[::ffff:10.0.0.1]/", "http://[::ffff:a00:1]/"),
        ("https://example.com/", "https://example.com/"),
    ] {
        assert_eq!(parse(text).as_deref(), Ok(serialised), "{text}");
    }
    for (text, code) in [
        ("https://127.0.0.2/", UrlIpNotAllowed),
        ("https://[::1]/", UrlIpNotAllowed),
        ("https://[::10.0.0.1]/", UrlIpNotAllowed),
        ("https://8.8.8.8/", UrlIpNotAllowed),
        ("http://127.0.0.2/", UrlSchemeNotAllowed),
        ("http://example.com/", UrlSchemeNotAllowed),
        ("ftp://127.0.0.1/", UrlSchemeNotAllowed),
        ("https://user@127.0.0.1/", UrlUserinfoNotAllowed),
        ("http://localhost:9000/in", UrlHostLocal),
    ] {
        assert_eq!(parse(text), Err(code), "{text}");
    }
}

/// Addresses that no message may be sent to.
const NOT_PUBLIC: &[&str] = &[
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.0",
    "10.255.255.255",
    "100.64.0.0",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.255",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.170",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.255.255",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.254",
    "255.255.255.255",
    "::",
    "::1",
    "::2",
    "::7f00:1",
    "::8.8.8.8",
    "::ffff:0:127.0.0.1",
    "::ffff:0:0",
    "::ffff:10.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:192.168.1.1",
    "::ffff:255.255.255.255",
    "64:ff9b::8.8.8.8",
    "64:ff9b::127.0.0.1",
    "64:ff9b:1::1",
    "100::1",
    "100:0:0:1::1",
    "1fff:ffff::1",
    "2001::1",
    "2001:0:7f00:1::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:1ff:ffff::1",
    "2001:db8::1",
    "2001:db8:ffff::1",
    "2002::1",
    "2002:7f00:1::1",
    "2002:808:808::1",
    "3fff::1",
    "3fff:fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
];

#[test]
fn addresses_of_special_networks_are_not_public() {
    for text in NOT_PUBLIC {
        assert!(!is_public(address(text)), "{text}");
    }
}

#[test]
fn neighbours_of_special_networks_are_public() {
    for text in [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.0.3.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "::ffff:8.8.8.8",
        "2000::1",
        "2001:200::1",
        "2001:db7::1",
        "2001:db9::1",
        "2003::1",
        "2606:4700:4700::1111",
        "2a00:1450:4001::1",
        "3fff:1000::1",
    ] {
        assert!(is_public(address(text)), "{text}");
    }
}

#[test]
fn allowed_network_opens_its_own_addresses_only() {
    let rules = with_nets(&["10.1.0.0/16", "fd00:1::/32"]);
    for text in ["8.8.8.8", "10.1.2.3", "::ffff:10.1.2.3", "fd00:1::5"] {
        assert!(rules.allows(address(text)), "{text}");
    }
    for text in [
        "10.2.0.1",
        "::10.1.2.3",
        "64:ff9b::10.1.2.3",
        "fd00:2::5",
        "::1",
    ] {
        assert!(!rules.allows(address(text)), "{text}");
    }
    for text in NOT_PUBLIC {
        assert!(!UrlRules::default().allows(address(text)), "{text}");
    }
}

#[test]
fn debug_output_shows_the_host_only() {
    for (text, shown) in [
        ("https://example.com/in?token=1", "example.com/…"),
        ("https://example.com:8443/secret", "example.com:8443/…"),
        ("secret", "/…"),
    ] {
        assert_eq!(format!("{:?}", WebhookUrl::stored(text)), shown);
    }
}

proptest! {
    #[test]
    fn accepted_address_is_accepted_again_unchanged(text in "https?://[a-z0-9.:/@\\[\\]%?#_-]{1,40}") {
        let rules = with_nets(&["0.0.0.0/1"]);
        if let Ok(url) = rules.parse(&text) {
            prop_assert_eq!(rules.parse(url.as_str()), Ok(url));
        }
    }

    #[test]
    fn no_literal_is_accepted_without_a_network(bits: u32, more: u128) {
        let v4 = Ipv4Addr::from_bits(bits);
        let v6 = Ipv6Addr::from_bits(more);
        for text in [
            format!("https://{v4}/"),
            format!("https://{bits}/"),
            format!("https://{bits:#x}/"),
            format!("https://0{bits:o}/"),
            format!("https://[{v6}]/"),
            format!("https://[{}]/", v4.to_ipv6_mapped()),
        ] {
            prop_assert_eq!(parse(&text), Err(FieldCode::UrlIpNotAllowed), "{}", text);
        }
    }

    #[test]
    fn mapped_address_is_judged_as_its_v4(bits: u32) {
        let v4 = Ipv4Addr::from_bits(bits);
        prop_assert_eq!(is_public(v4.to_ipv6_mapped().into()), is_public(v4.into()));
        // Compatible, 6to4 and NAT64 forms of any address.
        let [a, b, c, d] = bits.to_be_bytes();
        let [high, low] = [[a, b], [c, d]].map(u16::from_be_bytes);
        for form in [
            Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, high, low),
        ] {
            prop_assert!(!is_public(form.into()), "{form}");
        }
    }

    #[test]
    fn public_v4_has_no_special_use_of_the_standard_library(bits: u32) {
        let v4 = Ipv4Addr::from_bits(bits);
        let is_special = v4.is_private()
            || v4.is_loopback()
            || v4.is_link_local()
            || v4.is_broadcast()
            || v4.is_documentation()
            || v4.is_multicast()
            || v4.is_unspecified();
        prop_assert!(!(is_special && is_public(v4.into())), "{v4}");
    }
}
