use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, macros::datetime};
use uuid::Uuid;

use super::*;
use crate::{
    change::ValueUpdate,
    id::{AccountId, EventId, WebhookId},
};

const NOW: OffsetDateTime = datetime!(2026-11-20 09:51:00.123 UTC);
const LATER: OffsetDateTime = datetime!(2026-11-21 09:51:00.123 UTC);

fn given() -> Webhook {
    Webhook::new(&created(), NOW)
}

fn created() -> WebhookCreated {
    WebhookCreated {
        account_id: AccountId::from_uuid(Uuid::from_u128(7)),
        webhook_id: WebhookId::from_uuid(Uuid::from_u128(11)),
        url: WebhookUrl::stored("https://hooks.example/"),
        types: vec!["link.created".to_owned(), "link.deleted".to_owned()],
        description: Some("shop".to_owned()),
        in_order: false,
        all_accounts: false,
        secret: version(1),
    }
}

fn version(generation: i32) -> SecretVersion {
    SecretVersion {
        master_key_id: "2026-11".to_owned(),
        generation,
    }
}

fn change(wanted: &WebhookChangeRequest, webhook: &Webhook) -> WebhookEvent {
    WebhookEvent::Changed(webhook.decide_change(wanted).unwrap())
}

fn enabled(is_enabled: bool) -> WebhookChangeRequest {
    WebhookChangeRequest {
        enabled: Some(is_enabled),
        ..WebhookChangeRequest::default()
    }
}

#[test]
fn change_has_only_members_that_differ() {
    let webhook = given();
    let same = WebhookChangeRequest {
        url: Some(webhook.url.clone()),
        types: Some(webhook.types.iter().rev().cloned().collect()),
        description: ValueUpdate::to(webhook.description.clone()),
        enabled: Some(true),
        in_order: Some(false),
    };
    assert_eq!(webhook.decide_change(&same), None);
    let nothing = WebhookChangeRequest::default();
    assert_eq!(webhook.decide_change(&nothing), None);
    let other = WebhookChangeRequest {
        types: Some(vec!["link.later".to_owned()]),
        description: ValueUpdate::Remove,
        ..same
    };
    let changed = webhook.decide_change(&other).unwrap();
    let of = &changed.changes;
    assert_eq!((&of.url, &of.enabled, &of.in_order), (&None, &None, &None));
    let after = webhook.apply(&WebhookEvent::Changed(changed), LATER);
    let expected = Webhook {
        types: vec!["link.later".to_owned()],
        description: None,
        updated_at: LATER,
        ..given()
    };
    assert_eq!(after, expected);
}

#[test]
fn rotation_keeps_the_secret_before_for_the_overlap() {
    let webhook = given();
    let rotated = webhook.decide_rotate("2027-01", LATER);
    let after = webhook.apply(&WebhookEvent::SecretRotated(rotated), NOW);
    assert_eq!(
        (after.secret.master_key_id.as_str(), after.secret.generation),
        ("2027-01", 2)
    );
    let previous = after.previous_secret.clone().unwrap();
    assert_eq!(
        (previous.version, previous.valid_until),
        (version(1), LATER)
    );
    // A second rotation ends the overlap of the first one.
    let until = LATER + Duration::days(7);
    let rotated = after.decide_rotate("2027-01", until);
    let after = after.apply(&WebhookEvent::SecretRotated(rotated), LATER);
    let previous = after.previous_secret.unwrap();
    assert_eq!(
        (previous.version.generation, previous.valid_until),
        (2, until)
    );
    assert_eq!(after.secret.generation, 3);
}

