//! Tests of destinations.

use super::*;

fn parse(text: &str) -> Result<String, FieldCode> {
    let own = [
        Url::parse("https://sho.rt").unwrap(),
        Url::parse("https://api.sho.rt:8443").unwrap(),
    ];
    Destination::parse(text, &DestinationRules::of_own(&own)).map(|d| d.as_str().to_owned())
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
        (r"https://e.com/a?x=\y#\z", r"https://e.com/a?x=\y#\z"),
        (r"https://e.com#\n", r"https://e.com/#\n"),
        (
            "https://e.com/\u{2764}\u{fe0f}",
            "https://e.com/%E2%9D%A4%EF%B8%8F",
        ),
        ("https://e.com/a\u{200c}b", "https://e.com/a%E2%80%8Cb"),
        ("https://\u{ff45}.com\u{3002}pl", "https://e.com.pl/"),
        ("https://planet.com/", "https://planet.com/"),
        ("https://xcorp.example/", "https://xcorp.example/"),
    ] {
        assert_eq!(parse(text).as_deref(), Ok(serialised), "{text}");
    }
}

#[test]
fn host_has_the_form_of_stored_destinations() {
    use FieldCode::{ContainsNul, UrlControlCharacter, UrlHostNotAllowed, UrlInvalid};
    for (text, host) in [
        ("example.com", "example.com"),
        ("Shop.EXAMPLE.com", "shop.example.com"),
        ("fa\u{df}.de", "xn--fa-hia.de"),
        ("xn--fa-hia.de", "xn--fa-hia.de"),
        ("a_b.com", "a_b.com"),
        ("wiki", "wiki"),
        ("a.local", "a.local"),
        ("10.0.0.1", "10.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("[::0:1]", "[::1]"),
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
        ("example.com.", UrlHostNotAllowed),
        ("a..com", UrlHostNotAllowed),
        ("[::1]:80", UrlHostNotAllowed),
        ("e\0.com", ContainsNul),
        (&"0".repeat(254), UrlHostNotAllowed),
        ("e\n.com", UrlControlCharacter),
        (" example.com", UrlInvalid),
        ("%25.com", UrlInvalid),
        ("*.example.com", UrlHostNotAllowed),
    ] {
        assert_eq!(DestinationHost::parse(text), Err(code), "{text:?}");
    }
}

/// Addresses, and the code of the first rule that each violates.
const REFUSED: &[(&str, FieldCode)] = {
    use FieldCode::{
        ContainsNul, UrlBackslash, UrlControlCharacter, UrlHostNotAllowed, UrlInvalid,
        UrlIpNotAllowed, UrlPortNotAllowed, UrlSchemeMissing, UrlSchemeNotAllowed,
        UrlSelfReference, UrlSpaceAtEnd, UrlUserinfoNotAllowed,
    };
    &[
        ("https://e.com/\0\n", ContainsNul),
        ("https://e.com/\r\nSet-Cookie: x", UrlControlCharacter),
        ("https://e\t.com/", UrlControlCharacter),
        (" https://e.com/", UrlSpaceAtEnd),
        ("https://e.com/ ", UrlSpaceAtEnd),
        ("\u{feff}https://e.com/", UrlSpaceAtEnd),
        ("https://e.com/a\u{202f}", UrlSpaceAtEnd),
        ("https://e.com/a\u{2029}", UrlSpaceAtEnd),
        ("https://e.com/a\u{200d}", UrlSpaceAtEnd),
        ("\u{2066}https://e.com/\u{2069}", UrlSpaceAtEnd),
        (" example.com", UrlSpaceAtEnd),
        ("", UrlSchemeMissing),
        ("example.com", UrlSchemeMissing),
        ("//example.com", UrlSchemeMissing),
        ("//example.com:8443/x", UrlSchemeMissing),
        ("/path:x", UrlSchemeMissing),
        ("www.example.com:8080/a:b", UrlSchemeMissing),
        ("printer:631", UrlSchemeMissing),
        ("e.com:?x", UrlSchemeMissing),
        ("10.0.0.1:80/", UrlSchemeMissing),
        ("[::1]:80", UrlSchemeMissing),
        ("b\u{fc}cher.example:81", UrlSchemeMissing),
        ("e.com/?u=https://f.com", UrlSchemeMissing),
        ("https//e.com", UrlSchemeMissing),
        ("<https://e.com>", UrlInvalid),
        ("\u{201c}https://e.com\u{201d}", UrlInvalid),
        ("'e.com'", UrlInvalid),
        ("see https://e.com", UrlInvalid),
        ("h ttps://e.com", UrlInvalid),
        ("tel:110", UrlSchemeNotAllowed),
        ("mailto:a@e.com", UrlSchemeNotAllowed),
        ("e.com:99999/", UrlSchemeNotAllowed),
        ("javascript:alert(1)", UrlSchemeNotAllowed),
        ("data:text/html,x", UrlSchemeNotAllowed),
        ("javascript:1", UrlSchemeNotAllowed),
        ("DATA:80/x", UrlSchemeNotAllowed),
        ("view-source:443", UrlSchemeNotAllowed),
        ("ftp://ftp.example.com/", UrlSchemeNotAllowed),
        ("http:example.com", UrlInvalid),
        ("http:/example.com", UrlInvalid),
        ("http:///example.com", UrlInvalid),
        ("https:\\\\example.com", UrlBackslash),
        ("http://good.com\\@evil.com", UrlBackslash),
        (r"https://e.com/a\b?c", UrlBackslash),
        ("https://", UrlInvalid),
        ("https://?a", UrlInvalid),
        ("https://e.123/", UrlInvalid),
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
        ("https://example.com:65536/", UrlPortNotAllowed),
        ("https://example.com:http/", UrlPortNotAllowed),
        ("https://localhost:99999/", UrlHostNotAllowed),
        ("https://a@e.com:99999/", UrlUserinfoNotAllowed),
        ("https://https://e.com/", UrlHostNotAllowed),
        ("https://nas.lan/", UrlHostNotAllowed),
        ("https://a.corp/", UrlHostNotAllowed),
        ("https://tv.home/", UrlHostNotAllowed),
        ("https://tv.home.arpa/", UrlHostNotAllowed),
        ("https://home.arpa/", UrlHostNotAllowed),
        ("https://exam\u{ad}ple.com/", UrlHostNotAllowed),
        ("https://e.com\u{200b}/", UrlHostNotAllowed),
        ("https://exam%E2%81%A0ple.com/", UrlHostNotAllowed),
        ("https://i\u{2764}\u{fe0f}.example/", UrlHostNotAllowed),
        ("https://SHO.rt/x", UrlSelfReference),
        ("https://s%68o.rt/x", UrlSelfReference),
        ("http://\u{ff53}ho.rt", UrlSelfReference),
        ("https://api.sho.rt/", UrlSelfReference),
        ("https://\u{2460}.sho\u{ff0e}rt:81/", UrlPortNotAllowed),
    ]
};

#[test]
fn first_violated_rule_gives_the_code() {
    use FieldCode::UrlHostNotAllowed;
    for (text, code) in REFUSED.iter().copied() {
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
    let emoji = format!("https://e.com/{}", "\u{1f600}".repeat(700));
    assert_eq!(parse(&emoji), Err(FieldCode::UrlTooLong));
}

#[test]
fn debug_output_hides_path_and_query() {
    let destination =
        Destination::parse("https://e.com/secret?token=1", &DestinationRules::default()).unwrap();
    assert_eq!(format!("{destination:?}"), "e.com/…");
}

fn rules(schemes: &str, hosts: DestinationHosts) -> DestinationRules {
    let own = Url::parse("https://sho.rt").unwrap();
    DestinationRules::new([&own], schemes.parse().unwrap(), hosts)
}

#[test]
fn other_schemes_are_accepted_if_they_are_named() {
    let rules = rules(
        "https,mailto,tel,whatsapp,com.example.app",
        DestinationHosts::Public,
    );
    let parse = |text: &str| Destination::parse(text, &rules);
    for (text, serialised) in [
        ("tel:110", "tel:110"),
        ("TEL:+1 555 0100", "tel:+1%20555%200100"),
        (
            "mailto:a@e.com?subject=A b\u{e9}",
            "mailto:a@e.com?subject=A%20b%C3%A9",
        ),
        ("whatsapp://send?text=a", "whatsapp://send?text=a"),
        ("com.example.app:/open", "com.example.app:/open"),
    ] {
        let destination = parse(text).unwrap();
        assert_eq!(destination.as_str(), serialised, "{text}");
        assert_eq!(parse(serialised), Ok(destination), "{text}");
    }
    let secret = parse("tel:+15550100").unwrap();
    assert_eq!(format!("{secret:?}"), "tel:…");
    for (text, code) in [
        ("http://e.com/", FieldCode::UrlSchemeNotAllowed),
        ("javascript:alert(1)", FieldCode::UrlSchemeNotAllowed),
        ("tel:", FieldCode::UrlInvalid),
        ("mailto:a@e.com\n", FieldCode::UrlControlCharacter),
        ("mailto:a@e.com\u{a0}", FieldCode::UrlSpaceAtEnd),
        (
            &format!("tel:{}", "1".repeat(LENGTH_MAX)),
            FieldCode::UrlTooLong,
        ),
    ] {
        assert_eq!(parse(text), Err(code), "{text:?}");
    }
}

#[test]
fn all_hosts_are_accepted_by_choice() {
    let rules = rules("http,https", DestinationHosts::Any);
    let parse = |text: &str| Destination::parse(text, &rules);
    for (text, serialised) in [
        ("http://wiki", "http://wiki/"),
        ("http://nas.lan:81/x", "http://nas.lan:81/x"),
        ("http://10.1:22", "http://10.0.0.1:22/"),
        ("http://[FD00::1]/", "http://[fd00::1]/"),
    ] {
        assert_eq!(parse(text).unwrap().as_str(), serialised, "{text}");
    }
    for (text, code) in [
        ("https://sho.rt:81/", FieldCode::UrlSelfReference),
        ("http://wiki./", FieldCode::UrlHostNotAllowed),
        ("http://a!b/", FieldCode::UrlHostNotAllowed),
        ("http://me@wiki/", FieldCode::UrlUserinfoNotAllowed),
        ("http://wiki:99999/", FieldCode::UrlPortNotAllowed),
    ] {
        assert_eq!(parse(text), Err(code), "{text}");
    }
}

#[test]
fn lookup_accepts_what_any_rules_accept() {
    let rules = DestinationRules::of_lookups();
    for text in [
        "tel:110",
        "http://10.0.0.1/",
        "https://sho.rt/a",
        "ftp://e.com/a",
    ] {
        assert!(Destination::parse(text, &rules).is_ok(), "{text}");
    }
    let script = Destination::parse("javascript:alert(1)", &rules);
    assert_eq!(script, Err(FieldCode::UrlSchemeNotAllowed));
}

#[test]
fn further_and_local_names_of_the_service_are_its_own() {
    let names = ["alias.example".parse().unwrap()];
    let rules = rules("https,http", DestinationHosts::Any).with_names(&names);
    let refused = Destination::parse("https://ALIAS.example:8443/a", &rules).unwrap_err();
    assert_eq!(refused, FieldCode::UrlSelfReference);
    let local = Url::parse("http://127.0.0.1:8081").unwrap();
    let schemes = "https,http".parse().unwrap();
    let local = DestinationRules::new([&local], schemes, DestinationHosts::Any);
    for text in [
        "http://localhost:8081/a",
        "http://[::1]/a",
        "http://127.0.0.2/a",
    ] {
        let refused = Destination::parse(text, &local).unwrap_err();
        assert_eq!(refused, FieldCode::UrlSelfReference, "{text}");
        assert!(Destination::parse(text, &rules).is_ok(), "{text}");
    }
}
