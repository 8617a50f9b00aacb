//! An Apache Kafka on this machine: one broker process that can be started, stopped, killed and
//! restarted. The setup is in `deploy/kafka`; the program contains the files of that folder.
//!
//! The broker ends with the process that started the broker, even if that process is killed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Child,
    time::Duration,
};

use anyhow::Context as _;
use nix::{
    errno::Errno,
    fcntl::Flock,
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::time::Instant;

use crate::local_server::{PORT_ATTEMPTS_MAX, RunLog, free_port, lock};

mod launcher;
mod left_over;
#[cfg(test)]
mod tests;
mod watchdog;

use launcher::Launcher;
use watchdog::Watchdog;

/// Timeout of the download: some 100 MB the first time, nothing later.
const FETCH_TIMEOUT: Duration = Duration::from_mins(10);
/// Timeout of a start, including the recovery after a crash. A start usually takes 3 s.
const READY_TIMEOUT: Duration = Duration::from_mins(3);
const READY_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Timeout of a stop, after which the broker is killed; no record is lost. A stop usually takes 0.5 s.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(20);
const DEATH_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// File with the port of the last start, which the next start prefers.
const PORT_FILE: &str = "port";

/// Data folder of a broker, and the differences from `deploy/kafka/server.properties`.
#[derive(Debug, Clone, Default)]
pub struct ApacheKafkaOptions {
    /// Folder of data, settings and log. `None` means a temporary folder, removed at the end.
    pub data_dir: Option<PathBuf>,
    /// Settings that override `server.properties`. The name of the listener for clients is `CLIENT`.
    pub settings: Vec<(String, String)>,
    /// Arguments of Kafka's storage tool for an empty folder, such as `--add-scram`.
    pub format_arguments: Vec<String>,
}

/// A broker process, killed when this value is dropped.
///
/// The value needs no Tokio runtime between calls, so tests with a runtime each can share a broker.
#[derive(Debug)]
pub struct ApacheKafka {
    launcher: Launcher,
    port: u16,
    child: Child,
    watchdog: Watchdog,
    _lock: Flock<fs::File>,
}

impl ApacheKafka {
    /// Starts a broker and waits until the broker serves clients.
    ///
    /// # Errors
    /// Returns an error of one line with the missing program, or the reason why the broker ended.
    pub async fn start(options: ApacheKafkaOptions) -> anyhow::Result<Self> {
        let is_temporary = options.data_dir.is_none();
        let data_dir = match options.data_dir {
            Some(data_dir) => data_dir,
            None => tempfile::Builder::new()
                .prefix("linkledger-kafka.")
                .tempdir()
                .context("cannot create a temporary folder")?
                .keep(),
        };
        let data_dir = fs::create_dir_all(&data_dir)
            .and_then(|()| fs::canonicalize(&data_dir))
            .with_context(|| format!("cannot create {}", data_dir.display()))?;
        let lock = lock(&data_dir)?;
        let mut watchdog = Watchdog::start(&data_dir, is_temporary)?;
        left_over::end(&data_dir).await?;
        let launcher = Launcher::write(data_dir, &options.settings, options.format_arguments)?;
        launcher.fetch().await?;

        let last_port = launcher.read(PORT_FILE).and_then(|port| port.parse().ok());
        let (child, port) = launch(&launcher, &mut watchdog, last_port, free_port).await?;
        launcher.keep(PORT_FILE, &port.to_string())?;
        Ok(Self {
            launcher,
            port,
            child,
            watchdog,
            _lock: lock,
        })
    }

    /// Returns the address for clients, which stays the same after [`ApacheKafka::restart`].
    pub fn bootstrap_servers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the id of the broker's process, for signals.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Waits until the broker ends by itself, and returns an error with the path of the log.
    pub async fn died(&mut self) -> anyhow::Error {
        while self.is_alive() {
            tokio::time::sleep(DEATH_POLL_INTERVAL).await;
        }
        anyhow::anyhow!(
            "Apache Kafka (process {}) ended by itself, see {}",
            self.pid(),
            self.launcher.log_path().display()
        )
    }

    /// Shuts the broker down, and kills the broker if the shutdown exceeds `STOP_TIMEOUT`.
    ///
    /// # Errors
    /// Returns an error if this process may not send signals to the broker.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + STOP_TIMEOUT;
        if self.is_alive() {
            self.signal(Signal::SIGTERM)?;
        }
        while self.is_alive() && Instant::now() < deadline {
            tokio::time::sleep(STOP_POLL_INTERVAL).await;
        }
        self.kill()
    }

    /// Kills the broker.
    ///
    /// # Errors
    /// Returns an error if this process may not send signals to the broker.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        if self.is_alive() {
            self.signal(Signal::SIGKILL)?;
        }
        self.child.wait().context("cannot wait for Apache Kafka")?;
        Ok(())
    }

    /// Stops the broker if the broker runs, and starts a broker on the same port and data.
    ///
    /// # Errors
    /// Returns the errors of [`ApacheKafka::start`], and an error if another process took the port.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.stop().await?;
        let port = self.port;
        let same = || Ok(port);
        let launched = launch(&self.launcher, &mut self.watchdog, Some(port), same).await;
        (self.child, _) = launched?;
        Ok(())
    }

    fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal to the broker. Call only if the broker is alive: another process may get the id
    /// of a dead one.
    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        match kill(self.pid(), signal) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(errno) => anyhow::bail!(
                "cannot send {signal} to Apache Kafka ({}): {errno}",
                self.pid()
            ),
        }
    }
}

