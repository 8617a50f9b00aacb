//! Parking: an event that can't be applied stops its own account, and nobody else.
//!
//! The account is parked in the projection that can't apply the event; its events wait from there
//! on, by their places in the log, while the checkpoint moves on. Once the event can be applied,
//! the account is released: what has waited is applied in order. An operator may decide that the
//! event is left out for good: it is as if the log did not have it, for this projection.
//!
//! Rows of a shard change only under the lock of its checkpoint, and an account is parked only in
//! a transaction that moves it: whoever knows the checkpoint knows whether anybody can be parked.

pub mod listing;
pub mod release;
pub mod skipped;
pub mod table;

use linkledger_core::{
    id::AccountId,
    shard::{Position, Shard},
};

use super::poison::Poison;
use crate::read_models::Projection;

/// Who is parked, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ParkedAccount {
    /// The projection that goes on without the account.
    pub projection: Projection,
    /// The generation of its read model.
    pub generation: i32,
    /// The account's shard.
    pub shard: Shard,
    /// Whose events wait.
    pub account_id: AccountId,
}

/// The event that an account is parked for: the first of those that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Its place in the shard.
    pub position: Position,
    /// The stored type name.
    pub event_type: String,
    /// Why it can't be applied.
    pub poison: Poison,
}

/// A parked account, and why it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parking {
    /// Who.
    pub account: ParkedAccount,
    /// Why.
    pub cause: Cause,
}
