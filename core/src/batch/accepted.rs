//! Accepted commands of a batch: events, and the data from which answers are rendered.

use super::{DecisionIds, KeyedCreate, LinkChange, SettledCreate, SettledLink};
use crate::{
    credits::CreditsEvent,
    envelope::{IdempotencyMark, Metadata, NewEvent},
    event::Event,
    link::{ExistingLink, LinkEvent},
    shard::Position,
};

/// An accepted command; effective once the batch is committed.
#[derive(Debug, Clone)]
pub struct AcceptedCommand {
    /// Events of the command, at consecutive positions of the log.
    pub events: Vec<NewEvent>,
    /// Result of the command, from which the answer is rendered.
    pub settled: SettledCommand,
}

/// Result of an accepted command, from which the answer is rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettledCommand {
    /// Result of a create.
    Create(SettledCreate),
    /// A link after its change.
    Change(SettledLink),
}

impl SettledCommand {
    /// Returns the result of a create.
    pub fn as_create(&self) -> Option<&SettledCreate> {
        match self {
            Self::Create(create) => Some(create),
            Self::Change(_) => None,
        }
    }

    /// Records the position of the last event of the command.
    pub(super) fn set_position(&mut self, last: Position) {
        match self {
            Self::Create(create) => create.position = last,
            Self::Change(change) => change.position = last,
        }
    }
}

impl AcceptedCommand {
    pub(super) fn create(
        create: &KeyedCreate,
        ids: &DecisionIds,
        settled: SettledCreate,
        account_version: i64,
    ) -> Self {
        let [link_event_id, charge_event_id, ..] = ids.event_ids;
        let link_created = NewEvent {
            event_id: link_event_id,
            account_id: create.account_id,
            version: 1,
            recorded_at: ids.now,
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
            recorded_at: ids.now,
            event: Event::Credits(CreditsEvent::Charged(settled.charge.clone())),
            metadata: create.metadata.clone(),
            idempotency: None,
        };
        Self {
            events: vec![link_created, credits_charged],
            settled: SettledCommand::Create(settled),
        }
    }

    /// Returns the accepted change; `events` has the events with the link after each.
    ///
    /// # Panics
    /// Panics if there are more than [`EVENTS_MAX`](super::EVENTS_MAX) events: none may be dropped.
    pub(super) fn change(
        change: &LinkChange,
        ids: &DecisionIds,
        events: Vec<(LinkEvent, ExistingLink)>,
        settled: SettledLink,
    ) -> Self {
        assert!(
            events.len() <= ids.event_ids.len(),
            "each event needs an id"
        );
        let events = events.into_iter().zip(ids.event_ids);
        let events = events.map(|((event, after), event_id)| {
            let metadata = change.metadata.clone();
            NewEvent::of_link(event_id, ids.now, event, &after, metadata)
        });
        Self {
            events: events.collect(),
            settled: SettledCommand::Change(settled),
        }
    }
}
