//! Settings of the projector: each is a flag, an environment variable and a line of `--help`.

use std::net::SocketAddr;

use clap::Args;
use linkledger_core::config::BaseUrl;
use linkledger_service::{
    databases::DatabaseSettings,
    internal_listener::AdminAllowedHosts,
    kafka_config::{ClicksConfig, KafkaConfig},
    lifecycle::listen,
    telemetry::TelemetryConfig,
};

use crate::ProjectorListeners;

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
    #[arg(long, env = "KAFKA_FETCH_WAIT_MAX_MS", default_value_t = 10,
          value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub kafka_fetch_wait_max_ms: u16,
    /// Maximum number of connections to each database.
    #[arg(long, env = "DATABASE_POOL_SIZE", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub database_pool_size: u32,
    /// Address at which clients reach the API.
    #[arg(long, env = "BASE_URL", default_value = "http://127.0.0.1:8080")]
    pub base_url: BaseUrl,
    #[command(flatten)]
    pub admin_allowed_hosts: AdminAllowedHosts,
}

/// Settings of listeners and telemetry.
#[derive(Debug, Clone, Args)]
pub struct ListenConfig {
    /// Address of the listener for the status and the followers of the admin API; never reachable from outside
    /// [default: no admin API].
    #[arg(long, env = "ADMIN_LISTEN")]
    pub admin_listen: Option<SocketAddr>,
    #[command(flatten)]
    pub internal: InternalListen,
    #[command(flatten)]
    pub telemetry: TelemetryConfig,
}

/// Address of the internal listener.
#[derive(Debug, Clone, Args)]
pub struct InternalListen {
    /// Address of the internal listener (/livez, /readyz, /metrics); do not expose it to the internet.
    #[arg(
        id = "internal_listen",
        long = "internal-listen",
        value_name = "INTERNAL_LISTEN",
        env = "PROJECTOR_INTERNAL_LISTEN",
        default_value = "127.0.0.1:9102"
    )]
    pub address: SocketAddr,
}

impl ListenConfig {
    /// Opens the sockets.
    ///
    /// # Errors
    /// Returns an error that names the address, if a socket cannot be opened.
    pub async fn listen(&self) -> anyhow::Result<ProjectorListeners> {
        Ok(ProjectorListeners {
            admin: match self.admin_listen {
                Some(address) => Some(listen(address).await?),
                None => None,
            },
            internal: listen(self.internal.address).await?,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        listen: ListenConfig,
    }

    async fn listeners(arguments: &str) -> ProjectorListeners {
        let arguments = std::iter::once("x").chain(arguments.split_whitespace());
        let cli = Cli::try_parse_from(arguments).unwrap();
        cli.listen.listen().await.unwrap()
    }

    #[tokio::test]
    async fn admin_api_needs_an_address() {
        let internal = "--internal-listen 127.0.0.1:0";
        assert!(listeners(internal).await.admin.is_none());
        let with_admin = format!("{internal} --admin-listen 127.0.0.1:0");
        assert!(listeners(&with_admin).await.admin.is_some());
    }
}
