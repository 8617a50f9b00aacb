//! Writes the files of `deploy/kafka` to the data folder, and runs the scripts among these files.

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
/// Folder, within the data folder, of the files of `deploy/kafka`.
const LAUNCHER: &str = "launcher";
const SETTINGS: &str = "settings.properties";
const LOG: &str = "kafka.log";
/// Heap limit of the broker: enough on one machine, and small enough beside the other processes.
const JVM_OPTIONS: &str = "-Xmx512m";

/// Data folder with the scripts that start a broker.
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

    /// Writes a file of the data folder that only the owner can read: settings may hold secrets.
    pub(super) fn keep(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.data_dir.join(name);
        let mut options = fs::OpenOptions::new();
        options.create(true).truncate(true).write(true).mode(0o700);
        let written = options
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads a file of the data folder, or returns `None` if the file is missing.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.data_dir.join(name)).ok()
    }

    /// Downloads Kafka, unless Kafka is on this machine already.
    ///
    /// # Errors
    /// Returns an error if Java or Maven is missing, or the download fails.
    pub(super) async fn fetch(&self) -> anyhow::Result<()> {
        let (log, file) = RunLog::open(&self.log_path())?;
        let mut command = tokio::process::Command::from(self.script("fetch"));
        command.stdout(Stdio::null()).stderr(file);
        let status = tokio::time::timeout(FETCH_TIMEOUT, command.kill_on_drop(true).status())
            .await
            .context("the download of Apache Kafka timed out; run the command again")?
            .context("cannot run /bin/sh")?;
        if !status.success() {
            let text = log.text();
            let reason = text
                .lines()
                .next_back()
                .unwrap_or("the script `fetch` gave no reason");
            anyhow::bail!("{reason}");
        }
        Ok(())
    }

    /// Returns the command of the broker, in a separate process group: Ctrl-C in a terminal must not
    /// end the broker before the application has drained.
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
