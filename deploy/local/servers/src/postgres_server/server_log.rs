//! Log of the server since the start: the only place that says why the server ended.

use std::fs::File;
use std::path::Path;

use crate::local_server::RunLog;

/// Beginning of the FATAL lines about refused connections, which do not explain why the server ended.
const REFUSED_CONNECTION: &str = "the database system is";

/// Log of one run of the server.
#[derive(Debug)]
pub(super) struct ServerLog(RunLog);

impl ServerLog {
    /// Opens the log file for a new run. Returns the log of the run, and the file to append to.
    pub(super) fn open(path: &Path) -> anyhow::Result<(Self, File)> {
        let (log, file) = RunLog::open(path)?;
        Ok((Self(log), file))
    }

    pub(super) fn server_got_ready(&self) -> bool {
        self.0
            .text()
            .contains("database system is ready to accept connections")
    }

    pub(super) fn port_was_taken(&self) -> bool {
        self.0
            .text()
            .contains("could not create any TCP/IP sockets")
    }

    /// Returns true if a live server, or a child of a dead server, uses the cluster.
    pub(super) fn cluster_is_in_use(&self) -> bool {
        let text = self.0.text();
        text.contains("pre-existing shared memory block")
            || text.contains("lock file \"postmaster.pid\" already exists")
    }

    /// Returns the message of the last FATAL line that explains why the server ended.
    pub(super) fn fatal(&self) -> Option<String> {
        let text = self.0.text();
        text.lines()
            .filter_map(|line| line.split_once("FATAL:"))
            .map(|(_, message)| message.trim())
            .rfind(|message| !message.starts_with(REFUSED_CONNECTION))
            .map(str::to_owned)
    }

    /// Returns the last FATAL line, or else the last line.
    pub(super) fn reason(&self) -> String {
        let last_line = || self.0.text().lines().next_back().map(str::to_owned);
        let reason = self.fatal().or_else(last_line);
        reason.unwrap_or_else(|| "the log has no reason".to_owned())
    }
}

/// Returns the line of a failed `initdb`'s output that explains the failure.
pub(super) fn initdb_reason(output: &str) -> &str {
    let is_reason = |line: &&str| line.contains("FATAL:") || line.contains("error:");
    let line = output
        .lines()
        .find(is_reason)
        .or_else(|| output.lines().next_back());
    let line = line.unwrap_or("initdb gave no reason");
    line.split_once("FATAL:")
        .map_or(line, |(_, message)| message)
        .trim()
}
