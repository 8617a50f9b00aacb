//! The admin API that writes: real requests, a real Postgres.

mod access;
mod accounts;
mod agreement;
mod console_sessions;
mod credits;
mod faults;
mod fixture;
mod hostile_values;
mod keys;
mod links;
mod low_balance;
mod order_of_checks;
mod routes;
mod webhooks;
