//! HTTP code shared by both services, in the order in which a request passes through.

pub mod answer;
pub mod authentication;
mod bearer;
pub mod cors;
pub mod entity_tag;
pub mod gate;
mod key_usage;
pub mod link_body;
pub mod observe;
pub mod rate_limit;
pub mod request;
pub mod route_table;
mod trace_context;
