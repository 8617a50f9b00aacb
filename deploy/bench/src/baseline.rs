//! What Postgres does by itself with the same rows.

pub mod creates;
