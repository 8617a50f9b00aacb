//! The settings of command-api: each is a flag, an environment variable and a line of `--help`.

use std::net::SocketAddr;

use clap::Args;
use linkledger_core::{
    config::{BaseUrl, HostName, Origin, Secret, parse_database_url},
    credits::LINK_PRICE_MAX,
    link::{DestinationHosts, DestinationSchemes},
};
use linkledger_http::authentication::KEYS_CACHED_MAX;
use linkledger_service::{
    internal_listener::AdminAllowedHosts,
    kafka_config::{ClicksConfig, KafkaConfig},
    telemetry::TelemetryConfig,
    webhook_config::WebhookConfig,
};

/// Address of the event store.
#[derive(Debug, Clone, Args)]
pub struct DatabaseConfig {
    /// Address of the Postgres database: postgres://user:password@host:port/name; `-` reads it from
    /// standard input.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_parser = parse_database_url)]
    pub database_url: Secret,
    /// Address of the database of the log, schema `event_store` [default: --database-url].
    #[arg(long, env = "LOG_DATABASE_URL", hide_env_values = true)]
    pub log_database_url: Option<Secret>,
}

impl DatabaseConfig {
    /// Returns the address of the log.
    pub fn log_url(&self) -> &str {
        let url = self.log_database_url.as_ref();
        url.unwrap_or(&self.database_url).reveal()
    }
}

/// All settings of `serve`.
#[derive(Debug, Clone, Args)]
pub struct CommandApiSettings {
    #[command(flatten)]
    pub config: CommandApiConfig,
    /// Checked by `doctor`; the service itself has no use for them.
    #[command(flatten)]
    pub clicks: ClicksConfig,
    #[command(flatten)]
    pub listen: CommandApiListenConfig,
}

/// Settings of command-api itself, without addresses to listen on and logging.
#[derive(Debug, Clone, Args)]
pub struct CommandApiConfig {
    #[command(flatten)]
    pub database: DatabaseConfig,
    /// Address of the same database for the relay, with a user that moves cursors and cannot append
    /// events [default: the address of the log].
    #[arg(long, env = "RELAY_DATABASE_URL", hide_env_values = true)]
    pub relay_database_url: Option<Secret>,
    /// Accept a Postgres that can lose acknowledged events in a crash: only for tests.
    #[arg(long, env = "ALLOW_UNSAFE_POSTGRES")]
    pub allow_unsafe_postgres: bool,
    #[command(flatten)]
    pub kafka: KafkaConfig,
    /// Compression of records sent to Kafka.
    #[arg(long, env = "KAFKA_COMPRESSION", default_value = "lz4", value_parser = ["lz4", "none"])]
    pub kafka_compression: String,
    /// Longest interval between the starts of two batches of the relay, in milliseconds. The interval
    /// grows with the rate of events, from 5 (or this value, if lower) up to this value.
    #[arg(long, env = "RELAY_BATCH_INTERVAL_MS", default_value_t = 5,
          value_parser = clap::value_parser!(u16).range(..=1_000))]
    pub relay_batch_interval_ms: u16,
    /// Address at which clients reach the API.
    #[arg(long, env = "BASE_URL", default_value = "http://127.0.0.1:8080")]
    pub base_url: BaseUrl,
    /// Address at which visitors reach short links.
    #[arg(long, env = "SHORT_BASE_URL", default_value = "http://127.0.0.1:8081")]
    pub short_base_url: BaseUrl,
    /// Schemes of destinations, separated by commas: https, and any of http, mailto, tel, sms and the schemes of
    /// apps. Never javascript, vbscript, data, file, blob, about or view-source. Of addresses with other schemes than
    /// http and https only the characters are checked: one such as intent may lead to any other address.
    #[arg(long, env = "DESTINATION_SCHEMES", default_value_t)]
    pub destination_schemes: DestinationSchemes,
    /// Hosts of destinations: `public`, or `any` for an intranet, whose links may lead to IP addresses, local names
    /// and all ports.
    #[arg(long, env = "DESTINATION_HOSTS", default_value_t)]
    pub destination_hosts: DestinationHosts,
    /// Further names of the hosts of `BASE_URL` and `SHORT_BASE_URL`, without ports, separated by commas; any other name is
    /// answered 421.
    #[arg(long, env = "ALLOWED_HOSTS", value_delimiter = ',')]
    pub allowed_hosts: Vec<HostName>,
    /// Price of a link, in credits.
    #[arg(long, env = "LINK_PRICE", default_value_t = 1,
          value_parser = clap::value_parser!(i64).range(0..=LINK_PRICE_MAX))]
    pub link_price: i64,
    /// Maximum number of requests per second of each account, counted in this process; 0 for no
    /// limit.
    #[arg(long, env = "RATE_LIMIT", default_value_t = 100)]
    pub rate_limit: u32,
    /// Origins whose pages may call the API from a browser, separated by commas, such as
    /// <https://app.example.com>; none by default.
    #[arg(long, env = "CORS_ALLOWED_ORIGINS", value_delimiter = ',')]
    pub cors_allowed_origins: Vec<Origin>,
    /// Number of writers; each commits one group of commands at a time. On a machine with few cores,
    /// few writers are faster than many.
    #[arg(long, env = "WRITER_THREADS", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    pub writer_threads: u16,
    /// Name of this process among all processes that relay events: unique, and the same after a
    /// restart [default: the host's name].
    #[arg(long, env = "INSTANCE_ID")]
    pub instance_id: Option<String>,
    /// Maximum number of API keys that are remembered for 5 s: at least the number of keys in use at the
    /// same time, of about 250 bytes each.
    #[arg(long, env = "API_KEYS_CACHED_MAX", default_value_t = KEYS_CACHED_MAX)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub api_keys_cached_max: u32,
    #[command(flatten)]
    pub admin_allowed_hosts: AdminAllowedHosts,
    #[command(flatten)]
    pub webhooks: WebhookConfig,
}

impl CommandApiConfig {
    /// Returns the address of the database for the relay.
    pub fn relay_database_url(&self) -> &str {
        let url = self.relay_database_url.as_ref();
        url.map_or_else(|| self.database.log_url(), Secret::reveal)
    }
}

/// Addresses of the listeners, and the logging.
#[derive(Debug, Clone, Args)]
pub struct CommandApiListenConfig {
    /// Address of the API's listener.
    #[arg(long, env = "COMMAND_API_LISTEN", default_value = "127.0.0.1:8082")]
    pub api_listen: SocketAddr,
    /// Address of the listener for the writes of the admin API; never reachable from outside [default: no admin API].
    #[arg(long, env = "ADMIN_LISTEN")]
    pub admin_listen: Option<SocketAddr>,
    #[command(flatten)]
    pub internal: CommandApiInternalListen,
    #[command(flatten)]
    pub telemetry: TelemetryConfig,
}

/// Address of the internal listener.
#[derive(Debug, Clone, Args)]
pub struct CommandApiInternalListen {
    /// Address of the internal listener: /livez, /readyz, /metrics.
    #[arg(
        id = "internal_listen",
        long = "internal-listen",
        value_name = "INTERNAL_LISTEN",
        env = "COMMAND_INTERNAL_LISTEN",
        default_value = "127.0.0.1:9101"
    )]
    pub address: SocketAddr,
}
