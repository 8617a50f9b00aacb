//! HTTP client of the messages. It reaches no address that the rules refuse: a name is resolved for each connection,
//! and only allowed addresses are connected to. A name that answers differently the second time changes nothing. If
//! there is a proxy, it does this for names, and addresses of webhooks are checked here as well.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use futures::future::BoxFuture;
use linkledger_core::webhook::{UrlRules, WebhookUrl};
use reqwest::{
    Client, Proxy, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect,
};

use super::page::WINDOW_OF_OPERATORS;

/// Timeout of a connection, with the look-up of its address and TLS.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Time for which an unused connection is kept.
const IDLE_TIME_MAX: Duration = Duration::from_secs(30);
/// Unused connections to one host that are kept: as many as a webhook of operators has messages in flight, so that a
/// page does not begin with as many new connections.
const IDLE_CONNECTIONS_MAX: usize = WINDOW_OF_OPERATORS;

/// Look-up of the addresses of a host name. A parameter, so that tests can answer.
pub type LookUp =
    Arc<dyn Fn(String) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// The address, or every address of the name, is not public and not in an allowed network.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("address not allowed")]
pub(super) struct AddressNotAllowed;

/// Client of the messages, with the rules of their addresses.
pub(super) struct Connector {
    pub(super) client: Client,
    rules: Arc<UrlRules>,
}

struct AllowedAddresses {
    look_up: LookUp,
    rules: Arc<UrlRules>,
}

impl Connector {
    /// Makes the client. It loads the certificates of the system.
    ///
    /// # Errors
    /// Returns an error if the system has no certificates.
    pub(super) fn new(
        rules: UrlRules,
        look_up: LookUp,
        proxy_url: Option<&Url>,
    ) -> anyhow::Result<Self> {
        // The error says that another part of the process has installed the provider already.
        drop(rustls::crypto::ring::default_provider().install_default());
        let rules = Arc::new(rules);
        let resolver = AllowedAddresses {
            look_up,
            rules: Arc::clone(&rules),
        };
        let builder = Client::builder();
        let builder = match proxy_url {
            // Only the name of the proxy is looked up here, which may have a private address.
            Some(url) => builder.proxy(Proxy::all(url.clone())?),
            // One of the environment would connect to addresses that this process cannot check.
            None => builder.no_proxy().dns_resolver(Arc::new(resolver)),
        };
        let client = builder
            .user_agent(concat!("linkledger/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIME_MAX)
            .redirect(redirect::Policy::none())
            .http1_only()
            .referer(false)
            .pool_idle_timeout(IDLE_TIME_MAX)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build()
            .context("cannot make the HTTP client of webhooks")?;
        Ok(Self { client, rules })
    }

    /// Checks the address as for a new webhook: the rules may have changed since, and an IP address in it is never
    /// looked up.
    pub(super) fn check(&self, url: &WebhookUrl) -> Result<(), AddressNotAllowed> {
        self.rules
            .parse(url.as_str())
            .map(drop)
            .map_err(|_| AddressNotAllowed)
    }
}

impl Resolve for AllowedAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        let looking_up = (self.look_up)(name.as_str().to_owned());
        let rules = Arc::clone(&self.rules);
        Box::pin(async move {
            let allowed = allowed(looking_up.await?, &rules)?;
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// Returns the addresses that may be connected to.
fn allowed(found: Vec<SocketAddr>, rules: &UrlRules) -> Result<Vec<SocketAddr>, AddressNotAllowed> {
    let allowed: Vec<SocketAddr> = found
        .into_iter()
        .filter(|address| rules.allows(address.ip()))
        .collect();
    if allowed.is_empty() {
        return Err(AddressNotAllowed);
    }
    Ok(allowed)
}

/// Returns the look-up by the resolver of the system.
pub fn system_look_up() -> LookUp {
    Arc::new(|name| {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_allowed_addresses_of_a_name_remain() {
        let rules = UrlRules::new(vec!["127.0.0.1/32".parse().unwrap()]);
        let addresses = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let public = addresses(&["93.184.215.14:443", "[2606:2800:21f:cb07::1]:443"]);
        assert_eq!(allowed(public.clone(), &rules).unwrap(), public);
        let mixed = addresses(&["127.0.0.2:80", "127.0.0.1:80", "[::1]:80", "10.0.0.1:80"]);
        assert_eq!(
            allowed(mixed, &rules).unwrap(),
            addresses(&["127.0.0.1:80"])
        );
        for refused in [
            &[][..],
            &["169.254.169.254:80"],
            &["[::ffff:10.0.0.1]:80", "[64:ff9b::a00:1]:80"],
            &["0.0.0.0:80", "[fe80::1]:80", "192.168.1.1:80"],
        ] {
            assert!(allowed(addresses(refused), &rules).is_err(), "{refused:?}");
        }
    }
}
