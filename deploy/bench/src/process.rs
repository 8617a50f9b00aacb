//! A shipped service as a process of its own.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::PathBuf,
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
/// Interval at which the work of a service is looked at.
const WORK_POLL_INTERVAL: Duration = Duration::from_millis(5);
const WORK_TIMEOUT: Duration = Duration::from_mins(15);
/// Number of last lines of the log that an error message shows.
const LINES_SHOWN_MAX: usize = 20;

/// A running service; killed when dropped.
#[derive(Debug)]
pub struct ServiceProcess {
    name: String,
    child: Child,
    log: PathBuf,
    internal: SocketAddr,
    started: Instant,
}

impl ServiceProcess {
    /// Starts a program with these arguments and variables. The log has the name `name`.
    ///
    /// # Errors
    /// Returns an error if the process can't be started.
    pub fn start(
        bench: &BenchContext,
        (program, name): (&str, &str),
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let internal = free_address()?;
        let log = bench.server.data_dir().join(format!("{name}.log"));
        let started = Instant::now();
        let child = Command::new(bench.program(program))
            .args(arguments)
            .args(["--internal-listen", &internal.to_string()])
            .env("RUST_LOG", "warn")
            .envs(environment.iter().copied())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("can't start {name}"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log,
            internal,
            started,
        })
    }

    /// Waits until the service is ready, and returns the time since its start.
    ///
    /// # Errors
    /// Returns an error with the log if the service does not become ready.
    pub async fn until_ready(&mut self) -> anyhow::Result<Duration> {
        while !is_ready(self.internal).await {
            self.ensure_runs()?;
            ensure!(
                self.started.elapsed() < READY_TIMEOUT,
                "{} does not become ready within 30 s: {}",
                self.name,
                self.last_words()
            );
            sleep(READY_POLL_INTERVAL).await;
        }
        Ok(self.started.elapsed())
    }

    /// Returns the work of the service per second, from the first that is seen until `total` is
    /// done: without the time to start, which is the same for much and for little work. `done`
    /// reads the work done so far.
    ///
    /// # Errors
    /// Returns an error if the service ends, or if the work takes too long.
    pub async fn rate_until(
        &mut self,
        total: i64,
        mut done: impl AsyncFnMut() -> anyhow::Result<i64>,
    ) -> anyhow::Result<f64> {
        let mut first = None;
        loop {
            let work = done().await?;
            let now = Instant::now();
            if work > 0 {
                let (begun, had) = *first.get_or_insert((now, work));
                if work >= total {
                    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
                    return Ok((work - had) as f64 / (now - begun).as_secs_f64());
                }
            }
            self.ensure_runs()?;
            ensure!(
                self.started.elapsed() < WORK_TIMEOUT,
                "{}: {work} of {total} are done after {WORK_TIMEOUT:?}: {}",
                self.name,
                self.last_words()
            );
            sleep(WORK_POLL_INTERVAL).await;
        }
    }

    /// Returns the id of the process.
    ///
    /// # Errors
    /// Returns an error if the process has ended.
    pub fn pid(&self) -> anyhow::Result<Pid> {
        pid(&self.child, &self.name)
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
        let stopped = stop(&mut self.child, &self.name).await;
        stopped.with_context(|| self.last_words())
    }

    fn ensure_runs(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let (name, log) = (&self.name, self.last_words());
            bail!("{name} has ended with {status}: {log}");
        }
        Ok(())
    }

    /// Returns the last lines of the log, for an error message.
    fn last_words(&self) -> String {
        let log_text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log_text.lines().collect();
        lines[lines.len().saturating_sub(LINES_SHOWN_MAX)..].join("\n")
    }
}

/// Returns the id of a process.
pub(crate) fn pid(child: &Child, name: &str) -> anyhow::Result<Pid> {
    let id = child.id().with_context(|| format!("{name} has ended"))?;
    Ok(Pid::from_raw(i32::try_from(id)?))
}

/// Stops a process with SIGTERM.
pub(crate) async fn stop(child: &mut Child, name: &str) -> anyhow::Result<()> {
    kill(pid(child, name)?, Signal::SIGTERM)?;
    let status = timeout(STOP_TIMEOUT, child.wait())
        .await
        .with_context(|| format!("{name} does not stop within 30 s"))??;
    ensure!(status.success(), "{name} has ended with {status}");
    Ok(())
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
