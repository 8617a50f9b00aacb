//! Stored webhooks: their rows, which follow from events, their places in the log, their deliveries, and the lease of
//! the dispatcher.
//!
//! The log is the queue. A cursor says that everything before it is delivered, kept as a delivery, or not wanted. That
//! is true in one history of the log. A process that has lived through a restore, or a failover that lost events,
//! knows another history, so its progress is refused: it names the place that it has left, and the event that it has
//! reached.

pub mod cursors;
pub mod deliveries;
pub mod dispatcher;
pub mod rows;