#[test]
fn service_disables_an_enabled_webhook_once() {
    let webhook = given();
    let disabled = webhook.decide_disable(DisabledReason::Gone).unwrap();
    let webhook = webhook.apply(&WebhookEvent::Disabled(disabled), LATER);
    assert!(!webhook.enabled);
    assert_eq!(webhook.disabled_reason, Some(DisabledReason::Gone));
    assert_eq!(webhook.decide_disable(DisabledReason::Unreachable), None);
    assert_eq!(webhook.decide_change(&enabled(false)), None);
    // Enabling clears the reason, and disabling by the owner sets none.
    let event = change(&enabled(true), &webhook);
    let webhook = webhook.apply(&event, LATER);
    assert!(webhook.enabled);
    assert_eq!(webhook.disabled_reason, None);
    let event = change(&enabled(false), &webhook);
    let webhook = webhook.apply(&event, LATER);
    assert!(!webhook.enabled);
    assert_eq!(webhook.disabled_reason, None);
    assert_eq!(webhook.decide_disable(DisabledReason::Gone), None);
}

#[test]
fn notice_of_a_failing_receiver_changes_nothing() {
    let failing = WebhookEvent::Failing(WebhookFailing {
        account_id: given().account_id,
        webhook_id: given().webhook_id,
        failing_since: NOW,
        hours: 24,
    });
    assert_eq!(failing.webhook_id(), given().webhook_id);
    assert_eq!(given().apply(&failing, LATER), given());
}

#[test]
fn deletion_changes_nothing() {
    let deleted = WebhookDeleted {
        account_id: given().account_id,
        webhook_id: given().webhook_id,
    };
    let event = WebhookEvent::Deleted(deleted);
    assert_eq!(event.webhook_id(), given().webhook_id);
    assert_eq!(given().apply(&event, LATER), given());
}

#[test]
fn webhook_wants_its_types_and_operators_theirs() {
    let of_owner = |types: &[&str]| Webhook {
        types: types.iter().map(|&name| name.to_owned()).collect(),
        ..given()
    };
    let of_operators = |types: &[&str]| Webhook {
        all_accounts: true,
        ..of_owner(types)
    };
    let wanted = |webhook: &Webhook| -> BTreeSet<&str> {
        let types = MessageType::ALL.into_iter();
        let types = types.filter(|message_type| webhook.wants(*message_type));
        types.map(MessageType::name).collect()
    };
    let all: BTreeSet<&str> = MessageType::subscribable().map(MessageType::name).collect();
    assert!(!all.contains("webhook.test"));
    assert_eq!(all.len(), MessageType::ALL.len() - 1);
    let without_clicks = &all - &BTreeSet::from(["link.clicks"]);
    assert_eq!(wanted(&of_operators(&[])), without_clicks);
    let hidden = [
        "account.created",
        "account.changed",
        "webhook.failing",
        "webhook.disabled",
    ];
    let of_owners = &without_clicks - &BTreeSet::from(hidden);
    assert_eq!(wanted(&of_owner(&[])), of_owners);
    let named = &["link.created", "webhook.disabled", "webhook.test", "later"];
    assert_eq!(wanted(&of_owner(named)), ["link.created"].into());
    assert_eq!(
        wanted(&of_operators(named)),
        ["link.created", "webhook.disabled"].into()
    );
    let clicks = &["link.clicks"];
    assert_eq!(wanted(&of_owner(clicks)), ["link.clicks"].into());
    assert_eq!(wanted(&of_operators(clicks)), ["link.clicks"].into());
}

#[test]
fn body_has_type_timestamp_and_data_in_this_order() {
    let body = message_body(MessageType::Test, NOW, &json!({ "b": 1, "a": "\u{e4}\n" }));
    assert!(
        body.starts_with(
            r#"{"type":"webhook.test","timestamp":"2026-11-20T09:51:00.123Z","data":{"#
        ),
        "{body}"
    );
    let read: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(read["data"], json!({ "b": 1, "a": "\u{e4}\n" }));
}

