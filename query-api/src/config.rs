//! The settings of query-api; each is a flag and an environment variable.

use std::net::SocketAddr;

use axum::http::StatusCode;
use linkledger_core::config::{BaseUrl, HostName, Origin, Secret};
use linkledger_http::authentication::KEYS_CACHED_MAX;
use linkledger_service::{
    databases::DatabaseSettings, internal_listener::AdminAllowedHosts, lifecycle::listen,
    telemetry::TelemetryConfig,
};

use crate::{QueryApiListeners, clicks::ClickSettings};

/// All settings of `serve`.
#[derive(Debug, Clone, clap::Args)]
pub struct QueryApiSettings {
    #[command(flatten)]
    pub config: QueryApiConfig,
    #[command(flatten)]
    pub listen: QueryApiListenConfig,
}

/// Settings of query-api itself, without addresses to listen on and logging.
#[derive(Debug, Clone, clap::Args)]
pub struct QueryApiConfig {
    #[command(flatten)]
    pub databases: DatabaseSettings,
    /// Addresses of streaming replicas of the database of the read tables, separated by commas: they
    /// answer reads of the API; none by default.
    #[arg(
        long,
        env = "READ_REPLICA_URLS",
        hide_env_values = true,
        value_delimiter = ','
    )]
    pub read_replica_urls: Vec<Secret>,
    /// Accept a Postgres that can lose acknowledged events in a crash: only for tests.
    #[arg(long, env = "ALLOW_UNSAFE_POSTGRES")]
    pub allow_unsafe_postgres: bool,
    /// Address at which clients reach the API.
    #[arg(long, env = "BASE_URL", default_value = "http://127.0.0.1:8080")]
    pub base_url: BaseUrl,
    /// Address at which visitors reach short links.
    #[arg(long, env = "SHORT_BASE_URL", default_value = "http://127.0.0.1:8081")]
    pub short_base_url: BaseUrl,
    /// Further names of the hosts of `BASE_URL` and `SHORT_BASE_URL`, without ports, separated by commas; any other name is
    /// answered 421.
    #[arg(long, env = "ALLOWED_HOSTS", value_delimiter = ',')]
    pub allowed_hosts: Vec<HostName>,
    /// Maximum number of requests per second of each account, counted in this process; 0 for no
    /// limit.
    #[arg(long, env = "RATE_LIMIT", default_value_t = 100)]
    pub rate_limit: u32,
    /// Origins whose pages may call the API from a browser, separated by commas, such as
    /// <https://app.example.com>; none by default.
    #[arg(long, env = "CORS_ALLOWED_ORIGINS", value_delimiter = ',')]
    pub cors_allowed_origins: Vec<Origin>,
    /// Status of a redirect: 301, 302, 307 or 308.
    #[arg(long, env = "REDIRECT_STATUS", default_value = "302", value_parser = redirect_status)]
    pub redirect_status: StatusCode,
    /// Memory for redirects that are answered without the database, in MiB; 0 for none.
    #[arg(long, env = "REDIRECT_CACHE_MIB", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u32).range(..=65_536))]
    pub redirect_cache_mib: u32,
    /// Maximum staleness of a redirect from memory, in milliseconds, from 500 to 3600000. Without the database,
    /// links in memory redirect for this time; a process that alone cannot read changes follows changed,
    /// deleted and stopped links to their old destinations as long.
    #[arg(long, env = "REDIRECT_STALENESS_MAX_MS", default_value_t = 500)]
    #[arg(value_parser = clap::value_parser!(u32).range(500..=3_600_000))]
    pub redirect_staleness_max_ms: u32,
    /// Maximum number of connections of the API to each database; redirects have up to 6 more, statistics of
    /// clicks, histories of links, feeds of events and the admin API up to 4 more each.
    #[arg(long, env = "DATABASE_POOL_SIZE", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub database_pool_size: u32,
    /// Maximum number of API keys that are remembered for 5 s: at least the number of keys in use at the
    /// same time, of about 250 bytes each.
    #[arg(long, env = "API_KEYS_CACHED_MAX", default_value_t = KEYS_CACHED_MAX)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub api_keys_cached_max: u32,
    #[command(flatten)]
    pub clicks: ClickSettings,
    #[command(flatten)]
    pub admin_allowed_hosts: AdminAllowedHosts,
}

