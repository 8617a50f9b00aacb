//! HTTP code shared by the services, in the order in which a request passes through.

#![warn(missing_docs)]

pub mod admin_body;
pub mod admin_gate;
pub mod admin_views;
pub mod answer;
pub mod authentication;
mod bearer_token;
pub mod console_style;
pub mod cors;
pub mod dataloader;
pub mod entity_tag;
pub mod gate;
mod key_usage;
pub mod link_body;
pub mod link_request;
pub mod observe;
pub mod openapi;
pub mod per_account_limit;
pub mod problem;
pub mod rate_limit;
pub mod request;
pub mod route_table;
pub mod served_hosts;
pub mod storage;
pub mod webhook_views;