#[test]
fn ordered_body_has_the_bodies_of_its_messages_with_ids() {
    let event_id = |number| EventId::from_uuid(Uuid::from_u128(number));
    let first = message_body(MessageType::LinkCreated, NOW, &json!({ "a": "}\u{e4}\"" }));
    let second = message_body(MessageType::LinkDeleted, LATER, &json!({}));
    let item = |number, recorded_at, body| OrderedItem {
        event_id: event_id(number),
        recorded_at,
        body,
    };
    let items = [
        item(1, NOW, first.as_str()),
        item(2, LATER, second.as_str()),
    ];
    let body = ordered_body(&items);
    assert!(
        body.starts_with(
            r#"{"type":"events","timestamp":"2026-11-21T09:51:00.123Z","data":{"items":[{"id":"evt_"#
        ),
        "{body}"
    );
    let read: Value = serde_json::from_str(&body).unwrap();
    let with_id = |body: &str, number| {
        let mut alone: Value = serde_json::from_str(body).unwrap();
        alone["id"] = event_id(number).to_string().into();
        alone
    };
    let expected = json!({ "items": [with_id(&first, 1), with_id(&second, 2)] });
    assert_eq!(read["data"], expected);
    // The same form with one message.
    let alone: Value = serde_json::from_str(&ordered_body(&items[..1])).unwrap();
    assert_eq!(alone["timestamp"], "2026-11-20T09:51:00.123Z");
    assert_eq!(alone["data"], json!({ "items": [with_id(&first, 1)] }));
}

#[test]
fn created_webhook_has_no_member_of_operators() {
    let of_owner = serde_json::to_value(created()).unwrap();
    assert_eq!(of_owner.get("all_accounts"), None);
    let of_operators = WebhookCreated {
        all_accounts: true,
        ..created()
    };
    let stored = serde_json::to_string(&of_operators).unwrap();
    let read: WebhookCreated = serde_json::from_str(&stored).unwrap();
    assert_eq!(read, of_operators);
}

fn requests() -> impl Strategy<Value = WebhookChangeRequest> {
    let url = prop::option::of("https://[ab]\\.example/".prop_map(WebhookUrl::stored));
    let types = prop::collection::vec(prop::sample::select(&["a", "b", "c"][..]), 0..3);
    let types = types.prop_map(|names| names.into_iter().map(str::to_owned).collect());
    let description = prop_oneof![
        Just(ValueUpdate::Keep),
        Just(ValueUpdate::Remove),
        "[xy]".prop_map(ValueUpdate::Set),
    ];
    let switches = (any::<Option<bool>>(), any::<Option<bool>>());
    (url, prop::option::of(types), description, switches).prop_map(
        |(url, types, description, (enabled, in_order))| WebhookChangeRequest {
            url,
            types,
            description,
            enabled,
            in_order,
        },
    )
}

proptest! {
    #[test]
    fn change_leads_to_the_wanted_webhook(requests in prop::collection::vec(requests(), 1..6)) {
        let mut webhook = given();
        for request in requests {
            let decided = webhook.decide_change(&request);
            let after = match &decided {
                Some(changed) => webhook.clone().apply(&WebhookEvent::Changed(changed.clone()), LATER),
                None => webhook.clone(),
            };
            // The same request again changes nothing.
            prop_assert_eq!(after.decide_change(&request), None);
            prop_assert_eq!(after.enabled, request.enabled.unwrap_or(webhook.enabled));
            prop_assert_eq!(after.in_order, request.in_order.unwrap_or(webhook.in_order));
            prop_assert_eq!(&after.url, request.url.as_ref().unwrap_or(&webhook.url));
            let description = request.description.clone().apply_to(webhook.description.clone());
            prop_assert_eq!(&after.description, &description);
            // A change touches neither the secret nor whom the webhook serves.
            prop_assert_eq!(&after.secret, &webhook.secret);
            prop_assert_eq!(after.all_accounts, webhook.all_accounts);
            webhook = after;
        }
    }

    #[test]
    fn generation_counts_the_rotations(count in 1_i32..20) {
        let mut webhook = given();
        for nth in 0..count {
            let until = NOW + Duration::hours(nth.into());
            let rotated = webhook.decide_rotate("2027-01", until);
            webhook = webhook.apply(&WebhookEvent::SecretRotated(rotated), NOW);
        }
        prop_assert_eq!(webhook.secret.generation, count + 1);
        prop_assert_eq!(webhook.previous_secret.unwrap().version.generation, count);
    }
}
