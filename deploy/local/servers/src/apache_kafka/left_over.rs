//! A broker that outlived the process that held it: it is ended before another is started.

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

/// Notes the process, for a later start.
pub(super) fn note(data_dir: &Path, pid: u32) -> anyhow::Result<()> {
    let path = data_dir.join(PID_FILE);
    fs::write(&path, pid.to_string()).with_context(|| format!("cannot write {}", path.display()))
}

/// Kills the broker that was noted last, if it is still one of this folder.
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
            "Apache Kafka (process {pid}) is left over from an earlier start and does not end"
        );
        // It may be gone by now.
        kill(pid, Signal::SIGKILL).ok();
        tokio::time::sleep(DEATH_POLL_INTERVAL).await;
    }
    Ok(())
}

/// Whether the process was started on this folder; where that can't be told, it is left alone.
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