/// Addresses of the listeners of a separate process, and its logging.
#[derive(Debug, Clone, clap::Args)]
pub struct QueryApiListenConfig {
    /// Address of the API's listener.
    #[arg(long, env = "QUERY_API_LISTEN", default_value = "127.0.0.1:8083")]
    pub api_listen: SocketAddr,
    /// Address of the listener for short links.
    #[arg(long, env = "QUERY_SHORT_LISTEN", default_value = "127.0.0.1:8084")]
    pub short_listen: SocketAddr,
    /// Address of the listener for the reads of the admin API; never reachable from outside [default: no admin API].
    #[arg(long, env = "ADMIN_LISTEN")]
    pub admin_listen: Option<SocketAddr>,
    #[command(flatten)]
    pub internal: QueryApiInternalListen,
    #[command(flatten)]
    pub telemetry: TelemetryConfig,
}

/// Address of the internal listener.
#[derive(Debug, Clone, clap::Args)]
pub struct QueryApiInternalListen {
    /// Address of the internal listener (/livez, /readyz, /metrics); do not expose it to the internet.
    #[arg(
        id = "internal_listen",
        long = "internal-listen",
        value_name = "INTERNAL_LISTEN",
        env = "QUERY_INTERNAL_LISTEN",
        default_value = "127.0.0.1:9103"
    )]
    pub address: SocketAddr,
}

impl QueryApiListenConfig {
    /// Opens the sockets.
    ///
    /// # Errors
    /// Returns an error that names the address, if a socket cannot be opened.
    pub async fn listen(&self) -> anyhow::Result<QueryApiListeners> {
        Ok(QueryApiListeners {
            api: listen(self.api_listen).await?,
            short_host: listen(self.short_listen).await?,
            admin: match self.admin_listen {
                Some(address) => Some(listen(address).await?),
                None => None,
            },
            internal: listen(self.internal.address).await?,
        })
    }
}

/// Parses an HTTP status that makes a client follow `Location`.
fn redirect_status(text: &str) -> Result<StatusCode, &'static str> {
    match text {
        "301" => Ok(StatusCode::MOVED_PERMANENTLY),
        "302" => Ok(StatusCode::FOUND),
        "307" => Ok(StatusCode::TEMPORARY_REDIRECT),
        "308" => Ok(StatusCode::PERMANENT_REDIRECT),
        _ => Err("not one of 301, 302, 307, 308"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirect_cache_size_over_64_gib_is_rejected() {
        #[derive(clap::Parser)]
        struct Cli {
            #[command(flatten)]
            config: QueryApiConfig,
        }
        let parse = |mib: &str| {
            let required = "query-api --database-url x --redirect-cache-mib";
            let arguments = required.split(' ').chain([mib]);
            let parsed = <Cli as clap::Parser>::try_parse_from(arguments);
            parsed.map(|cli| cli.config.redirect_cache_mib)
        };
        assert_eq!(parse("0").unwrap(), 0);
        assert_eq!(parse("65536").unwrap(), 65_536);
        let error = parse("65537").unwrap_err().to_string();
        assert!(error.contains("65537 is not in 0..=65536"), "{error}");
    }

    #[test]
    fn other_redirect_statuses_are_rejected() {
        assert_eq!(redirect_status("302"), Ok(StatusCode::FOUND));
        assert_eq!(redirect_status("308"), Ok(StatusCode::PERMANENT_REDIRECT));
        for text in ["", "300", "303", "304", "200", "+302"] {
            assert!(redirect_status(text).is_err(), "{text}");
        }
    }
}
