//! Settings of the projector: each is a flag, an environment variable and a line of `--help`.

use std::net::SocketAddr;

use clap::Args;
use linkledger_service::{
    databases::DatabaseSettings,
    internal_listener::InternalHosts,
    kafka_config::{ClicksConfig, KafkaConfig},
    telemetry::TelemetryConfig,
};

/// Settings of `run`.
#[derive(Debug, Clone, Args)]
pub struct ProjectorSettings {
    #[command(flatten)]
    pub config: Config,
    #[command(flatten)]
    pub listen: ListenConfig,
}

/// Settings of the service.
#[derive(Debug, Clone, Args)]
pub struct Config {
    #[command(flatten)]
    pub databases: DatabaseSettings,
    /// Accept a Postgres that can lose acknowledged events in a crash: only for tests.
    #[arg(long, env = "ALLOW_UNSAFE_POSTGRES")]
    pub allow_unsafe_postgres: bool,
    #[command(flatten)]
    pub kafka: KafkaConfig,
    #[command(flatten)]
    pub clicks: ClicksConfig,
    /// Longest delay of a fetch without records, in milliseconds; a broker that does not wake a
    /// waiting fetch delays events by the same time.
    #[arg(long, env = "FETCH_WAIT_MAX_MS", default_value_t = 10,
          value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub fetch_wait_max_ms: u16,
    /// Maximum number of connections to each database.
    #[arg(long, env = "CONNECTIONS_MAX", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub connections_max: u32,
    #[command(flatten)]
    pub internal_hosts: InternalHosts,
}

/// Settings of listeners and telemetry.
#[derive(Debug, Clone, Args)]
pub struct ListenConfig {
    #[command(flatten)]
    pub internal: InternalListen,
    #[command(flatten)]
    pub telemetry: TelemetryConfig,
}

/// Address of the internal listener.
#[derive(Debug, Clone, Args)]
pub struct InternalListen {
    /// Address of the internal listener: /livez, /readyz, /metrics, and the operators' console, which
    /// has no authentication.
    #[arg(
        id = "internal_listen",
        long = "internal-listen",
        value_name = "INTERNAL_LISTEN",
        env = "PROJECTOR_INTERNAL_LISTEN",
        default_value = "127.0.0.1:9102"
    )]
    pub address: SocketAddr,
}
