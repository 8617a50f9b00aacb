//! What a batch accepts: events to append, and what the answers are rendered from.

use super::{KeyedCreate, LinkChange, SettledCreate, SettledLink, Stamp};
use crate::{
    credits::CreditsEvent,
    envelope::{IdempotencyMark, Metadata, NewEvent},
    event::Event,
    link::LinkEvent,
    shard::Position,
};

/// A command that this batch accepts; effective once the batch is committed.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// To stand side by side in the log.
    pub events: Vec<NewEvent>,
    /// What its answer is rendered from.
    pub settled: Settled,
}

/// What the answer to an accepted command is rendered from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// A new link.
    Create(SettledCreate),
    /// A link after its change.
    Change(SettledLink),
}

impl Settled {
    /// Notes where the last of its events has come to stand.
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
