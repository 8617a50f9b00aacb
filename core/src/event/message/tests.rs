use std::collections::BTreeSet;

use super::*;
use crate::credits::CreditsCharged;

/// Returns the golden event of this type.
macro_rules! golden {
    ($event_type:literal) => {
        Event::from_stored(
            $event_type,
            1,
            include_str!(concat!("../../../tests/events/", $event_type, ".v1.json")),
        )
        .unwrap()
    };
}

/// Returns a charge that crosses a threshold.
fn low_charge() -> Event {
    let Event::Credits(CreditsEvent::Charged(charged)) = golden!("CreditsCharged") else {
        panic!("the golden file of another event");
    };
    Event::Credits(CreditsEvent::Charged(CreditsCharged {
        low_balance: Some(1_000),
        ..charged
    }))
}

#[test]
fn each_type_of_message_but_the_test_comes_from_events() {
    let events = [
        golden!("LinkCreated"),
        golden!("LinkDestinationChanged"),
        golden!("LinkDetailsChanged"),
        golden!("LinkDeleted"),
        golden!("LinkDisabled"),
        golden!("LinkEnabled"),
        golden!("CreditsGranted"),
        golden!("CreditsAdjusted"),
        golden!("CreditsRefunded"),
        golden!("CreditsRevoked"),
        low_charge(),
        golden!("AccountCreated"),
        golden!("AccountChanged"),
        golden!("AccountSuspended"),
        golden!("AccountResumed"),
        golden!("WebhookFailing"),
        golden!("WebhookDisabled"),
        golden!("LinkExpired"),
        golden!("LinkFirstClicked"),
        golden!("LinksClicked"),
    ];
    let types = events.iter().map(|event| event.message_type().unwrap());
    let types: BTreeSet<&str> = types.map(MessageType::name).collect();
    let subscribable = MessageType::subscribable().map(MessageType::name);
    assert_eq!(types, subscribable.collect());
    for event in [
        golden!("CreditsCharged"),
        golden!("ApiKeyIssued"),
        golden!("ApiKeyChanged"),
        golden!("ApiKeyRotated"),
        golden!("ApiKeyRevoked"),
        golden!("WebhookCreated"),
        golden!("WebhookChanged"),
        golden!("WebhookSecretRotated"),
        golden!("WebhookDeleted"),
    ] {
        assert_eq!(event.message_type(), None, "{event:?}");
    }
}

#[test]
fn message_of_a_created_link_has_the_charge() {
    let (link, charge) = (golden!("LinkCreated"), golden!("CreditsCharged"));
    let mut expected = payload(&link);
    let mut of_charge = payload(&charge);
    expected["sequence"] = 41.into();
    of_charge["sequence"] = 42.into();
    expected["charge"] = of_charge.clone();
    let data = message_data(&link, 41, Some(&charge), Audience::Operator);
    assert_eq!(data, expected);
    // Owners see no reason of a charge.
    of_charge.as_object_mut().unwrap().remove("reason");
    expected["charge"] = of_charge;
    let data = message_data(&link, 41, Some(&charge), Audience::Owner);
    assert_eq!(data, expected);
}

#[test]
fn message_about_a_low_balance_has_the_charge() {
    let mut expected = payload(&low_charge());
    expected["sequence"] = 42.into();
    assert_eq!(expected["low_balance"], 1_000);
    let data = message_data(&low_charge(), 42, None, Audience::Operator);
    assert_eq!(data, expected);
    expected.as_object_mut().unwrap().remove("reason");
    let data = message_data(&low_charge(), 42, None, Audience::Owner);
    assert_eq!(data, expected);
    // The message about the link names it too.
    let link = message_data(
        &golden!("LinkCreated"),
        41,
        Some(&low_charge()),
        Audience::Owner,
    );
    assert_eq!(link["charge"], expected);
}

#[test]
fn only_operators_see_the_words_of_operators() {
    let disabled = golden!("LinkDisabled");
    let data = message_data(&disabled, 5, None, Audience::Operator);
    assert_eq!(data["reason"], "phishing, ticket 481");
    let data = message_data(&disabled, 5, None, Audience::Owner);
    assert_eq!(data.get("reason"), None);
    assert_eq!(data["sequence"], 5);
}

#[test]
fn debug_output_of_events_hides_paths() {
    let shown = format!(
        "{:?} {:?}",
        golden!("WebhookCreated"),
        golden!("WebhookChanged")
    );
    assert!(shown.contains("url: hooks.example.com/…"), "{shown}");
    assert!(
        !shown.contains("/linkledger") && !shown.contains("/in"),
        "{shown}"
    );
}

fn payload(event: &Event) -> Value {
    serde_json::from_str(&event.to_payload()).unwrap()
}
