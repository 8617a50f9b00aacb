//! The hosts for which a listener answers; requests for any other host get 421 (`docs/api.md#hosts`).
//!
//! Otherwise every name that leads to a public listener would serve the links of all accounts, and a page of another
//! site could call the admin API under a name of its own.

use std::sync::Arc;

use axum::http::{HeaderMap, Uri, header::HOST};

use super::request::single;
use crate::problem::Problem;
use linkledger_core::config::{BaseUrl, HostName, is_loopback};
use linkledger_service::internal_listener::AdminAllowedHosts;

/// Hosts of one listener.
#[derive(Debug, Clone)]
pub struct ServedHosts(HostRule);

#[derive(Debug, Clone)]
enum HostRule {
    Public(PublicHosts),
    /// Rule of listeners that only operators reach.
    Internal(Arc<AdminAllowedHosts>),
}

/// Host of the public address, and those that operators allow.
#[derive(Debug, Clone)]
struct PublicHosts {
    /// Public address of the listener, for those who came by another one.
    address: Arc<str>,
    names: Arc<[String]>,
    /// True if the public address is one of this machine, which people then reach by any of its names.
    is_local: bool,
}

impl ServedHosts {
    /// Returns the hosts of a listener with this public address.
    pub fn new(address: &BaseUrl, allowed: &[HostName]) -> Self {
        Self(HostRule::Public(PublicHosts::new(address, allowed)))
    }

    /// Returns the hosts of the admin listener, by the same rule as those of the internal listener.
    pub fn internal(hosts: AdminAllowedHosts) -> Self {
        Self(HostRule::Internal(Arc::new(hosts)))
    }

    /// Checks that the request is for one of the hosts. The host of the target, if it has one, decides, and not the
    /// header (RFC 9112, 3.2.2).
    ///
    /// # Errors
    /// Returns `host_not_served`.
    pub fn check(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
        let host = uri.host().or_else(|| single(headers, &HOST));
        match &self.0 {
            HostRule::Public(hosts) if host.is_none_or(|host| !hosts.include(name_of(host))) => {
                Err(Problem::host_not_served(&hosts.address))
            }
            HostRule::Internal(hosts) if host.is_none_or(|host| !hosts.include(host)) => {
                Err(Problem::host_of_admin_api_unknown())
            }
            HostRule::Public(_) | HostRule::Internal(_) => Ok(()),
        }
    }
}

impl PublicHosts {
    fn new(address: &BaseUrl, allowed: &[HostName]) -> Self {
        let host = address.url().host_str();
        let is_local = host.is_some_and(is_loopback);
        let own = host.map(|host| without_dot(host).to_owned());
        let allowed = allowed.iter().map(|name| name.as_str().to_owned());
        Self {
            address: address.as_str().into(),
            names: own.into_iter().chain(allowed).collect(),
            is_local,
        }
    }

    /// Returns true for a name of the listener. Runs for every request, so it neither waits nor allocates.
    fn include(&self, name: &str) -> bool {
        let mut names = self.names.iter();
        names.any(|served| served.eq_ignore_ascii_case(name))
            || (self.is_local && is_loopback(name))
    }
}

/// Returns the name in a value of `Host`. Ports are not compared: port mappings change them on the way.
fn name_of(host: &str) -> &str {
    // The colons of an IPv6 address are within its brackets.
    let port_begins = match host.rfind(']') {
        Some(bracket) => bracket + 1,
        None => host.find(':').unwrap_or(host.len()),
    };
    without_dot(&host[..port_begins])
}

/// Removes the dot that ends a fully qualified name.
fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{problem::Code, request::tests::headers};

    fn check(address: &str, allowed: &[&str], host: &str, target: &str) -> Option<Problem> {
        let allowed: Vec<HostName> = allowed.iter().map(|name| name.parse().unwrap()).collect();
        let hosts = ServedHosts::new(&address.parse().unwrap(), &allowed);
        let headers = headers(&[(HOST, host)]);
        hosts.check(&headers, &target.parse().unwrap()).err()
    }

    fn serves(address: &str, host: &str) -> bool {
        check(address, &["alias.example", "[2001:db8::7]"], host, "/").is_none()
    }

    #[test]
    fn names_are_compared_without_case_port_and_dot() {
        for host in [
            "go.example.com",
            "GO.Example.COM",
            "go.example.com:8443",
            "go.example.com.",
            "go.example.com.:80",
            "alias.example",
            "alias.example:1",
            "[2001:db8::7]",
            "[2001:db8::7]:8080",
        ] {
            assert!(serves("https://go.example.com:443/links", host), "{host}");
        }
        for host in [
            "example.com",
            "go.example.com.evil.example",
            "evil.example",
            "evil.example:443",
            "xgo.example.com",
            "go.example.com..",
            "go.example.co",
            "127.0.0.1",
            "localhost",
            "[2001:db8::8]",
            "[::1]",
        ] {
            assert!(!serves("https://go.example.com", host), "{host}");
        }
        assert!(serves("https://gr\u{fc}n.example", "XN--grn-ioa.example"));
        assert!(serves("http://10.1.2.3:8080", "10.1.2.3"));
        assert!(!serves("http://10.1.2.3:8080", "10.1.2.4"));
    }

    #[test]
    fn local_address_has_every_local_name() {
        for address in [
            "http://127.0.0.1:8080",
            "http://localhost",
            "http://[::1]:1",
        ] {
            for host in [
                "127.0.0.1:8080",
                "LocalHost:9",
                "localhost.",
                "[::1]",
                "127.0.0.2",
            ] {
                assert!(serves(address, host), "{address} {host}");
            }
            for host in [
                "10.0.0.1",
                "localhost.evil.example",
                "127.0.0.1.evil.example",
                "h",
            ] {
                assert!(!serves(address, host), "{address} {host}");
            }
        }
    }

    #[test]
    fn host_of_the_target_wins_over_the_header() {
        let (own, evil) = ("go.example.com", "evil.example");
        let address = "https://go.example.com";
        let in_target = |host, target| check(address, &[], host, target);
        assert_eq!(in_target(evil, "http://GO.example.com:80/x"), None);
        let refused = in_target(own, "http://evil.example/x").unwrap();
        assert_eq!(refused.code, Code::HostNotServed);
        assert!(refused.detail.contains(address), "{}", refused.detail);
        assert!(in_target(own, "evil.example:443").is_some());
    }

    #[test]
    fn admin_listener_answers_addresses_and_allowed_names() {
        let names = vec!["ops.example.com".to_owned()];
        let hosts = ServedHosts::internal(AdminAllowedHosts { names });
        let serves = |host| {
            let checked = hosts.check(&headers(&[(HOST, host)]), &Uri::from_static("/"));
            checked.map_err(|problem| problem.code)
        };
        for host in [
            "10.2.3.4:8086",
            "[::1]:8086",
            "localhost",
            "command-api:8086",
        ] {
            assert_eq!(serves(host), Ok(()), "{host}");
        }
        assert_eq!(serves("OPS.example.com:1"), Ok(()));
        for host in ["evil.example", "127.0.0.1.evil.example", "api.example.com"] {
            assert_eq!(serves(host), Err(Code::HostNotServed), "{host}");
        }
        let absolute = Uri::from_static("http://evil.example/admin/v1/accounts");
        assert!(
            hosts
                .check(&headers(&[(HOST, "10.2.3.4")]), &absolute)
                .is_err()
        );
    }
}
