//! The server's main process: finding it by its pid file, watching it, ending it.

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

/// A fast shutdown ends sessions and writes a checkpoint.
const FAST_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// An immediate one kills whatever has not gone after 5 s.
const IMMEDIATE_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A server process that we answer for; dropping it asks it to shut down.
#[derive(Debug)]
pub(super) struct Postmaster {
    pub(super) pid: Pid,
    pub(super) port: u16,
    cluster_dir: PathBuf,
    /// `None` when another process started it.
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

    /// Starts the server in its own process group: Ctrl-C in a terminal must not hit it before
    /// the application has drained.
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
        anyhow::bail!("PostgreSQL (process {}) does not stop", self.pid)
    }

    fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        // Asked first: the pid of a process that is gone may be somebody else's by now.
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

/// What the pid file says of a server that is alive.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) pid: Pid,
    /// Written a little later than the pid.
    pub(super) port: Option<u16>,
}

/// The server that runs on this cluster, in whatever state, whoever started it.
pub(super) fn find_running(cluster_dir: &Path) -> Option<Running> {
    let text = fs::read_to_string(pid_file(cluster_dir)).ok()?;
    let mut lines = text.lines();
    let pid = Pid::from_raw(lines.next()?.trim().parse().ok()?);
    // Lines: pid, data directory, start time, port.
    let port = lines.nth(2).and_then(|port| port.trim().parse().ok());
    is_postmaster_of(pid, cluster_dir).then_some(Running { pid, port })
}

/// Lets a new server start although another process has the pid of the dead one by now.
///
/// Postgres refuses to start while any process has the pid in the file, except its own parent:
/// so our pid is written there. The rest stays, from which the new server learns whether children
/// of the dead one still use its shared memory; removing the file would give that up.
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

/// Whether this process is the main process of a server on this cluster.
///
/// Its children change their command line, and that of a dead process not yet reaped is empty.
fn is_postmaster_of(pid: Pid, cluster_dir: &Path) -> bool {
    if !Path::new("/proc/self/cmdline").exists() {
        // Not Linux: whoever adopts it finds out by logging in.
        return kill(pid, None).is_ok();
    }
    let command_line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut arguments = command_line.split(|byte| *byte == 0);
    let program = arguments.next().unwrap_or_default();
    program.ends_with(b"postgres")
        && arguments.any(|argument| argument == cluster_dir.as_os_str().as_encoded_bytes())
}
