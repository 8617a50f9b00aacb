//! Read model `links`.

pub mod projection;
