//! What the server wrote to its log since we started it: the only place where it says why it died.

use std::fs::File;
use std::path::Path;

use crate::local_server::RunLog;

/// Refused connections are logged as FATAL too, and are none of the reasons for an end.
const REFUSED_CONNECTION: &str = "the database system is";

/// The log from the start of one run on.
#[derive(Debug)]
pub(super) struct ServerLog(RunLog);

impl ServerLog {
    /// The log of a run that is to begin, and the file to append to.
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

    /// By a server that is still alive, or by the remaining children of one that is not.
    pub(super) fn cluster_is_in_use(&self) -> bool {
        let text = self.0.text();
        text.contains("pre-existing shared memory block")
            || text.contains("lock file \"postmaster.pid\" already exists")
    }

    /// The last FATAL line.
    pub(super) fn fatal(&self) -> Option<String> {
        let text = self.0.text();
        text.lines()
            .filter_map(|line| line.split_once("FATAL:"))
            .map(|(_, message)| message.trim())
            .rfind(|message| !message.starts_with(REFUSED_CONNECTION))
            .map(str::to_owned)
    }

    /// The last FATAL line, or whatever came last.
    pub(super) fn reason(&self) -> String {
        let last_line = || self.0.text().lines().next_back().map(str::to_owned);
        let reason = self.fatal().or_else(last_line);
        reason.unwrap_or_else(|| "it gave no reason".to_owned())
    }
}

/// Of the output of a failed `initdb`, what says why.
pub(super) fn initdb_reason(output: &str) -> &str {
    let telling = |line: &&str| line.contains("FATAL:") || line.contains("error:");
    let line = output
        .lines()
        .find(telling)
        .or_else(|| output.lines().next_back());
    let line = line.unwrap_or("it gave no reason");
    line.split_once("FATAL:")
        .map_or(line, |(_, message)| message)
        .trim()
}
