//! Read model `credits`.

pub mod projection;
