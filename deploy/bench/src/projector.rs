//! The shipped program `projector`, as a process.

use std::{fs::File, path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context as _, bail, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde::Deserialize;
use tokio::{
    process::{Child, Command},
    time::timeout,
};

use crate::{bench::BenchContext, stack::StackProcess};

const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of last lines of the log that an error message shows.
const LINES_SHOWN_MAX: usize = 20;

/// A running projector; killed when dropped.
#[derive(Debug)]
pub struct ProjectorProcess {
    child: Child,
    log: PathBuf,
}

impl ProjectorProcess {
    /// Starts the projector on the database, at the broker of the stack.
    ///
    /// # Errors
    /// Returns an error if the process can't be started.
    pub fn start(
        bench: &BenchContext,
        broker: &StackProcess,
        database_url: &str,
    ) -> anyhow::Result<Self> {
        let log = bench.server.data_dir().join("projector.log");
        let child = program(bench, database_url)
            .arg("run")
            .args(["--internal-listen", "127.0.0.1:0"])
            .env("KAFKA_BROKERS", broker.variable("KAFKA_BROKERS")?)
            .env("FETCH_WAIT_MAX_MS", broker.variable("FETCH_WAIT_MAX_MS")?)
            .env("RUST_LOG", "warn")
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .context("can't start the projector")?;
        Ok(Self { child, log })
    }

    /// Checks that the projector is running.
    ///
    /// # Errors
    /// Returns an error with the last lines of the log if the projector has ended.
    pub fn ensure_runs(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!(
                "the projector has ended with {status}: {}",
                self.last_words()
            );
        }
        Ok(())
    }

    /// Returns the last lines of the log, for an error message.
    pub fn last_words(&self) -> String {
        let log_text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log_text.lines().collect();
        lines[lines.len().saturating_sub(LINES_SHOWN_MAX)..].join("\n")
    }

    /// Stops the projector with SIGTERM.
    ///
    /// # Errors
    /// Returns an error if the projector does not end before the timeout, or ends with an error.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let id = self.child.id().context("the projector has ended")?;
        kill(Pid::from_raw(i32::try_from(id)?), Signal::SIGTERM)?;
        let status = timeout(STOP_TIMEOUT, self.child.wait())
            .await
            .context("the projector does not stop within 30 s")??;
        ensure!(
            status.success(),
            "the projector has ended with {status}: {}",
            self.last_words()
        );
        Ok(())
    }
}

/// A line of the progress that `rebuild` prints.
#[derive(Debug, Deserialize)]
struct Progress {
    phase: String,
    done: u64,
    seconds: f64,
}

/// Rebuilds all read models without a rate limit. Returns the number of events that were loaded per
/// second, without comparing and swapping.
///
/// # Errors
/// Returns an error if the rebuild fails.
pub async fn rebuild_all(bench: &BenchContext, database_url: &str) -> anyhow::Result<f64> {
    let output = program(bench, database_url)
        .args(["rebuild", "--all", "--max-rate", "0", "--json"])
        .args(["--reason", "measured"])
        .output()
        .await
        .context("can't run the projector")?;
    let progress = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "projector rebuild failed: {progress}"
    );
    loaded_per_second(&progress)
        .with_context(|| format!("projector rebuild prints no line on loading: {progress}"))
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
fn loaded_per_second(progress: &str) -> Option<f64> {
    let lines = progress
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let mut loading = lines.filter(|line: &Progress| line.phase == "loading");
    let last = loading.next_back()?;
    Some(last.done as f64 / last.seconds)
}

fn program(bench: &BenchContext, database_url: &str) -> Command {
    let mut command = Command::new(bench.programs.path("projector"));
    command.env("DATABASE_URL", database_url).kill_on_drop(true);
    command
}

#[cfg(test)]
mod tests {
    use super::loaded_per_second;

    #[test]
    fn rebuild_rate_is_of_the_last_loading_line() {
        let progress = r#"
            {"phase":"loading","done":100,"total":1000,"seconds":1.0}
            {"phase":"loading","done":1000,"total":1000,"seconds":4.0}
            {"phase":"comparing","done":9,"total":9,"seconds":1.0}
            a word of the log"#;
        assert_eq!(loaded_per_second(progress), Some(250.0));
        assert_eq!(loaded_per_second("nothing"), None);
    }
}
