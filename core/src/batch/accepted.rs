//! Accepted commands of a batch: their events, and the data that the answers are rendered from.

use super::{KeyedCreate, LinkChange, SettledCreate, SettledLink, Stamp};
use crate::{
    credits::CreditsEvent,
    envelope::{IdempotencyMark, Metadata, NewEvent},
    event::Event,
    link::LinkEvent,
    shard::Position,
};

/// An accepted command; effective once the batch is committed.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// Events of the command, at consecutive positions of the log.
    pub events: Vec<NewEvent>,
    /// Result of the command, from which the answer is rendered.
    pub settled: Settled,
}

/// Result of an accepted command, from which the answer is rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// Result of a create.
    Create(SettledCreate),
    /// A link after its change.
    Change(SettledLink),
}

impl Settled {
    /// Records the position of the last event of the command.
    pub(super) fn set_position(&mut self, last: Position) {
        match self {
            Self::Create(create) => create.position = last,
            Self::Change(change) => change.position = last,
        }
    }
}

impl Accepted {
    pub(super) fn create(
        create: &KeyedCreate,
        stamp: &Stamp,
        settled: SettledCreate,
        account_version: i64,
    ) -> Self {
        let [link_event_id, charge_event_id] = stamp.event_ids;
        let link_created = NewEvent {
            event_id: link_event_id,
            account_id: create.account_id,
            version: 1,
            recorded_at: stamp.now,
            event: Event::Link(LinkEvent::Created(settled.link.clone())),
            metadata: Metadata {
                renderer: Some(settled.renderer),
                ..create.metadata.clone()
            },
            idempotency: Some(IdempotencyMark {
                key: create.key.stored(),
                fingerprint: create.fingerprint,
            }),
        };
        let credits_charged = NewEvent {
            event_id: charge_event_id,
            account_id: create.account_id,
            version: account_version,
            recorded_at: stamp.now,
            event: Event::Credits(CreditsEvent::Charged(settled.charge.clone())),
            metadata: create.metadata.clone(),
            idempotency: None,
        };
        Self {
            events: vec![link_created, credits_charged],
            settled: Settled::Create(settled),
        }
    }

    pub(super) fn change(
        change: &LinkChange,
        stamp: &Stamp,
        event: LinkEvent,
        settled: SettledLink,
    ) -> Self {
        let [event_id, _] = stamp.event_ids;
        let metadata = change.metadata.clone();
        let changed = NewEvent::of_link(event_id, stamp.now, event, &settled.link, metadata);
        Self {
            events: vec![changed],
            settled: Settled::Change(settled),
        }
    }
}
