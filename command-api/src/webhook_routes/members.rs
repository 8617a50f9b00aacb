//! Members of the bodies of requests about webhooks: their names, and the parsers of their values.

use linkledger_core::{
    field::FieldCode,
    id::EventId,
    timestamp,
    webhook::{MessageType, OVERLAP_HOURS_MAX},
};
use linkledger_http::admin_body::{Members, number};
use serde_json::Value;
use time::OffsetDateTime;

use crate::admin::webhook::WebhookOwner;

pub(super) use linkledger_http::admin_body::{text, text_of};

/// Address of a webhook.
pub(super) const URL: &str = "url";
/// Types of the messages of a webhook.
pub(super) const TYPES: &str = "types";
/// Description of a webhook.
pub(super) const DESCRIPTION: &str = "description";
/// Switch of a webhook.
pub(super) const ENABLED: &str = "enabled";
/// Switch for messages in order.
pub(super) const IN_ORDER: &str = "in_order";
/// Time for which a replaced secret signs too.
pub(super) const OVERLAP_HOURS: &str = "overlap_hours";
/// Instant at which a replay starts.
pub(super) const FROM: &str = "from";
/// Instant at which a replay ends.
pub(super) const TO: &str = "to";

/// Parses the types of messages, and returns each once, in the order of their declaration.
pub(super) fn types(members: &mut Members<'_>, owner: WebhookOwner) -> Option<Vec<String>> {
    let named = members.array(TYPES, |value| {
        let name = text_of(value)?;
        let named = of_owner(owner).find(|it| it.name() == name);
        named.ok_or(FieldCode::MessageTypeInvalid)
    })?;
    let types = of_owner(owner).filter(|it| named.contains(it));
    Some(types.map(|it| it.name().to_owned()).collect())
}

/// Returns the types of messages that webhooks of the owner can receive.
pub(super) fn of_owner(owner: WebhookOwner) -> impl Iterator<Item = MessageType> {
    let of_all = owner.owns_all_accounts();
    MessageType::subscribable().filter(move |it| of_all || !it.is_for_operators())
}

/// Parses a switch.
pub(super) fn switch(value: &Value) -> Result<bool, FieldCode> {
    value.as_bool().ok_or(FieldCode::WrongType)
}

/// Parses the hours of an overlap.
pub(super) fn overlap_hours(value: &Value) -> Result<u16, FieldCode> {
    let invalid = FieldCode::OverlapHoursInvalid;
    let hours = number(value, invalid, |hours| hours <= OVERLAP_HOURS_MAX.into())?;
    u16::try_from(hours).map_err(|_| invalid)
}

/// Parses an instant.
pub(super) fn instant(value: &Value) -> Result<OffsetDateTime, FieldCode> {
    timestamp::parse(text_of(value)?).ok_or(FieldCode::InstantInvalid)
}

/// Parses the id of an event.
pub(super) fn event_id(value: &Value) -> Result<EventId, FieldCode> {
    let parsed = text_of(value)?.parse();
    parsed.map_err(|_| FieldCode::EventIdInvalid)
}

#[cfg(test)]
mod tests {
    use linkledger_core::{id::AccountId, json::JsonObject};
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    const OWNER: WebhookOwner = WebhookOwner::Account(AccountId::from_uuid(Uuid::nil()));

    fn parse(owner: WebhookOwner, types_sent: &Value) -> Result<Vec<String>, Vec<FieldCode>> {
        let body = json!({ "types": types_sent }).to_string();
        let object = JsonObject::parse(body.as_bytes()).unwrap();
        let mut members = Members::of(&object, &[TYPES]);
        let parsed = types(&mut members, owner);
        let codes = |errors: Vec<linkledger_core::field::FieldError>| {
            errors.iter().map(|error| error.code).collect()
        };
        members.finish(|| parsed).map_err(codes)
    }

    #[test]
    fn types_are_named_once_in_their_order() {
        let sent = json!(["link.deleted", "link.created", "link.deleted"]);
        let parsed = parse(OWNER, &sent).unwrap();
        assert_eq!(parsed, ["link.created", "link.deleted"]);
        assert_eq!(parse(OWNER, &json!([])), Ok(Vec::new()));
        for name in ["webhook.test", "link.frozen", "Link.created", ""] {
            let refused = parse(WebhookOwner::Operators, &json!([name]));
            assert_eq!(refused, Err(vec![FieldCode::MessageTypeInvalid]), "{name}");
        }
    }

    #[test]
    fn types_of_operators_are_refused_to_owners() {
        for name in [
            "account.created",
            "account.changed",
            "webhook.failing",
            "webhook.disabled",
        ] {
            let sent = json!([name]);
            let refused = parse(OWNER, &sent);
            assert_eq!(refused, Err(vec![FieldCode::MessageTypeInvalid]), "{name}");
            assert_eq!(parse(WebhookOwner::Operators, &sent).unwrap(), [name]);
        }
    }

    #[test]
    fn overlap_is_a_whole_number_of_hours() {
        for hours in [0, 24, 168] {
            assert_eq!(overlap_hours(&json!(hours)), Ok(hours));
        }
        for invalid in [json!(-1), json!(169), json!(1.5), json!(70_000)] {
            let refused = overlap_hours(&invalid);
            assert_eq!(refused, Err(FieldCode::OverlapHoursInvalid), "{invalid}");
        }
        assert_eq!(overlap_hours(&json!("1")), Err(FieldCode::WrongType));
    }
}
