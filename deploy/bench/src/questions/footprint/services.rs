//! The three services as processes, with a broker inside this process.

use std::net::SocketAddr;

use anyhow::Context as _;
use linkledger_core::{cloud_event::TOPIC, shard::SHARD_COUNT};
use linkledger_servers::free_address;
use nix::unistd::Pid;
use rdkafka::{mocking::MockCluster, producer::DefaultProducerContext};

use crate::{bench::BenchContext, service_process::ServiceProcess};

/// Names of the services, in the order of their figures.
pub(super) const NAMES: [&str; 3] = ["command-api", "projector", "query-api"];

/// The three services, ready; killed when dropped.
pub(super) struct Services {
    each: [ServiceProcess; 3],
    /// Address at which command-api accepts creates.
    pub(super) api: SocketAddr,
    /// Address at which query-api serves short links.
    pub(super) short_host: SocketAddr,
    /// The broker, which must live as long as the services.
    _broker: MockCluster<'static, DefaultProducerContext>,
}

impl Services {
    /// Starts the services one after the other on the database.
    pub(super) async fn start(
        bench: &BenchContext,
        database_url: &str,
        redirect_cache_mib: u32,
    ) -> anyhow::Result<Self> {
        let broker = MockCluster::new(1).context("can't start the Kafka broker")?;
        broker
            .create_topic(TOPIC, i32::from(SHARD_COUNT), 1)
            .context("can't create the topic")?;
        let [api, reads, short_host] = [free_address()?, free_address()?, free_address()?];
        let cache_mib = redirect_cache_mib.to_string();
        let environment = [
            ("DATABASE_URL", database_url),
            ("KAFKA_BROKERS", &broker.bootstrap_servers()),
            ("RATE_LIMIT", "0"),
            ("NO_CLICKS", "true"),
            ("REDIRECT_CACHE_MIB", &cache_mib),
        ];
        let start = async |name: &'static str, arguments: &[&str]| {
            ServiceProcess::start(bench, (name, name), arguments, &environment).await
        };
        let listen = |address: SocketAddr| address.to_string();
        let each = [
            start("command-api", &["serve", "--api-listen", &listen(api)]).await?,
            start("projector", &["run"]).await?,
            start(
                "query-api",
                &[
                    "serve",
                    "--api-listen",
                    &listen(reads),
                    "--short-listen",
                    &listen(short_host),
                ],
            )
            .await?,
        ];
        Ok(Self {
            each,
            api,
            short_host,
            _broker: broker,
        })
    }

    /// Returns the time of each service from its start to the first readiness, in milliseconds.
    pub(super) fn ready_after_ms(&self) -> [f64; 3] {
        [0, 1, 2].map(|nth| self.each[nth].ready_after().as_secs_f64() * 1_000.0)
    }

    /// Returns the ids of the processes.
    pub(super) fn processes(&self) -> anyhow::Result<[Pid; 3]> {
        let [command_api, projector, query_api] = &self.each;
        Ok([command_api.pid()?, projector.pid()?, query_api.pid()?])
    }

    /// Stops the services with SIGTERM.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        for service in self.each {
            service.stop().await?;
        }
        Ok(())
    }
}
