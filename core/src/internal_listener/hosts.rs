//! Check of the host name of a request to the internal listener.

use std::net::IpAddr;

use axum::http::{HeaderMap, header::HOST, uri::Authority};
use clap::Args;

/// Host names under which the pages of the internal listener are served.
#[derive(Debug, Clone, Default, Args)]
pub struct InternalHosts {
    /// Host name by which /metrics and the console may be reached, besides IP addresses, localhost
    /// and names without a dot; can be repeated.
    #[arg(
        id = "internal_hosts",
        long = "internal-host",
        env = "INTERNAL_HOSTS",
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub names: Vec<String>,
}

impl InternalHosts {
    /// Returns true if the host of a request is known.
    ///
    /// A foreign page could resolve a name of its own to this address and read the answers (DNS
    /// rebinding). That does not work with an IP address, nor with a name without a dot, such as
    /// `localhost` or the name of a container: no public name is like that.
    pub fn include_host_of(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let Some(authority) = host.and_then(|host| host.parse::<Authority>().ok()) else {
            return false;
        };
        let name = authority.host();
        let address = name.trim_start_matches('[').trim_end_matches(']');
        address.parse::<IpAddr>().is_ok()
            || !name.contains(['.', ':'])
            || self
                .names
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_addresses_short_names_and_given_names_are_known() {
        let names = vec!["ops.example.com".to_owned()];
        let hosts = InternalHosts { names };
        let is_known = |host: &'static str| {
            let host = HeaderValue::from_static(host);
            hosts.include_host_of(&HeaderMap::from_iter([(HOST, host)]))
        };
        for host in [
            "127.0.0.1:9102",
            "[::1]:9102",
            "10.2.3.4",
            "LocalHost:1",
            "projector:9102",
            "OPS.example.com:9102",
        ] {
            assert!(is_known(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example:9102",
            "localhost.evil.example",
            "sub.ops.example.com",
            "ops.example.com.",
            "localhost.",
            "user@evil.example",
        ] {
            assert!(!is_known(host), "{host}");
        }
        assert!(!hosts.include_host_of(&HeaderMap::new()));
    }
}
