//! x
pub mod batch;
pub mod clock;
pub mod credits;
pub mod envelope;
pub mod event;
pub mod field;
pub mod id;
pub mod json;
pub mod link;
pub mod shard;
pub mod timestamp;
