//! The settings of command-api: each is a flag, an environment variable and a line of `--help`.

use std::net::SocketAddr;

use clap::Args;
use linkledger_core::{
    config::{BaseUrl, Origin, Secret},
    kafka_config::KafkaConfig,
    telemetry::TelemetryConfig,
};

/// How to reach the event store.
#[derive(Debug, Clone, Args)]
pub struct DatabaseConfig {
    /// Address of the Postgres database: postgres://user:password@host:port/name.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Secret,
}

/// All settings of `serve`.
#[derive(Debug, Clone, Args)]
pub struct Settings {
    #[command(flatten)]
    pub config: Config,
    #[command(flatten)]
    pub listen: ListenConfig,
}

/// What the service does.
#[derive(Debug, Clone, Args)]
pub struct Config {
    #[command(flatten)]
    pub database: DatabaseConfig,
    /// Address of the same database for the relay, with a user of its own: the one moves cursors
    /// and the other appends events, and neither can do both [default: the address above].
    #[arg(long, env = "RELAY_DATABASE_URL", hide_env_values = true)]
    pub relay_database_url: Option<Secret>,
    /// Work on a Postgres that can lose the log when its machine crashes, since it does not wait
    /// for the disk: for tests. Each start warns of it.
    #[arg(long, env = "ALLOW_UNSAFE_POSTGRES")]
    pub allow_unsafe_postgres: bool,
    #[command(flatten)]
    pub kafka: KafkaConfig,
    /// How records are compressed on their way to Kafka: lz4 or none.
    #[arg(long, env = "KAFKA_COMPRESSION", default_value = "lz4", value_parser = ["lz4", "none"])]
    pub kafka_compression: String,
    /// For how long the relay collects between two batches under load, in milliseconds; while
    /// little comes, 5 at most.
    #[arg(long, env = "RELAY_BATCH_INTERVAL_MS", default_value_t = 5,
          value_parser = clap::value_parser!(u16).range(..=1_000))]
    pub relay_batch_interval_ms: u16,
    /// Address under which clients reach the API.
    #[arg(long, env = "BASE_URL", default_value = "http://127.0.0.1:8080")]
    pub base_url: BaseUrl,
    /// Address under which short links are served.
    #[arg(long, env = "SHORT_BASE_URL", default_value = "http://127.0.0.1:8081")]
    pub short_base_url: BaseUrl,
    /// Price of a link, in credits.
    #[arg(long, env = "LINK_PRICE", default_value_t = 1,
          value_parser = clap::value_parser!(i64).range(0..))]
    pub link_price: i64,
    /// Write requests per second of each account, counted in this process; 0 for no limit.
    #[arg(long, env = "RATE_LIMIT", default_value_t = 100)]
    pub rate_limit: u32,
    /// Origins whose pages may call the API from a browser, separated by commas, such as
    /// <https://app.example.com>; none by default.
    #[arg(long, env = "CORS_ALLOWED_ORIGINS", value_delimiter = ',')]
    pub cors_allowed_origins: Vec<Origin>,
    /// Batches that may be under way at once. Few writers beat many on few cores.
    #[arg(long, env = "WRITERS", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    pub writers: u16,
    /// Name of this process among those that relay events: its own while it runs, and the same
    /// after a restart [default: the host's name].
    #[arg(long, env = "INSTANCE_ID")]
    pub instance_id: Option<String>,
}

impl Config {
    /// Where the relay's sessions are.
    pub fn relay_database_url(&self) -> &str {
        let url = self.relay_database_url.as_ref();
        url.unwrap_or(&self.database.database_url).reveal()
    }
}

/// Where the service listens, and how it logs.
#[derive(Debug, Clone, Args)]
pub struct ListenConfig {
    /// Address of the API's listener.
    #[arg(long, env = "COMMAND_API_LISTEN", default_value = "127.0.0.1:8082")]
    pub api_listen: SocketAddr,
    #[command(flatten)]
    pub internal: InternalListen,
    #[command(flatten)]
    pub telemetry: TelemetryConfig,
}

/// Where the service answers those who watch it.
#[derive(Debug, Clone, Args)]
pub struct InternalListen {
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
