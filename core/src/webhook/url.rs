//! Addresses of webhooks: the rules for the text of an address, and for the IP addresses that its host leads to.
//!
//! The service itself calls these addresses, so they must not lead into the network that the service runs in.

use std::{
    borrow::Cow,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ops::Deref,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::{
    config::is_loopback,
    field::FieldCode,
    link::{Destination, DestinationHosts, DestinationRules, DestinationSchemes},
};

/// Maximal length of the address of a webhook after serialisation, in bytes.
pub const URL_LENGTH_MAX: usize = 2_048;
/// Regular expression of serialised addresses of webhooks.
const PATTERN: &str = "^https?://[!-~]+$";
/// The only scheme of public addresses.
const SCHEME: &str = "https";

/// IPv4 networks that are not on the public internet (IANA, Special-Purpose Address Registry), and the one public
/// address that a cloud answers within its machines only.
const NOT_PUBLIC_V4: [Ipv4Net; 16] = [
    v4([0, 0, 0, 0], 8),        // this network
    v4([10, 0, 0, 0], 8),       // private
    v4([100, 64, 0, 0], 10),    // shared by the customers of a provider
    v4([127, 0, 0, 0], 8),      // loopback
    v4([168, 63, 129, 16], 32), // services of Azure for its machines
    v4([169, 254, 0, 0], 16),   // link-local, with the metadata of clouds
    v4([172, 16, 0, 0], 12),    // private
    v4([192, 0, 0, 0], 24),     // protocol assignments
    v4([192, 0, 2, 0], 24),     // documentation
    v4([192, 88, 99, 0], 24),   // relays of 6to4
    v4([192, 168, 0, 0], 16),   // private
    v4([198, 18, 0, 0], 15),    // benchmarks
    v4([198, 51, 100, 0], 24),  // documentation
    v4([203, 0, 113, 0], 24),   // documentation
    v4([224, 0, 0, 0], 4),      // multicast
    v4([240, 0, 0, 0], 4),      // reserved, with broadcast
];
/// The only IPv6 network of public addresses. Outside are loopback, private, link-local and multicast addresses, those
/// that have an IPv4 address within (compatible, NAT64), and all that is not assigned yet.
const PUBLIC_V6: Ipv6Net = v6([0x2000, 0, 0], 3);
/// Networks within [`PUBLIC_V6`] that are not on the public internet.
const NOT_PUBLIC_V6: [Ipv6Net; 4] = [
    v6([0x2001, 0, 0], 23),     // protocol assignments, with Teredo and ORCHID
    v6([0x2001, 0xdb8, 0], 32), // documentation
    v6([0x2002, 0, 0], 16),     // 6to4, which has an IPv4 address within
    v6([0x3fff, 0, 0], 20),     // documentation
];

const fn v4([a, b, c, d]: [u8; 4], bits: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)
}

const fn v6([a, b, c]: [u16; 3], bits: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), bits)
}

/// Returns true if the address is on the public internet. An IPv4-mapped address is judged as its IPv4 address.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => !NOT_PUBLIC_V4.iter().any(|net| net.contains(&v4)),
        IpAddr::V6(v6) => {
            PUBLIC_V6.contains(&v6) && !NOT_PUBLIC_V6.iter().any(|net| net.contains(&v6))
        }
    }
}

/// Address of a webhook that the rules accept, or accepted when the webhook received it, in its serialised form.
///
/// `Debug` shows the host only: paths and queries may hold secrets.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WebhookUrl(String);

impl WebhookUrl {
    /// Returns an address that a webhook has received before, whatever the rules are now.
    pub fn stored(serialised: impl Into<String>) -> Self {
        Self(serialised.into())
    }

    /// Returns the serialised form.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the serialised form.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl Deref for WebhookUrl {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = self.split_once("://").map_or("", |(_, rest)| rest);
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        write!(f, "{authority}/…")
    }
}

impl JsonSchema for WebhookUrl {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WebhookUrl".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": URL_LENGTH_MAX, "pattern": PATTERN })
    }
}

/// Rules of an installation for addresses of webhooks.
#[derive(Debug, Clone)]
pub struct UrlRules {
    /// Networks that webhooks may lead to although they are not public.
    allowed_nets: Vec<IpNet>,
    /// Rules for names on the public internet.
    public: DestinationRules,
    /// Rules for literals of allowed networks, without a rule for the literal.
    literals: DestinationRules,
}

impl Default for UrlRules {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl UrlRules {
    /// Returns the rules of an installation that also allows these networks.
    pub fn new(nets: Vec<IpNet>) -> Self {
        let https: DestinationSchemes = SCHEME.parse().expect("https is among the schemes");
        let web = DestinationSchemes::default();
        Self {
            allowed_nets: nets,
            public: DestinationRules::new([], https, DestinationHosts::Public),
            literals: DestinationRules::new([], web, DestinationHosts::Any),
        }
    }

    /// Parses the address of a webhook: `https` with a name and a port on the public internet, or an IP address of an
    /// allowed network, then with any port and also `http`.
    ///
    /// # Errors
    /// Returns the first violated rule of a destination with a public host, [`FieldCode::UrlHostLocal`] or
    /// [`FieldCode::UrlTooLong`].
    pub fn parse(&self, text: &str) -> Result<WebhookUrl, FieldCode> {
        let parsed = Destination::parse(text, &self.public);
        let parsed = parsed.or_else(|broken| self.parse_other(text, broken))?;
        if parsed.len() > URL_LENGTH_MAX {
            return Err(FieldCode::UrlTooLong);
        }
        Ok(WebhookUrl(parsed.into_string()))
    }

    /// Returns true if a message may be sent to the IP address: it is public, or in an allowed network.
    pub fn allows(&self, address: IpAddr) -> bool {
        is_public(address) || self.is_in_allowed_net(address)
    }

    /// Parses an address that breaks a rule for names on the public internet. One whose host is an IP address of an
    /// allowed network is accepted.
    fn parse_other(&self, text: &str, broken: FieldCode) -> Result<Destination, FieldCode> {
        let parsed = Destination::parse(text, &self.literals).map_err(|_| broken)?;
        // From the serialised form: it has one notation for each IP address.
        let url = Url::parse(&parsed).map_err(|_| broken)?;
        let address = match url.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            Some(Host::Domain(name)) if is_of_this_machine(name) => {
                return Err(FieldCode::UrlHostLocal);
            }
            Some(Host::Domain(_)) | None => return Err(broken),
        };
        let is_allowed = self.is_in_allowed_net(address);
        is_allowed.then_some(parsed).ok_or(broken)
    }

    fn is_in_allowed_net(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.allowed_nets.iter().any(|net| net.contains(&address))
    }
}

fn is_of_this_machine(name: &str) -> bool {
    is_loopback(name) || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests;
