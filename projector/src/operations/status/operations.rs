//! Commands of operators, as a status report shows them.

use linkledger_core::timestamp;
use serde::Serialize;

use crate::operations::audit::{RecordedCommand, report::last_of};

/// Number of the newest commands in a report.
const RECENT_MAX: usize = 10;

/// Last command of a name on a projection, if it failed within a day.
#[derive(Debug, Clone, Serialize)]
pub struct FailedOperation {
    /// Name of the command, as typed.
    pub command: String,
    /// Projection of the command.
    pub projection: String,
    /// End of the command.
    pub failed_at: String,
    /// Reason of the failure.
    pub detail: Option<String>,
}

/// Returns the commands without a recorded end, by projection: at most one for each.
pub(super) fn running(recorded: &[RecordedCommand]) -> Vec<RecordedCommand> {
    let running = recorded.iter().filter(|it| it.finished_at.is_none());
    let mut running: Vec<_> = running.cloned().collect();
    running.sort_by(|a, b| a.projection.cmp(&b.projection));
    running
}

/// Returns the newest commands and all that run.
pub(super) fn recent(mut recorded: Vec<RecordedCommand>) -> Vec<RecordedCommand> {
    let mut newer = 0..RECENT_MAX;
    recorded.retain(|it| newer.next().is_some() || it.finished_at.is_none());
    recorded
}

/// Returns the last commands that failed. A command whose process died still counts as running.
pub(super) fn failed(recorded: &[RecordedCommand]) -> Vec<FailedOperation> {
    let last = last_of(recorded)
        .into_iter()
        .filter(RecordedCommand::has_failed);
    let failed = last.filter_map(|recorded| {
        Some(FailedOperation {
            failed_at: timestamp::format(recorded.finished_at?),
            command: recorded.command,
            projection: recorded.projection?,
            detail: recorded.detail,
        })
    });
    failed.collect()
}
