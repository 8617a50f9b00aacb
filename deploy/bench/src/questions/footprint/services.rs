//! The three services as processes, with a broker inside this process.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use linkledger_core::{cloud_event::TOPIC, shard::SHARD_COUNT};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rdkafka::{mocking::MockCluster, producer::DefaultProducerContext};
use tokio::{
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::{bench::BenchContext, load::HttpConnection};

const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of the readiness requests: the precision of the measured start time.
const READY_POLL_INTERVAL: Duration = Duration::from_millis(2);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Names of the services, in the order of their figures.
pub(super) const NAMES: [&str; 3] = ["command-api", "projector", "query-api"];

/// The three services, ready; killed when dropped.
pub(super) struct Services {
    each: [Service; 3],
    /// Address at which command-api accepts creates.
    pub(super) api: SocketAddr,
    /// Address at which query-api serves short links.
    pub(super) short_host: SocketAddr,
    /// The broker, which must live as long as the services.
    _broker: MockCluster<'static, DefaultProducerContext>,
}

struct Service {
    child: Child,
    ready_after: Duration,
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
        let start = async |name: &str, arguments: &[&str]| {
            let mut command = Command::new(bench.programs.path(name));
            command
                .args(arguments)
                .env("DATABASE_URL", database_url)
                .env("KAFKA_BROKERS", broker.bootstrap_servers())
                .env("GROUP_PROTOCOL", "consumer")
                .env("RATE_LIMIT", "0")
                .env("CURSOR_KEYS", "00".repeat(32))
                .env("NO_CLICKS", "true")
                .env("REDIRECT_CACHE_MIB", redirect_cache_mib.to_string())
                .env("RUST_LOG", "warn");
            let log = bench.server.data_dir().join(format!("{name}.log"));
            let started = Service::start(command, File::create(&log)?).await;
            started.with_context(|| {
                let log_text = fs::read_to_string(&log).unwrap_or_default();
                format!("{name} can't be started: {log_text}")
            })
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
        [0, 1, 2].map(|nth| self.each[nth].ready_after.as_secs_f64() * 1_000.0)
    }

    /// Returns the ids of the processes.
    pub(super) fn processes(&self) -> anyhow::Result<[Pid; 3]> {
        let [command_api, projector, query_api] = &self.each;
        Ok([command_api.pid()?, projector.pid()?, query_api.pid()?])
    }

    /// Stops the services with SIGTERM.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        for (name, mut service) in NAMES.into_iter().zip(self.each) {
            kill(service.pid()?, Signal::SIGTERM)?;
            let status = timeout(STOP_TIMEOUT, service.child.wait())
                .await
                .with_context(|| format!("{name} does not stop"))??;
            ensure!(status.success(), "{name} has ended with {status}");
        }
        Ok(())
    }
}

impl Service {
    async fn start(mut command: Command, log: File) -> anyhow::Result<Self> {
        let internal = free_address()?;
        let begun = Instant::now();
        let mut child = command
            .args(["--internal-listen", &internal.to_string()])
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        while !is_ready(internal).await {
            if let Some(status) = child.try_wait()? {
                bail!("the process has ended with {status}");
            }
            ensure!(
                begun.elapsed() < READY_TIMEOUT,
                "the process does not become ready within 30 s"
            );
            sleep(READY_POLL_INTERVAL).await;
        }
        Ok(Self {
            ready_after: begun.elapsed(),
            child,
        })
    }

    fn pid(&self) -> anyhow::Result<Pid> {
        let id = self.child.id().context("a service has ended")?;
        Ok(Pid::from_raw(i32::try_from(id)?))
    }
}

async fn is_ready(internal: SocketAddr) -> bool {
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {internal}\r\n\r\n");
    let answer = async {
        let mut connection = HttpConnection::open(internal).await?;
        Ok::<u16, std::io::Error>(connection.exchange(request.as_bytes()).await?.status)
    };
    let answer = timeout(READY_TIMEOUT, answer).await;
    matches!(answer, Ok(Ok(200)))
}

/// Returns an address that no process uses now.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
