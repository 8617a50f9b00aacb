//! Settings of the dispatcher of webhooks.

use std::net::SocketAddr;

use anyhow::Context as _;
use clap::Args;
use linkledger_core::{
    config::{Secret, parse_database_url},
    webhook::MasterKeys,
};
use linkledger_service::{
    internal_listener::AdminAllowedHosts, lifecycle::listen, telemetry::TelemetryConfig,
    webhook_config::WebhookConfig,
};
use reqwest::Url;
use tokio::net::TcpListener;

/// Settings of `webhooks`.
#[derive(Debug, Clone, Args)]
pub struct WebhooksSettings {
    #[command(flatten)]
    pub config: WebhooksConfig,
    #[command(flatten)]
    pub listen: WebhooksListenConfig,
}

/// Settings of the dispatcher itself.
#[derive(Debug, Clone, Args)]
pub struct WebhooksConfig {
    #[command(flatten)]
    pub database: LogDatabase,
    /// Accept a Postgres that can lose acknowledged events in a crash: only for tests.
    #[arg(long, env = "ALLOW_UNSAFE_POSTGRES")]
    pub allow_unsafe_postgres: bool,
    #[command(flatten)]
    pub webhooks: WebhookConfig,
    /// Maximum number of connections to the database, besides three for the lease and the watch of the log.
    #[arg(long, env = "WEBHOOKS_DATABASE_POOL_SIZE", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(2..))]
    pub webhooks_database_pool_size: u32,
    /// HTTP proxy through which messages are sent, such as <http://10.20.0.5:4750>; it must itself refuse private
    /// addresses [default: no proxy].
    #[arg(long, env = "WEBHOOK_PROXY_URL", value_parser = parse_proxy_url)]
    pub webhook_proxy_url: Option<Url>,
    #[command(flatten)]
    pub admin_allowed_hosts: AdminAllowedHosts,
}

/// Address of the log, with its webhooks.
#[derive(Debug, Clone, Args)]
pub struct LogDatabase {
    /// Address of the Postgres database: postgres://user:password@host:port/name; `-` reads it from
    /// standard input.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_parser = parse_database_url)]
    pub database_url: Secret,
    /// Address of the database of the log, schema `event_store` [default: --database-url].
    #[arg(long, env = "LOG_DATABASE_URL", hide_env_values = true)]
    pub log_database_url: Option<Secret>,
}

/// Settings of the listener and of telemetry.
#[derive(Debug, Clone, Args)]
pub struct WebhooksListenConfig {
    #[command(flatten)]
    pub internal: WebhooksInternalListen,
    #[command(flatten)]
    pub telemetry: TelemetryConfig,
}

/// Address of the internal listener.
#[derive(Debug, Clone, Args)]
pub struct WebhooksInternalListen {
    /// Address of the internal listener (/livez, /readyz, /metrics); do not expose it to the internet.
    #[arg(
        id = "internal_listen",
        long = "internal-listen",
        value_name = "INTERNAL_LISTEN",
        env = "WEBHOOKS_INTERNAL_LISTEN",
        default_value = "127.0.0.1:9104"
    )]
    pub address: SocketAddr,
}

/// Sockets of the dispatcher as a separate process.
pub struct WebhooksListeners {
    /// Socket of probes and metrics; never reachable from outside.
    pub internal: TcpListener,
}

/// Parses the address of a proxy: nothing but scheme, host and port.
fn parse_proxy_url(text: &str) -> Result<Url, String> {
    let is_bare = |url: &Url| {
        let whole = format!("http://{}/", url.authority());
        url.as_str() == whole && url.username().is_empty() && url.password().is_none()
    };
    let url = Url::parse(text).ok().filter(is_bare);
    url.ok_or_else(|| "not an address such as http://proxy.internal:4750".to_owned())
}

impl LogDatabase {
    /// Returns the address of the log.
    pub fn log_url(&self) -> &str {
        let url = self.log_database_url.as_ref();
        url.unwrap_or(&self.database_url).reveal()
    }
}

impl WebhooksConfig {
    /// Reads the master keys.
    ///
    /// # Errors
    /// Returns an error if no file is named, the file cannot be read, or a line is not a key.
    pub fn master_keys(&self) -> anyhow::Result<MasterKeys> {
        let keys = self.webhooks.master_keys()?;
        keys.context(
            "no master keys of webhooks: set --webhook-keys-file (WEBHOOK_KEYS_FILE) to the file that command-api has",
        )
    }
}

impl WebhooksListenConfig {
    /// Opens the socket.
    ///
    /// # Errors
    /// Returns an error that names the address, if the socket cannot be opened.
    pub async fn listen(&self) -> anyhow::Result<WebhooksListeners> {
        Ok(WebhooksListeners {
            internal: listen(self.internal.address).await?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_is_a_host_and_a_port() {
        for url in [
            "http://proxy.internal:4750",
            "http://[fd00::1]:80/",
            "http://10.0.0.5",
        ] {
            assert!(parse_proxy_url(url).is_ok(), "{url}");
        }
        for url in [
            "proxy.internal:4750",
            "https://proxy.internal",
            "socks5://proxy.internal",
            "http://user:password@proxy.internal",
            "http://user@proxy.internal",
            "http://proxy.internal/path",
            "http://proxy.internal/?query",
            "",
        ] {
            assert!(parse_proxy_url(url).is_err(), "{url}");
        }
    }
}
