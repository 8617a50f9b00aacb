//! Parking: an event that cannot be applied stops only its own account.
//!
//! The account is parked in the projection that cannot apply the event. From that event on, the
//! account's events wait: the projector stores the positions while the checkpoint advances. Once
//! the event can be applied, the account is released, and the waiting events are applied in order.
//! An operator may skip the event instead: the projection then treats the event as absent.
//!
//! A parked account resembles a dead letter queue, but keeps the order of its events.
//!
//! A transaction that parks an account also advances the checkpoint of its shard. A process whose
//! remembered checkpoint is still the stored one therefore knows all parked accounts of the shard.

pub mod listing;
pub mod release;
pub mod skipped;
pub mod table;

use linkledger_core::{
    envelope::RecordedEvent,
    id::AccountId,
    projection::Projection,
    shard::{Position, Shard},
};
use serde::Serialize;
use uuid::Uuid;

use super::poison::Poison;

/// Key of a parked account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ParkedAccount {
    /// Projection in which the account is parked.
    pub projection: Projection,
    /// Generation of the read model.
    pub generation: i32,
    /// Shard of the account.
    pub shard: Shard,
    /// Account whose events wait.
    pub account_id: AccountId,
}

impl ParkedAccount {
    /// Returns a stored key; `None` if the projection belongs to a later release.
    fn stored(projection: &str, generation: i32, shard: i16, account_id: Uuid) -> Option<Self> {
        Some(Self {
            projection: Projection::of_name(projection)?,
            generation,
            shard: Shard::new(shard.into())?,
            account_id: AccountId::from_uuid(account_id),
        })
    }
}

/// The event that an account is parked for, which is the first waiting event of the account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ParkingCause {
    /// Position in the shard.
    pub position: Position,
    /// Stored name of the event type.
    pub event_type: String,
    /// Reason for which the event cannot be applied.
    #[serde(flatten)]
    pub poison: Poison,
}

impl ParkingCause {
    /// Returns the cause of a parking for this event.
    pub fn of(event: &RecordedEvent, poison: Poison) -> Self {
        Self {
            position: event.position,
            event_type: event.event_type.clone(),
            poison,
        }
    }
}

/// A parked account, and the event that the account is parked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Parking {
    /// Parked account.
    #[serde(flatten)]
    pub account: ParkedAccount,
    /// First waiting event, which cannot be applied.
    #[serde(flatten)]
    pub cause: ParkingCause,
}
