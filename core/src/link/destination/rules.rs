//! Rules of an installation for destinations: schemes, hosts, and none of its own hosts.

use std::{collections::BTreeSet, fmt, str::FromStr};

use url::Url;

use crate::config::{HostName, is_loopback};

/// Schemes of the web: the only ones by default.
const WEB: [&str; 2] = ["http", "https"];
/// Schemes that run code, read files or show something else than they say: never accepted.
const NEVER: [&str; 7] = [
    "about",
    "blob",
    "data",
    "file",
    "javascript",
    "vbscript",
    "view-source",
];

/// Rules of an installation for destinations.
#[derive(Debug, Clone)]
pub struct DestinationRules {
    own_hosts: BTreeSet<String>,
    /// True if an own address is one of this machine, which then answers for all of its local names.
    is_local: bool,
    /// `None` accepts all schemes that any installation can accept.
    schemes: Option<DestinationSchemes>,
    hosts: DestinationHosts,
}

impl Default for DestinationRules {
    fn default() -> Self {
        Self::of_own([])
    }
}

impl DestinationRules {
    /// Returns the rules of an installation. A link to a host of its own addresses could loop.
    pub fn new<'a>(
        own_addresses: impl IntoIterator<Item = &'a Url>,
        schemes: DestinationSchemes,
        hosts: DestinationHosts,
    ) -> Self {
        let own_hosts = own_addresses.into_iter().filter_map(Url::host_str);
        let own_hosts: BTreeSet<String> = own_hosts.map(str::to_owned).collect();
        Self {
            is_local: own_hosts.iter().any(|host| is_loopback(host)),
            own_hosts,
            schemes: Some(schemes),
            hosts,
        }
    }

    /// Adds further names under which the installation answers.
    #[must_use]
    pub fn with_names(mut self, names: &[HostName]) -> Self {
        let names = names.iter().map(|name| name.as_str().to_owned());
        self.own_hosts.extend(names);
        self
    }

    /// Returns the default rules of an installation with these addresses.
    pub fn of_own<'a>(own_addresses: impl IntoIterator<Item = &'a Url>) -> Self {
        let (schemes, hosts) = Default::default();
        Self::new(own_addresses, schemes, hosts)
    }

    /// Returns rules that accept what any installation can accept: a link was created under the rules of its time.
    pub const fn of_lookups() -> Self {
        Self {
            own_hosts: BTreeSet::new(),
            is_local: false,
            schemes: None,
            hosts: DestinationHosts::Any,
        }
    }

    /// Returns true if addresses may have this scheme, in lower case.
    pub(super) fn accept_scheme(&self, scheme: &str) -> bool {
        match &self.schemes {
            Some(schemes) => schemes.0.contains(scheme),
            None => !is_harmful(scheme),
        }
    }

    /// Returns true if addresses of the web may lead to all hosts and ports.
    pub(super) fn accept_all_hosts(&self) -> bool {
        self.hosts == DestinationHosts::Any
    }

    /// Returns true if the host is one of the installation.
    pub(super) fn own(&self, host: &str) -> bool {
        self.own_hosts.contains(host) || (self.is_local && is_loopback(host))
    }
}

/// Setting: schemes of destinations, separated by commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationSchemes(BTreeSet<String>);

impl Default for DestinationSchemes {
    fn default() -> Self {
        Self(WEB.map(str::to_owned).into())
    }
}

impl FromStr for DestinationSchemes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = text.split(',').map(|name| name.trim().to_ascii_lowercase());
        let schemes: BTreeSet<String> = names.collect();
        for name in &schemes {
            if is_harmful(name) {
                return Err(format!(
                    "{name} is never accepted: such an address runs code, reads a file or shows something else than \
                     it says"
                ));
            }
            if !is_scheme(name) {
                return Err(format!(
                    "{name:?} is no scheme: name it without the colon, such as mailto"
                ));
            }
        }
        if !schemes.contains("https") {
            return Err("https must be among them".to_owned());
        }
        Ok(Self(schemes))
    }
}

impl fmt::Display for DestinationSchemes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(String::as_str).collect();
        f.write_str(&names.join(","))
    }
}

crate::named_enum! {
    /// Setting: hosts of destinations.
    #[derive(Default)]
    pub enum DestinationHosts {
        /// Names on the public internet, with the ports of web servers.
        #[default]
        Public = "public",
        /// Also IP addresses, names without a dot or of a local network, and all ports: for an intranet.
        Any = "any",
    }
}

impl FromStr for DestinationHosts {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        Self::of_name(text).ok_or("it is public or any")
    }
}

/// Returns true for a scheme in lower case that no installation accepts.
pub(super) fn is_harmful(scheme: &str) -> bool {
    NEVER.contains(&scheme)
}

/// Returns true if the text has the form of a scheme (RFC 3986, 3.1).
pub(super) fn is_scheme(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_of_schemes_refuses_those_that_harm() {
        let parse = |text: &str| text.parse::<DestinationSchemes>();
        assert_eq!(parse("https,http"), Ok(DestinationSchemes::default()));
        let schemes = parse("https, HTTP,Mailto,com.example.app").unwrap();
        assert_eq!(schemes.to_string(), "com.example.app,http,https,mailto");
        assert_eq!(schemes.to_string().parse(), Ok(schemes));
        for (text, reason) in [
            ("https,JavaScript", "javascript is never accepted"),
            ("https,view-source", "view-source is never accepted"),
            ("https,mailto:", "\"mailto:\" is no scheme"),
            ("https,", "\"\" is no scheme"),
            ("http,tel", "https must be among them"),
        ] {
            assert!(parse(text).unwrap_err().starts_with(reason), "{text}");
        }
    }
}
