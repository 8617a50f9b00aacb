//! The event store on a real Postgres: accounts, keys, entries of ledgers, feeds, expiries of
//! links, and webhooks.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod accounts;
mod admin_keys;
mod api_keys;
mod effects;
mod entries;
mod feed;
mod link_expiries;
mod webhooks;

/// Returns the name of the constraint that a statement violated.
fn violated<T: std::fmt::Debug>(result: sqlx::Result<T>) -> String {
    let error = result.unwrap_err();
    let error = error.as_database_error().expect("an error of the database");
    error.constraint().expect("a constraint").to_owned()
}
