//! Clicks: recorded by redirects, published once and in order, whatever the broker does.

mod details;
mod fixture;
mod heartbeats;
mod outages;
mod recorded;
mod same_address;