impl Drop for ApacheKafka {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            tracing::warn!("{error:#}");
        }
    }
}

/// Starts the broker and waits until the broker serves clients. If a port is taken, tries others.
async fn launch(
    launcher: &Launcher,
    watchdog: &mut Watchdog,
    preferred_port: Option<u16>,
    other_port: impl Fn() -> anyhow::Result<u16>,
) -> anyhow::Result<(Child, u16)> {
    let mut ports_tried = 0;
    let mut preferred_port = preferred_port;
    loop {
        let port = match preferred_port.take() {
            Some(port) => port,
            None => other_port()?,
        };
        ports_tried += 1;
        let (log, file) = RunLog::open(&launcher.log_path())?;
        let mut command = launcher.command(port, free_port()?);
        command.stdout(file.try_clone()?).stderr(file);
        let mut child = command.spawn().context("cannot run /bin/sh")?;
        watchdog.watch(child.id())?;
        left_over::record(launcher.data_dir(), child.id())?;
        match wait_until_ready(&mut child, &log, &launcher.log_path()).await {
            Ok(()) => return Ok((child, port)),
            Err(_) if port_was_taken(&log) && ports_tried < PORT_ATTEMPTS_MAX => {}
            Err(error) => return Err(error),
        }
    }
}

async fn wait_until_ready(child: &mut Child, log: &RunLog, log_path: &Path) -> anyhow::Result<()> {
    let deadline = Instant::now() + READY_TIMEOUT;
    while Instant::now() < deadline {
        // Checked before the log is read: the log of a dead process is complete.
        let has_ended = child.try_wait()?.is_some();
        if log.text().contains("Kafka Server started") && !has_ended {
            return Ok(());
        }
        if has_ended {
            let reason = reason(&log.text());
            anyhow::bail!(
                "Apache Kafka did not start: {reason} (log: {})",
                log_path.display()
            );
        }
        tokio::time::sleep(READY_POLL_INTERVAL).await;
    }
    child.kill()?;
    child.wait()?;
    anyhow::bail!(
        "Apache Kafka did not get ready in {} s, see {}",
        READY_TIMEOUT.as_secs(),
        log_path.display()
    )
}

fn port_was_taken(log: &RunLog) -> bool {
    log.text().contains("Socket server failed to bind to")
}

/// Returns the message of the last exception of Kafka's own classes, or else the last line. Kafka's
/// own exception explains more than the causes below.
fn reason(log: &str) -> String {
    let exception = log
        .lines()
        .filter(|line| line.contains("org.apache.kafka."))
        .filter_map(|line| line.split_once("Exception: "))
        .map(|(_, message)| message)
        .next_back();
    let reason = exception.or_else(|| log.lines().next_back());
    reason.unwrap_or("the log has no reason").to_owned()
}
