//! Commands of operators, as a status report shows them.

use serde::Serialize;
use utoipa::ToSchema;

use crate::operations::audit::{RecordedCommand, report::last_of};

/// Number of the newest commands in a report.
const RECENT_MAX: usize = 10;

/// Operator who paused a projection, the aggregation of clicks or the relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PausedBy {
    /// Name of the operator.
    pub operator: String,
    /// Reason given by the operator.
    pub reason: Option<String>,
}

/// Returns the operator who paused the target; `None` if the pause is not among the commands.
///
/// Each pause and each resume is recorded in the transaction of its effect, so the newest of both
/// decides. `newest_first` has the latest commands.
pub(super) fn paused_by(target: &str, newest_first: &[RecordedCommand]) -> Option<PausedBy> {
    let is_own = |it: &&RecordedCommand| {
        let mut targets = it.projection.iter().chain(&it.subject);
        targets.any(|it| it == target)
    };
    let mut own = newest_first.iter().filter(is_own);
    let last = own.find(|it| matches!(it.command.as_str(), "pause" | "resume"))?;
    (last.command == "pause").then(|| PausedBy {
        operator: last.operator.clone(),
        reason: last.reason.clone(),
    })
}

impl std::fmt::Display for PausedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.reason {
            Some(reason) => write!(f, "by {} ({reason})", self.operator),
            None => write!(f, "by {}", self.operator),
        }
    }
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
pub(super) fn failed(recorded: &[RecordedCommand]) -> Vec<RecordedCommand> {
    let mut failed = last_of(recorded);
    failed.retain(|it| it.has_failed() && it.finished_at.is_some());
    failed
}
