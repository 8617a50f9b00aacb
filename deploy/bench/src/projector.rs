//! The shipped program `projector`, a process of its own.

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

use crate::{bench::Bench, stack::Stack};

const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// The last lines of a log, for a message.
const LINES_TOLD_MAX: usize = 20;

/// A projector that runs; killed when dropped.
#[derive(Debug)]
pub struct Projector {
    child: Child,
    log: PathBuf,
}

impl Projector {
    /// Starts it on the database of that address, as the only member of the group `group_id` at the
    /// broker of that stack.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn start(
        bench: &Bench,
        broker: &Stack,
        database_url: &str,
        group_id: &str,
    ) -> anyhow::Result<Self> {
        let log = bench.server.data_dir().join("projector.log");
        let child = program(bench, database_url)
            .arg("run")
            .args(["--group-id", group_id, "--internal-listen", "127.0.0.1:0"])
            .env("KAFKA_BROKERS", broker.variable("KAFKA_BROKERS")?)
            .env("GROUP_PROTOCOL", broker.variable("GROUP_PROTOCOL")?)
            .env("FETCH_WAIT_MAX_MS", broker.variable("FETCH_WAIT_MAX_MS")?)
            .env("RUST_LOG", "warn")
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .context("can't start the projector")?;
        Ok(Self { child, log })
    }

    /// An error if it has ended by itself.
    ///
    /// # Errors
    /// With its last words.
    pub fn ensure_runs(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!(
                "the projector has ended with {status}: {}",
                self.last_words()
            );
        }
        Ok(())
    }

    /// What to tell if it does not do what it should.
    pub fn last_words(&self) -> String {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(LINES_TOLD_MAX)..].join("\n")
    }

    /// Stops it as an operator would.
    ///
    /// # Errors
    /// When it does not end in time, or not well.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let id = self.child.id().context("the projector has ended")?;
        kill(Pid::from_raw(i32::try_from(id)?), Signal::SIGTERM)?;
        let status = timeout(STOP_TIMEOUT, self.child.wait())
            .await
            .context("the projector does not stop")??;
        ensure!(
            status.success(),
            "the projector has ended with {status}: {}",
            self.last_words()
        );
        Ok(())
    }
}

/// A line of what `rebuild` tells of itself.
#[derive(Debug, Deserialize)]
struct Progress {
    phase: String,
    done: u64,
    seconds: f64,
}

/// Makes all read models again, as fast as it goes; returns how many events of the log were loaded
/// per second, what comes after that (comparing, swapping) left aside.
///
/// # Errors
/// When it fails.
pub async fn rebuild_all(bench: &Bench, database_url: &str) -> anyhow::Result<f64> {
    let output = program(bench, database_url)
        .args(["rebuild", "--all", "--max-rate", "0", "--json"])
        .args(["--reason", "measured"])
        .output()
        .await
        .context("can't run the projector")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "projector rebuild: {told}");
    loaded_per_second(&told).with_context(|| format!("projector rebuild tells no rate: {told}"))
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
fn loaded_per_second(told: &str) -> Option<f64> {
    let lines = told
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let mut loading = lines.filter(|line: &Progress| line.phase == "loading");
    let last = loading.next_back()?;
    Some(last.done as f64 / last.seconds)
}

fn program(bench: &Bench, database_url: &str) -> Command {
    let mut command = Command::new(bench.programs.path("projector"));
    command.env("DATABASE_URL", database_url).kill_on_drop(true);
    command
}

#[cfg(test)]
mod tests {
    use super::loaded_per_second;

    #[test]
    fn the_rate_of_a_rebuild_is_that_of_the_last_line_on_loading() {
        let told = r#"
            {"phase":"loading","done":100,"total":1000,"seconds":1.0}
            {"phase":"loading","done":1000,"total":1000,"seconds":4.0}
            {"phase":"comparing","done":9,"total":9,"seconds":1.0}
            a word of the log"#;
        assert_eq!(loaded_per_second(told), Some(250.0));
        assert_eq!(loaded_per_second("nothing"), None);
    }
}
