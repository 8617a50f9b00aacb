//! Address of the client of a request: the peer, or the address that trusted proxies report.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use ipnet::{IpNet, Ipv4Net};

/// Prefix of IPv6 networks that hold IPv4 addresses, in bits.
const MAPPED_BITS: u8 = 96;

/// Network of proxies whose reports of addresses are trusted, such as `10.0.0.0/8` or `192.0.2.7`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrustedProxy(IpNet);

impl FromStr for TrustedProxy {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let network = text
            .parse::<IpNet>()
            .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
            .map_err(
                |_| "neither an address nor a network; give for example 192.0.2.7 or 10.0.0.0/8",
            )?;
        Ok(Self(canonical_network(network).trunc()))
    }
}

/// Returns the IPv4 network of a network of IPv4-mapped addresses, and any other network unchanged.
fn canonical_network(network: IpNet) -> IpNet {
    let IpNet::V6(v6) = network else {
        return network;
    };
    let v4 = v6.addr().to_ipv4_mapped();
    let v4 = v4.zip(v6.prefix_len().checked_sub(MAPPED_BITS));
    v4.and_then(|(address, bits)| Ipv4Net::new(address, bits).ok())
        .map_or(network, IpNet::V4)
}

/// Returns true if the address, in canonical form, is one of a trusted proxy.
fn is_trusted(address: IpAddr, trusted: &[TrustedProxy]) -> bool {
    trusted.iter().any(|network| network.0.contains(&address))
}

/// Returns the address of the client, with an IPv4-mapped address as IPv4. Proxies report addresses in `Forwarded` of
/// RFC 7239, or in `X-Forwarded-For`, which is ignored if there is a line of the former: the values of all lines, in
/// order.
///
/// A peer that is no trusted proxy is the client itself, whatever the headers say. Otherwise the
/// headers are read from the right, and the first address that is no trusted proxy is the client. A
/// malformed element ends the reading, and the last trusted address counts.
pub fn client_address<'a>(
    peer: IpAddr,
    trusted: &[TrustedProxy],
    forwarded: impl DoubleEndedIterator<Item = &'a [u8]>,
    x_forwarded_for: impl DoubleEndedIterator<Item = &'a [u8]>,
) -> IpAddr {
    let peer = peer.to_canonical();
    if !is_trusted(peer, trusted) {
        return peer;
    }
    let mut forwarded = forwarded.peekable();
    if forwarded.peek().is_some() {
        let elements = forwarded.rev().flat_map(elements_from_the_right);
        first_untrusted(peer, elements.map(address_in_forwarded), trusted)
    } else {
        let elements = x_forwarded_for.rev().flat_map(elements_from_the_right);
        first_untrusted(peer, elements.map(address_of_node), trusted)
    }
}

/// Returns true if a peer that is no trusted proxy seems to be one: it has an address of a private network, and the
/// request has a line of a forwarding header.
pub fn is_unlisted_proxy(peer: IpAddr, trusted: &[TrustedProxy], is_forwarded: bool) -> bool {
    let peer = peer.to_canonical();
    let is_private = match peer {
        IpAddr::V4(v4) => {
            v4.is_private() || v4.is_loopback() || v4.is_link_local() || is_shared(v4)
        }
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_loopback() || v6.is_unicast_link_local(),
    };
    is_forwarded && is_private && !is_trusted(peer, trusted)
}

/// Returns true for the addresses that carriers and clouds share, `100.64.0.0/10`.
fn is_shared(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    first == 100 && second & 0xc0 == 64
}

