//! Kills a broker that outlived the process that started the broker. Runs before a new broker starts.

use std::{fs, path::Path, time::Duration};

use anyhow::Context as _;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::time::Instant;

const PID_FILE: &str = "kafka.pid";
const DEATH_TIMEOUT: Duration = Duration::from_secs(10);
const DEATH_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Records the process id of the broker for the next start.
pub(super) fn record(data_dir: &Path, pid: u32) -> anyhow::Result<()> {
    let path = data_dir.join(PID_FILE);
    fs::write(&path, pid.to_string()).with_context(|| format!("cannot write {}", path.display()))
}

/// Kills the recorded broker, if the process is still a broker of this folder.
pub(super) async fn end(data_dir: &Path) -> anyhow::Result<()> {
    let Some(pid) = fs::read_to_string(data_dir.join(PID_FILE))
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .map(Pid::from_raw)
    else {
        return Ok(());
    };
    let deadline = Instant::now() + DEATH_TIMEOUT;
    while is_broker_of(pid, data_dir) {
        anyhow::ensure!(
            Instant::now() < deadline,
            "Apache Kafka (process {pid}) is left over from an earlier start and does not end; kill that process"
        );
        // The process may have ended since the check.
        kill(pid, Signal::SIGKILL).ok();
        tokio::time::sleep(DEATH_POLL_INTERVAL).await;
    }
    Ok(())
}

/// Returns true if the process is a broker of this folder. Returns false without `/proc`, so that no
/// unrelated process is killed.
pub(super) fn is_broker_of(pid: Pid, data_dir: &Path) -> bool {
    let command_line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let settings = data_dir.join("server.properties");
    command_line.split(|byte| *byte == 0).any(|argument| {
        [data_dir, &settings]
            .map(Path::as_os_str)
            .map(std::ffi::OsStr::as_encoded_bytes)
            .contains(&argument)
    })
}
