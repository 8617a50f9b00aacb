//! Result of a batch.

use std::collections::{HashMap, HashSet};

use super::AcceptedCommand;
use crate::{credits::Credits, envelope::RecordedEvent, id::AccountId};

/// Result of a batch.
#[derive(Debug)]
pub struct DecidedBatch {
    /// Accepted commands; their events must be appended in this order.
    pub accepted: Vec<AcceptedCommand>,
    /// Credits of each account after the batch.
    pub credits: HashMap<AccountId, Credits>,
    /// Folded slugs that were reserved for the batch and are not used by any command: a create was
    /// rejected for its external id or expiry, or another transaction took a slug of an atomic
    /// [`BulkCreate`](super::BulkCreate) after the look-up.
    pub unused_slugs: HashSet<String>,
}

impl DecidedBatch {
    /// Records the positions of the appended events, which are all events of the batch, in order.
    pub fn set_positions(&mut self, appended: &[RecordedEvent]) {
        let mut rest = appended;
        for accepted in &mut self.accepted {
            let (own, later) = rest.split_at(accepted.events.len());
            if let Some(last) = own.last() {
                accepted.settled.set_position(last.position);
            }
            rest = later;
        }
    }
}
