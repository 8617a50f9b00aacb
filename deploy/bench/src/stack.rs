//! The stack that is measured: the shipped binary `linkledger`, a process of its own.

use std::{
    collections::HashMap,
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use sqlx::{Connection as _, PgConnection};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::{bench::Bench, load::Connection};

/// Apache Kafka's first start fetches it.
const READY_TIMEOUT: Duration = Duration::from_mins(5);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const SETTLE_TIMEOUT: Duration = Duration::from_mins(1);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The broker that the stack starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broker {
    /// Inside the process.
    Embedded,
    /// Apache Kafka, a process of its own.
    Apache,
}

/// A running stack; killed when dropped.
#[derive(Debug)]
pub struct Stack {
    child: Child,
    environment: HashMap<String, String>,
    /// Where the API is.
    pub api: SocketAddr,
    /// Where short links are served.
    pub short_host: SocketAddr,
}

impl Stack {
    /// Starts it on the database of that address, without rate limits, and waits until it is ready.
    ///
    /// # Errors
    /// What it has said when it was not ready in time.
    pub async fn start(bench: &Bench, database_url: &str, broker: Broker) -> anyhow::Result<Self> {
        let folder = bench.server.data_dir().join("stack");
        // Its demo key belongs to the database of before.
        if folder.exists() {
            fs::remove_dir_all(&folder).context("can't remove the stack's folder")?;
        }
        fs::create_dir_all(&folder)?;
        let log = folder.with_extension("log");
        let mut child = Command::new(bench.programs.path("linkledger"))
            .args(["up", "--api-port", "0", "--short-port", "0"])
            .args(["--database-url", database_url, "--data-dir"])
            .arg(&folder)
            .args(match broker {
                Broker::Embedded => ["--kafka", "embedded"],
                Broker::Apache => ["--kafka", "apache"],
            })
            .env("RUST_LOG", "warn")
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .kill_on_drop(true)
            .spawn()
            .context("can't start linkledger")?;
        let ready = timeout(READY_TIMEOUT, until_ready(&mut child)).await;
        if !matches!(ready, Ok(Ok(()))) {
            let said = fs::read_to_string(&log).unwrap_or_default();
            bail!("linkledger does not become ready: {said}");
        }
        let environment = read_environment(&folder)?;
        Ok(Self {
            api: address(&environment, "API_URL")?,
            short_host: address(&environment, "SHORT_URL")?,
            environment,
            child,
        })
    }

    /// A variable of its env file.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn variable(&self, name: &str) -> anyhow::Result<&str> {
        let value = self.environment.get(name);
        value
            .map(String::as_str)
            .with_context(|| format!("the stack tells no {name}"))
    }

    /// All variables of its env file, with which the other programs work against it.
    pub fn environment(&self) -> &HashMap<String, String> {
        &self.environment
    }

    /// What a service tells of itself: the text of its metrics, found by the variable of its
    /// address (`COMMAND_METRICS_URL`, …).
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn metrics(&self, variable: &str) -> anyhow::Result<String> {
        let address = address(&self.environment, variable)?;
        let mut connection = Connection::open(address).await?;
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n");
        let response = connection.exchange(request.as_bytes()).await?;
        Ok(String::from_utf8_lossy(response.body).into_owned())
    }

    /// Its process.
    ///
    /// # Errors
    /// When it has ended.
    pub fn pid(&self) -> anyhow::Result<Pid> {
        let id = self.child.id().context("the stack has ended")?;
        Ok(Pid::from_raw(i32::try_from(id)?))
    }

    /// Lets it stand still after `wait`, for `held`: a stall that a load must show.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn freeze(&self, wait: Duration, held: Duration) -> anyhow::Result<()> {
        let pid = self.pid()?;
        sleep(wait).await;
        kill(pid, Signal::SIGSTOP)?;
        sleep(held).await;
        Ok(kill(pid, Signal::SIGCONT)?)
    }

    /// Waits until everything that was created is published, and visible in the read tables.
    ///
    /// # Errors
    /// When that does not come about.
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
            .context("relay and projector do not catch up")??;
        Ok(connection.close().await?)
    }

    /// Stops it as an operator would.
    ///
    /// # Errors
    /// When it does not end in time, or not well.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        kill(self.pid()?, Signal::SIGTERM)?;
        let status = timeout(STOP_TIMEOUT, self.child.wait())
            .await
            .context("linkledger does not stop")??;
        if status.success() {
            Ok(())
        } else {
            bail!("linkledger has ended with {status}")
        }
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

/// Reads what it prints, up to the line `ready`; the rest is read by nobody, and is nothing.
async fn until_ready(child: &mut Child) -> anyhow::Result<()> {
    let stdout = child.stdout.as_mut().expect("it is piped");
    let mut lines = BufReader::new(stdout).lines();
    while let Some(line) = lines.next_line().await? {
        if line == "ready" {
            return Ok(());
        }
    }
    bail!("it has ended")
}

/// The file `env`: `NAME=value` lines, quoted for a shell where that is needed.
fn read_environment(folder: &Path) -> anyhow::Result<HashMap<String, String>> {
    let path: PathBuf = folder.join("env");
    let text =
        fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    Ok(text
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.trim_matches(['\'', '"']).to_owned()))
        .collect())
}

fn address(environment: &HashMap<String, String>, name: &str) -> anyhow::Result<SocketAddr> {
    let url = environment
        .get(name)
        .with_context(|| format!("the stack tells no {name}"))?;
    socket_address(url).with_context(|| format!("of {name}"))
}

/// The address of `http://ip:port/…`.
///
/// # Errors
/// When it is none of that kind.
pub fn socket_address(url: &str) -> anyhow::Result<SocketAddr> {
    let authority = url.trim_start_matches("http://");
    let authority = authority.split('/').next().unwrap_or_default();
    authority
        .parse()
        .with_context(|| format!("not an address like http://127.0.0.1:8080: {url}"))
}
