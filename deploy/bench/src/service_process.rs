//! A shipped service as a process of its own.

use std::{
    fs::{self, File},
    net::SocketAddr,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use linkledger_servers::free_address;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::{bench::BenchContext, load::HttpConnection, metrics};

const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of the readiness requests: the precision of the measured start time.
const READY_POLL_INTERVAL: Duration = Duration::from_millis(2);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// A running service; killed when dropped.
#[derive(Debug)]
pub struct ServiceProcess {
    name: &'static str,
    child: Child,
    internal: SocketAddr,
    ready_after: Duration,
}

impl ServiceProcess {
    /// Starts a program with these arguments and variables, and waits until the service is ready.
    /// The log has the name of the service.
    ///
    /// # Errors
    /// Returns an error with the log if the service does not become ready.
    pub async fn start(
        bench: &BenchContext,
        (program, name): (&str, &'static str),
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let internal = free_address()?;
        let mut command = Command::new(bench.programs.path(program));
        command
            .args(arguments)
            .args(["--internal-listen", &internal.to_string()])
            .envs(environment.iter().copied())
            .env("RUST_LOG", "warn");
        let log = bench.server.data_dir().join(format!("{name}.log"));
        let started = until_ready(command, File::create(&log)?, internal).await;
        let (child, ready_after) = started.with_context(|| {
            let log_text = fs::read_to_string(&log).unwrap_or_default();
            format!("{name} can't be started: {log_text}")
        })?;
        Ok(Self {
            name,
            child,
            internal,
            ready_after,
        })
    }

    /// Returns the time from the start to the first readiness.
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// Returns the id of the process.
    ///
    /// # Errors
    /// Returns an error if the process has ended.
    pub fn pid(&self) -> anyhow::Result<Pid> {
        let id = self.child.id();
        let id = id.with_context(|| format!("{} has ended", self.name))?;
        Ok(Pid::from_raw(i32::try_from(id)?))
    }

    /// Fetches the metrics of the service.
    ///
    /// # Errors
    /// Returns an error if the service does not answer.
    pub async fn metrics(&self) -> anyhow::Result<String> {
        metrics::fetch(self.internal).await
    }

    /// Stops the service with SIGTERM.
    ///
    /// # Errors
    /// Returns an error if the service does not end before the timeout, or ends with an error.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let name = self.name;
        kill(self.pid()?, Signal::SIGTERM)?;
        let status = timeout(STOP_TIMEOUT, self.child.wait())
            .await
            .with_context(|| format!("{name} does not stop"))??;
        ensure!(status.success(), "{name} has ended with {status}");
        Ok(())
    }
}

async fn until_ready(
    mut command: Command,
    log: File,
    internal: SocketAddr,
) -> anyhow::Result<(Child, Duration)> {
    let begun = Instant::now();
    let mut child = command
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
    Ok((child, begun.elapsed()))
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
