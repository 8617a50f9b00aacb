//! The measured stack: the shipped binary `linkledger`, as a process.

use std::{
    collections::HashMap,
    fs::{self, File},
    net::SocketAddr,
    path::Path,
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, bail};
use linkledger_servers::free_address;
use nix::unistd::Pid;
use sqlx::{Connection as _, PgConnection};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::{
    bench::BenchContext,
    metrics,
    process::{self, ServiceProcess},
};

/// Timeout of the start; the first start with Apache Kafka downloads Apache Kafka.
const READY_TIMEOUT: Duration = Duration::from_mins(5);
const SETTLE_TIMEOUT: Duration = Duration::from_mins(1);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Kind of broker that the stack starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokerKind {
    /// The broker inside the process.
    Embedded,
    /// Apache Kafka, as a process of its own.
    Apache,
}

impl BrokerKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Apache => "apache",
        }
    }
}

/// A running stack; killed when dropped.
#[derive(Debug)]
pub struct StackProcess {
    child: Child,
    environment: HashMap<String, String>,
    /// Address of the API.
    pub api: SocketAddr,
    /// Address of the short host.
    pub short_host: SocketAddr,
}

impl StackProcess {
    /// Starts the stack on the database, without rate limits, and waits until the stack is ready.
    ///
    /// # Errors
    /// Returns an error with the log of the stack if the stack is not ready before the timeout.
    pub async fn start(
        bench: &BenchContext,
        database_url: &str,
        broker: BrokerKind,
    ) -> anyhow::Result<Self> {
        let folder = bench.server.data_dir().join("stack");
        // The API key in an existing folder would belong to an earlier database.
        if folder.exists() {
            fs::remove_dir_all(&folder).context("can't remove the stack's folder")?;
        }
        fs::create_dir_all(&folder)?;
        let log = folder.with_extension("log");
        let mut child = Command::new(bench.program("linkledger"))
            .args(["up", "--api-port", "0", "--short-port", "0"])
            .args(["--admin-port", "0", "--kafka", broker.name()])
            .args(["--database-url", database_url, "--data-dir"])
            .arg(&folder)
            .env("RUST_LOG", "warn")
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .kill_on_drop(true)
            .spawn()
            .context("can't start linkledger")?;
        let ready = timeout(READY_TIMEOUT, until_ready(&mut child)).await;
        if !matches!(ready, Ok(Ok(()))) {
            let log_text = fs::read_to_string(&log).unwrap_or_default();
            bail!("linkledger does not become ready within 5 min: {log_text}");
        }
        let environment = read_environment(&folder)?;
        Ok(Self {
            api: socket_address(variable(&environment, "API_URL")?)?,
            short_host: socket_address(variable(&environment, "SHORT_URL")?)?,
            environment,
            child,
        })
    }

    /// Returns a variable of the file `env` of the stack.
    ///
    /// # Errors
    /// Returns an error if there is no variable of this name.
    pub fn variable(&self, name: &str) -> anyhow::Result<&str> {
        variable(&self.environment, name)
    }

    /// Fetches the metrics of a service. `variable` is the name of the variable with the address
    /// (`COMMAND_METRICS_URL`, …).
    ///
    /// # Errors
    /// Returns an error if the service does not answer.
    pub async fn metrics(&self, variable: &str) -> anyhow::Result<String> {
        metrics::fetch(socket_address(self.variable(variable)?)?).await
    }

    /// Starts another command-api on the database and the broker of the stack. Returns the process
    /// and the address of its API.
    ///
    /// # Errors
    /// Returns an error if command-api does not become ready.
    pub async fn another_command_api(
        &self,
        bench: &BenchContext,
        number: usize,
    ) -> anyhow::Result<(ServiceProcess, SocketAddr)> {
        let name = format!("command-api-{number}");
        let api = free_address()?;
        let [listen, instance] = [api.to_string(), format!("bench-{number}")];
        let mut process = ServiceProcess::start(
            bench,
            ("command-api", &name),
            &["serve", "--api-listen", &listen, "--instance-id", &instance],
            &[
                ("DATABASE_URL", self.variable("DATABASE_URL")?),
                ("KAFKA_BROKERS", self.variable("KAFKA_BROKERS")?),
                ("RATE_LIMIT", "0"),
            ],
        )?;
        process.until_ready().await?;
        Ok((process, api))
    }

    /// Returns the id of the process.
    ///
    /// # Errors
    /// Returns an error if the process has ended.
    pub fn pid(&self) -> anyhow::Result<Pid> {
        process::pid(&self.child, "the stack")
    }

    /// Waits until all events are published and applied to the read tables.
    ///
    /// # Errors
    /// Returns an error if relay and projector do not catch up before the timeout.
    pub async fn until_settled(&self) -> anyhow::Result<()> {
        let mut connection = PgConnection::connect(self.variable("DATABASE_URL")?).await?;
        let settle = async {
            while !is_settled(&mut connection).await? {
                sleep(POLL_INTERVAL).await;
            }
            anyhow::Ok(())
        };
        timeout(SETTLE_TIMEOUT, settle)
            .await
            .context("relay and projector do not catch up within 1 min")??;
        Ok(connection.close().await?)
    }

    /// Stops the stack with SIGTERM.
    ///
    /// # Errors
    /// Returns an error if the stack does not end before the timeout, or ends with an error.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        process::stop(&mut self.child, "linkledger").await
    }
}

async fn is_settled(connection: &mut PgConnection) -> sqlx::Result<bool> {
    sqlx::query_scalar(
        "
        SELECT bool_and(head = all (
            SELECT position FROM event_store.relay_cursors WHERE shard = s.shard
            UNION ALL
            SELECT position FROM read_model.checkpoints WHERE shard = s.shard AND role = 'live'
        ))
        FROM event_store.log_shards AS s
        ",
    )
    .fetch_one(connection)
    .await
}

/// Reads the output of the stack up to the line `ready`. No process reads any later output.
async fn until_ready(child: &mut Child) -> anyhow::Result<()> {
    let stdout = child.stdout.as_mut().expect("it is piped");
    let mut lines = BufReader::new(stdout).lines();
    while let Some(line) = lines.next_line().await? {
        if line == "ready" {
            return Ok(());
        }
    }
    bail!("linkledger has ended")
}

/// Reads the file `env`: `NAME=value` lines, quoted for a shell if needed.
fn read_environment(folder: &Path) -> anyhow::Result<HashMap<String, String>> {
    let path = folder.join("env");
    let text =
        fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    Ok(text
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.trim_matches(['\'', '"']).to_owned()))
        .collect())
}

fn variable<'a>(environment: &'a HashMap<String, String>, name: &str) -> anyhow::Result<&'a str> {
    let value = environment.get(name).map(String::as_str);
    value.with_context(|| format!("the file env of the stack has no {name}"))
}

/// Parses the IP address and the port of `http://ip:port/…`.
///
/// # Errors
/// Returns an error if the address is not an IP address and a port.
pub fn socket_address(url: &str) -> anyhow::Result<SocketAddr> {
    let authority = url.trim_start_matches("http://");
    let authority = authority.split('/').next().unwrap_or_default();
    authority
        .parse()
        .with_context(|| format!("not an address like http://127.0.0.1:8080: {url}"))
}
