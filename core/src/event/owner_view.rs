//! Events as the owner of the account sees them.

use serde_json::Value;

use super::Event;
use crate::{
    account::AccountEvent, api_key::ApiKeyEvent, credits::CreditsEvent, link::LinkEvent,
    observation::ObservationEvent, webhook::WebhookEvent,
};

impl Event {
    /// Returns the payload as the owner of the account sees it: without the members that only operators see.
    pub fn owner_payload(&self) -> Value {
        let mut payload = self.payload_value();
        if let Some(members) = payload.as_object_mut() {
            let hidden = self.members_for_operators();
            members.retain(|name, _| !hidden.contains(&name.as_str()));
        }
        payload
    }

    /// Returns the names of the members that only operators see: the words by which they record why they did
    /// something. Without a wildcard, so that nobody adds a type of event without a decision.
    const fn members_for_operators(&self) -> &'static [&'static str] {
        match self {
            Self::Link(
                LinkEvent::Created(_)
                | LinkEvent::DestinationChanged(_)
                | LinkEvent::DetailsChanged(_)
                | LinkEvent::Deleted(_),
            )
            | Self::Account(AccountEvent::Created(_) | AccountEvent::Changed(_))
            | Self::ApiKey(
                ApiKeyEvent::Issued(_)
                | ApiKeyEvent::Changed(_)
                | ApiKeyEvent::Rotated(_)
                | ApiKeyEvent::Revoked(_),
            )
            | Self::Webhook(
                WebhookEvent::Created(_)
                | WebhookEvent::Changed(_)
                | WebhookEvent::SecretRotated(_)
                | WebhookEvent::Failing(_)
                | WebhookEvent::Disabled(_)
                | WebhookEvent::Deleted(_),
            )
            | Self::Observation(
                ObservationEvent::LinkExpired(_)
                | ObservationEvent::LinkFirstClicked(_)
                | ObservationEvent::LinksClicked(_),
            ) => &[],
            Self::Link(LinkEvent::Disabled(_) | LinkEvent::Enabled(_))
            | Self::Account(AccountEvent::Suspended(_) | AccountEvent::Resumed(_))
            | Self::Credits(
                CreditsEvent::Charged(_) | CreditsEvent::Refunded(_) | CreditsEvent::Revoked(_),
            ) => &["reason"],
            Self::Credits(CreditsEvent::Granted(_) | CreditsEvent::Adjusted(_)) => {
                &["reason", "reference"]
            }
        }
    }
}
