//! The settings of the projector: each is a flag, an environment variable and a line of `--help`.

use std::net::SocketAddr;

use clap::Args;
use linkledger_core::{config::Secret, kafka_config::KafkaConfig, telemetry::TelemetryConfig};

use crate::consumer::GroupProtocol;

/// What the service does.
#[derive(Debug, Clone, Args)]
pub struct Config {
    /// Address of the Postgres database: postgres://user:password@host:port/name.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Secret,
    #[command(flatten)]
    pub kafka: KafkaConfig,
    /// Consumer group whose members share the partitions of the topic.
    #[arg(long, env = "GROUP_ID", default_value = "linkledger-projector")]
    pub group_id: String,
    /// How the members of the group come to share them.
    #[arg(long, env = "GROUP_PROTOCOL", value_enum, default_value = "classic")]
    pub group_protocol: GroupProtocol,
    /// Most connections to the database.
    #[arg(long, env = "CONNECTIONS_MAX", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub connections_max: u32,
}

/// Where the service listens, and how it logs.
#[derive(Debug, Clone, Args)]
pub struct ListenConfig {
    /// Address of the internal listener: /livez, /readyz, /metrics.
    #[arg(
        long,
        env = "PROJECTOR_INTERNAL_LISTEN",
        default_value = "127.0.0.1:9102"
    )]
    pub internal_listen: SocketAddr,
    #[command(flatten)]
    pub telemetry: TelemetryConfig,
}