/// Returns the elements of a list, the last one first. An element that a comma inside quotes has cut
/// is malformed, which ends the reading.
fn elements_from_the_right(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.rsplit(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

fn first_untrusted(
    peer: IpAddr,
    addresses: impl Iterator<Item = Option<IpAddr>>,
    trusted: &[TrustedProxy],
) -> IpAddr {
    let mut last = peer;
    for address in addresses {
        let Some(address) = address else {
            return last;
        };
        last = address;
        if !is_trusted(address, trusted) {
            return last;
        }
    }
    last
}

/// Parses the address of the parameter `for` of an element of `Forwarded`.
fn address_in_forwarded(element: &[u8]) -> Option<IpAddr> {
    let mut node = None;
    for pair in element.split(|byte| *byte == b';') {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (&pair[..equals], &pair[equals + 1..]);
        if name.trim_ascii().eq_ignore_ascii_case(b"for") && node.replace(value).is_some() {
            return None;
        }
    }
    let node = node?.trim_ascii();
    let unquoted = node
        .strip_prefix(b"\"")
        .map_or(Some(node), |rest| rest.strip_suffix(b"\""));
    address_of_node(unquoted?)
}

/// Parses an address, with or without a port; an IPv6 address with a port is in brackets.
fn address_of_node(node: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(node).ok()?;
    let address = text
        .parse::<IpAddr>()
        .ok()
        .or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()))
        .or_else(|| bracketed(text));
    address.map(|address| address.to_canonical())
}

