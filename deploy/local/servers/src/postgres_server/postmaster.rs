//! Main process of a server: finds the process by the pid file, watches the process, ends the process.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::Context as _;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::Instant;

/// Timeout of a fast shutdown, which ends sessions and writes a checkpoint.
const FAST_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of an immediate shutdown, in which Postgres kills the remaining children after 5 s.
const IMMEDIATE_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Server process that this process owns. A drop requests the shutdown.
#[derive(Debug)]
pub(super) struct Postmaster {
    pub(super) pid: Pid,
    pub(super) port: u16,
    cluster_dir: PathBuf,
    /// Child of this process, or `None` for an adopted server.
    child: Option<Child>,
}

impl Postmaster {
    pub(super) fn adopted(pid: Pid, port: u16, cluster_dir: &Path) -> Self {
        Self {
            pid,
            port,
            cluster_dir: cluster_dir.to_owned(),
            child: None,
        }
    }

    /// Starts the server in a separate process group: Ctrl-C in a terminal must not end the server
    /// before the application has drained.
    pub(super) fn spawn(
        mut command: Command,
        cluster_dir: &Path,
        port: u16,
        log: File,
    ) -> anyhow::Result<Self> {
        command
            .arg("-D")
            .arg(cluster_dir)
            .arg("-p")
            .arg(port.to_string());
        command
            .process_group(0)
            .stdout(log.try_clone()?)
            .stderr(log);
        let child = command.spawn().context("cannot run postgres")?;
        let pid = Pid::from_raw(child.id().cast_signed());
        Ok(Self {
            pid,
            port,
            cluster_dir: cluster_dir.to_owned(),
            child: Some(child),
        })
    }

    pub(super) fn is_alive(&mut self) -> bool {
        match &mut self.child {
            Some(child) => matches!(child.try_wait(), Ok(None)),
            None => is_postmaster_of(self.pid, &self.cluster_dir),
        }
    }

    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        for (signal, timeout) in [
            (Signal::SIGINT, FAST_SHUTDOWN_TIMEOUT),
            (Signal::SIGQUIT, IMMEDIATE_SHUTDOWN_TIMEOUT),
        ] {
            self.signal(signal)?;
            let deadline = Instant::now() + timeout;
            while Instant::now() < deadline {
                if !self.is_alive() {
                    return Ok(());
                }
                tokio::time::sleep(STOP_POLL_INTERVAL).await;
            }
        }
        anyhow::bail!(
            "PostgreSQL (process {}) does not stop; end that process",
            self.pid
        )
    }

    fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        // Checked first: another process may have the pid of a dead process.
        if !self.is_alive() {
            return Ok(());
        }
        match kill(self.pid, signal) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(errno) => anyhow::bail!("cannot stop PostgreSQL (process {}): {errno}", self.pid),
        }
    }
}

impl Drop for Postmaster {
    fn drop(&mut self) {
        if let Err(error) = self.signal(Signal::SIGINT) {
            tracing::warn!("{error}");
        }
    }
}

/// Pid and port of a live server, read from the pid file.
#[derive(Debug)]
pub(super) struct RunningPostmaster {
    pub(super) pid: Pid,
    /// Port, or `None` while the server has written only the pid.
    pub(super) port: Option<u16>,
}

/// Finds the server that runs on this cluster, in any state, started by any process.
pub(super) fn find_running(cluster_dir: &Path) -> Option<RunningPostmaster> {
    let text = fs::read_to_string(pid_file(cluster_dir)).ok()?;
    let mut lines = text.lines();
    let pid = Pid::from_raw(lines.next()?.trim().parse().ok()?);
    // Lines: pid, data directory, start time, port.
    let port = lines.nth(2).and_then(|port| port.trim().parse().ok());
    is_postmaster_of(pid, cluster_dir).then_some(RunningPostmaster { pid, port })
}

/// Writes the pid of this process to the pid file of a dead server, so that a new server starts even
/// if another process has got the pid of the dead server.
///
/// Postgres refuses to start while a process other than the parent has the pid in the file. The other
/// lines are kept: from these lines the new server learns whether children of the dead server still
/// use the shared memory, so the file must not be removed.
pub(super) fn disown_reused_pid(cluster_dir: &Path) -> anyhow::Result<()> {
    let path = pid_file(cluster_dir);
    let Ok(text) = fs::read_to_string(&path) else {
        return Ok(());
    };
    if let Some((_, rest)) = text.split_once('\n')
        && find_running(cluster_dir).is_none()
    {
        fs::write(&path, format!("{}\n{rest}", std::process::id()))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn pid_file(cluster_dir: &Path) -> PathBuf {
    cluster_dir.join("postmaster.pid")
}

/// Returns true if the process is the main process of a server on this cluster.
///
/// Child processes of a server change the command line, and the command line of a dead process that is
/// not reaped yet is empty.
fn is_postmaster_of(pid: Pid, cluster_dir: &Path) -> bool {
    if !Path::new("/proc/self/cmdline").exists() {
        // Without `/proc`, the login of an adoption shows if the process is the server.
        return kill(pid, None).is_ok();
    }
    let command_line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut arguments = command_line.split(|byte| *byte == 0);
    let program = arguments.next().unwrap_or_default();
    program.ends_with(b"postgres")
        && arguments.any(|argument| argument == cluster_dir.as_os_str().as_encoded_bytes())
}
