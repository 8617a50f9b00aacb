//! Messages to webhooks about events: which type of message, and its data.

use serde_json::Value;

use super::Event;
use crate::{
    account::AccountEvent,
    credits::CreditsEvent,
    link::LinkEvent,
    observation::ObservationEvent,
    shard::Position,
    webhook::{Audience, MessageType, WebhookEvent},
};

impl Event {
    /// Returns the type of the messages about the event; `None` if there are none. Without a wildcard, so that nobody
    /// adds a type of event without a decision. A created link and its charge are one message; a charge that crosses a
    /// threshold has one of its own, too.
    pub const fn message_type(&self) -> Option<MessageType> {
        match self {
            Self::Link(event) => Some(of_link(event)),
            Self::Account(event) => Some(of_account(event)),
            Self::Credits(event) => of_credits(event),
            Self::Observation(event) => Some(of_observation(event)),
            Self::Webhook(WebhookEvent::Failing(_)) => Some(MessageType::WebhookFailing),
            Self::Webhook(WebhookEvent::Disabled(_)) => Some(MessageType::WebhookDisabled),
            Self::Webhook(
                WebhookEvent::Created(_)
                | WebhookEvent::Changed(_)
                | WebhookEvent::SecretRotated(_)
                | WebhookEvent::Deleted(_),
            )
            | Self::ApiKey(_) => None,
        }
    }
}

const fn of_link(event: &LinkEvent) -> MessageType {
    match event {
        LinkEvent::Created(_) => MessageType::LinkCreated,
        LinkEvent::DestinationChanged(_) | LinkEvent::DetailsChanged(_) => MessageType::LinkUpdated,
        LinkEvent::Deleted(_) => MessageType::LinkDeleted,
        LinkEvent::Disabled(_) => MessageType::LinkDisabled,
        LinkEvent::Enabled(_) => MessageType::LinkEnabled,
    }
}

const fn of_observation(event: &ObservationEvent) -> MessageType {
    match event {
        ObservationEvent::LinkExpired(_) => MessageType::LinkExpired,
        ObservationEvent::LinkFirstClicked(_) => MessageType::LinkFirstClick,
        ObservationEvent::LinksClicked(_) => MessageType::LinkClicks,
    }
}

const fn of_account(event: &AccountEvent) -> MessageType {
    match event {
        AccountEvent::Created(_) => MessageType::AccountCreated,
        AccountEvent::Changed(_) => MessageType::AccountChanged,
        AccountEvent::Suspended(_) => MessageType::AccountSuspended,
        AccountEvent::Resumed(_) => MessageType::AccountResumed,
    }
}

const fn of_credits(event: &CreditsEvent) -> Option<MessageType> {
    match event {
        CreditsEvent::Granted(_) => Some(MessageType::CreditsGranted),
        CreditsEvent::Adjusted(_) => Some(MessageType::CreditsAdjusted),
        CreditsEvent::Refunded(_) => Some(MessageType::CreditsRefunded),
        CreditsEvent::Revoked(_) => Some(MessageType::CreditsRevoked),
        // Without a crossing, only part of the message about the link.
        CreditsEvent::Charged(charged) => match charged.low_balance {
            Some(_) => Some(MessageType::CreditsLow),
            None => None,
        },
    }
}

/// Returns the data of a message about an event: the payload as its readers see it, and the position of the event as
/// `sequence`. `charge` is the event that pays for a created link, at the next position.
pub fn message_data(
    event: &Event,
    sequence: Position,
    charge: Option<&Event>,
    audience: Audience,
) -> Value {
    let mut data = payload_with(event, sequence, audience);
    if let Some((members, charge)) = data.as_object_mut().zip(charge) {
        let charge = payload_with(charge, sequence + 1, audience);
        members.insert("charge".to_owned(), charge);
    }
    data
}

fn payload_with(event: &Event, sequence: Position, audience: Audience) -> Value {
    let mut payload = match audience {
        Audience::Owner => event.owner_payload(),
        Audience::Operator => event.payload_value(),
    };
    if let Some(members) = payload.as_object_mut() {
        members.insert("sequence".to_owned(), sequence.into());
    }
    payload
}

#[cfg(test)]
mod tests;