fn bracketed(text: &str) -> Option<IpAddr> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PROXIES: [&str; 3] = ["10.0.0.0/8", "192.0.2.7", "2001:db8:1::/48"];

    fn address(peer: &str, forwarded: &[&[u8]], x_forwarded_for: &[&[u8]]) -> String {
        let trusted = PROXIES.map(|proxy| proxy.parse().unwrap());
        client_address(
            peer.parse().unwrap(),
            &trusted,
            forwarded.iter().copied(),
            x_forwarded_for.iter().copied(),
        )
        .to_string()
    }

    fn by_x_forwarded_for(lines: &[&str]) -> String {
        let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
        address("10.1.1.1", &[], &lines)
    }

    fn by_forwarded(lines: &[&str]) -> String {
        let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
        address("10.1.1.1", &lines, &[b"198.51.100.99"])
    }

    #[test]
    fn private_untrusted_peer_that_forwards_is_unlisted_proxy() {
        let trusted = PROXIES.map(|proxy| proxy.parse().unwrap());
        let is_unlisted = |peer: &str, is_forwarded| {
            is_unlisted_proxy(peer.parse().unwrap(), &trusted, is_forwarded)
        };
        for peer in [
            "172.16.0.1",
            "192.168.7.7",
            "127.0.0.1",
            "100.64.0.1",
            "::ffff:172.16.0.1",
            "fd00::1",
            "::1",
        ] {
            assert!(is_unlisted(peer, true), "{peer}");
            assert!(!is_unlisted(peer, false), "{peer}");
        }
        for peer in ["10.1.1.1", "203.0.113.5", "100.128.0.1", "2001:db8:2::1"] {
            assert!(!is_unlisted(peer, true), "{peer}");
        }
    }

    #[test]
    fn untrusted_peer_is_the_client() {
        for peer in ["203.0.113.5", "192.0.2.8", "2001:db8:2::1"] {
            let client = address(peer, &[b"for=198.51.100.1"], &[b"198.51.100.1"]);
            assert_eq!(client, peer);
        }
    }

    #[test]
    fn rightmost_untrusted_address_is_the_client() {
        for (lines, client) in [
            (&["198.51.100.1"][..], "198.51.100.1"),
            (&["6.6.6.6, 198.51.100.1, 10.2.2.2"], "198.51.100.1"),
            (&["6.6.6.6,198.51.100.1 ,\t192.0.2.7"], "198.51.100.1"),
            (&["198.51.100.1:4711, 10.0.0.1:80"], "198.51.100.1"),
            (&["2001:db8::1"], "2001:db8::1"),
            (&["[2001:db8::1]"], "2001:db8::1"),
            (&["[2001:db8::1]:443, 2001:db8:1::9"], "2001:db8::1"),
            (&["6.6.6.6", "198.51.100.1", "10.9.9.9"], "198.51.100.1"),
            (&[], "10.1.1.1"),
        ] {
            assert_eq!(by_x_forwarded_for(lines), client, "{lines:?}");
        }
    }

    #[test]
    fn malformed_element_ends_the_walk() {
        for (lines, client) in [
            (&["198.51.100.1, unknown"][..], "10.1.1.1"),
            (&["198.51.100.1, nonsense, 10.2.2.2"], "10.2.2.2"),
            (&["198.51.100.1, , 10.2.2.2"], "10.2.2.2"),
            (&[""], "10.1.1.1"),
            (&["198.51.100.1", ""], "10.1.1.1"),
            (&["999.1.1.1"], "10.1.1.1"),
            (&["fe80::1%eth0"], "10.1.1.1"),
            (&["10.3.3.3, 10.2.2.2"], "10.3.3.3"),
        ] {
            assert_eq!(by_x_forwarded_for(lines), client, "{lines:?}");
        }
    }

    #[test]
    fn forwarded_header_wins_over_the_other_one() {
        for (lines, client) in [
            (&["for=198.51.100.1"][..], "198.51.100.1"),
            (&["For=\"198.51.100.1:80\";proto=https"], "198.51.100.1"),
            (
                &["proto=http; for=198.51.100.1 ;by=10.0.0.1"],
                "198.51.100.1",
            ),
            (&["for=\"[2001:db8::1]:4711\""], "2001:db8::1"),
            (
                &["for=6.6.6.6, for=198.51.100.1, for=10.2.2.2"],
                "198.51.100.1",
            ),
            (&["for=198.51.100.1", "for=10.2.2.2"], "198.51.100.1"),
            (&["for=unknown"], "10.1.1.1"),
            (&["for=_hidden, for=10.2.2.2"], "10.2.2.2"),
            (&["for=1.1.1.1;for=2.2.2.2"], "10.1.1.1"),
            (&["for=\"198.51.100.1"], "10.1.1.1"),
            (&["proto=https"], "10.1.1.1"),
            (&["nonsense"], "10.1.1.1"),
            // A client has left a quote open; the proxy's own element still counts.
            (&["for=6.6.6.6;by=\", for=198.51.100.1"], "198.51.100.1"),
        ] {
            assert_eq!(by_forwarded(lines), client, "{lines:?}");
        }
    }

    #[test]
    fn mapped_addresses_equal_ipv4() {
        let client = address("::ffff:10.1.1.1", &[], &[b"::ffff:198.51.100.1"]);
        assert_eq!(client, "198.51.100.1");
        assert_eq!(address("::ffff:203.0.113.5", &[], &[]), "203.0.113.5");
        let mapped: TrustedProxy = "::ffff:10.0.0.0/104".parse().unwrap();
        assert_eq!(mapped, "10.0.0.0/8".parse().unwrap());
    }

    #[test]
    fn trusted_proxies_are_networks_or_addresses() {
        for (text, shown) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("192.0.2.7", "192.0.2.7/32"),
            ("::1", "::1/128"),
        ] {
            let proxy: TrustedProxy = text.parse().unwrap();
            assert_eq!(proxy.0.to_string(), shown);
        }
        for text in ["", "10.0.0.0/33", "proxy.example", "10.0.0.0/8 "] {
            assert!(text.parse::<TrustedProxy>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_result_in_some_address(
            lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..8_192), 0..4)
        ) {
            let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
            address("10.1.1.1", &lines, &[]);
            address("10.1.1.1", &[], &lines);
        }

        #[test]
        fn client_text_never_hides_the_proxys_element(
            text in "[ -~]{0,200}", own in any::<[u8; 4]>()
        ) {
            let own = IpAddr::from(own);
            prop_assume!(!is_trusted(own, &PROXIES.map(|proxy| proxy.parse().unwrap())));
            let line = format!("{text}, {own}");
            prop_assert_eq!(address("10.1.1.1", &[], &[line.as_bytes()]), own.to_string());
            let line = format!("{text}, for={own}");
            prop_assert_eq!(address("10.1.1.1", &[line.as_bytes()], &[]), own.to_string());
        }
    }
}
