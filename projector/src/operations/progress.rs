//! Progress of an operation that takes long, as it is reported to an operator.

use std::fmt;

/// Receiver of the progress of an operation; called by several tasks at once.
pub trait ProgressSink: fmt::Debug + Send + Sync {
    /// Begins a phase of `total` units; 0 if the total is not known.
    fn enter(&self, phase: &str, total: u64, unit: &'static str);

    /// Sets the number of units that are still to be done.
    fn set_remaining(&self, remaining: u64);

    /// Adds to the number of units that are done.
    fn advance(&self, done: u64);
}
