//! The files of `deploy/kafka` in the data folder, and the commands that run them.

use std::{
    fs,
    io::Write as _,
    os::unix::{fs::OpenOptionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::Context as _;

use super::FETCH_TIMEOUT;
use crate::local_server::RunLog;

const FILES: [(&str, &str); 5] = [
    ("fetch", include_str!("../../../../kafka/fetch")),
    (
        "log4j2.properties",
        include_str!("../../../../kafka/log4j2.properties"),
    ),
    ("pom.xml", include_str!("../../../../kafka/pom.xml")),
    (
        "server.properties",
        include_str!("../../../../kafka/server.properties"),
    ),
    ("start", include_str!("../../../../kafka/start")),
];
/// Where those files lie in the data folder.
const LAUNCHER: &str = "launcher";
const SETTINGS: &str = "settings.properties";
const LOG: &str = "kafka.log";
/// Enough for a broker on one machine, and small enough to stand beside all the rest.
const JVM_OPTIONS: &str = "-Xmx512m";

/// A data folder from which brokers can be started.
#[derive(Debug)]
pub(super) struct Launcher {
    data_dir: PathBuf,
    format_arguments: Vec<String>,
}

impl Launcher {
    pub(super) fn write(
        data_dir: PathBuf,
        settings: &[(String, String)],
        format_arguments: Vec<String>,
    ) -> anyhow::Result<Self> {
        let launcher = Self {
            data_dir,
            format_arguments,
        };
        let files = launcher.data_dir.join(LAUNCHER);
        fs::create_dir_all(&files).with_context(|| format!("cannot create {}", files.display()))?;
        for (name, text) in FILES {
            launcher.keep(&format!("{LAUNCHER}/{name}"), text)?;
        }
        let line = |(name, value): &(String, String)| format!("{name}={value}\n");
        let lines: Vec<String> = settings.iter().map(line).collect();
        launcher.keep(SETTINGS, &lines.concat())?;
        Ok(launcher)
    }

    pub(super) fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    pub(super) fn log_path(&self) -> PathBuf {
        self.data_dir.join(LOG)
    }

    /// Writes a file of the data folder, for its owner only: settings may hold secrets.
    pub(super) fn keep(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.data_dir.join(name);
        let mut options = fs::OpenOptions::new();
        options.create(true).truncate(true).write(true).mode(0o700);
        let written = options
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads a file that may be missing.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.data_dir.join(name)).ok()
    }

    /// Makes sure that Kafka and what it needs are on this machine.
    pub(super) async fn fetch(&self) -> anyhow::Result<()> {
        let (log, file) = RunLog::open(&self.log_path())?;
        let mut command = tokio::process::Command::from(self.script("fetch"));
        command.stdout(Stdio::null()).stderr(file);
        let status = tokio::time::timeout(FETCH_TIMEOUT, command.kill_on_drop(true).status())
            .await
            .context("fetching Apache Kafka takes too long")?
            .context("cannot run /bin/sh")?;
        if !status.success() {
            let text = log.text();
            let reason = text.lines().next_back().unwrap_or("it gave no reason");
            anyhow::bail!("{reason}");
        }
        Ok(())
    }

    /// What becomes the broker, in a process group of its own: Ctrl-C in a terminal must not hit
    /// it before the application has drained.
    pub(super) fn command(&self, port: u16, controller_port: u16) -> Command {
        let mut command = self.script("start");
        command
            .args(["-p", &port.to_string(), "-c", &controller_port.to_string()])
            .arg("-s")
            .arg(self.data_dir.join(SETTINGS))
            .arg(&self.data_dir)
            .args(&self.format_arguments)
            .env("JVM_OPTIONS", JVM_OPTIONS)
            .process_group(0);
        command
    }

    pub(super) fn script(&self, name: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command
            .arg(self.data_dir.join(LAUNCHER).join(name))
            .stdin(Stdio::null());
        command
    }
}
