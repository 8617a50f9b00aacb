//! HTTP code shared by both services, in the order in which a request passes through.

pub mod answer;
#[cfg(feature = "service")]
pub mod authentication;
#[cfg(feature = "service")]
mod bearer;
pub mod console_style;
pub mod cors;
pub mod entity_tag;
#[cfg(feature = "service")]
pub mod gate;
#[cfg(feature = "service")]
mod key_usage;
pub mod link_body;
pub mod link_request;
pub mod observe;
pub mod rate_limit;
pub mod request;
pub mod route_table;
pub mod served_hosts;
#[cfg(feature = "service")]
pub mod shared_reads;
pub mod storage;
mod trace_context;
