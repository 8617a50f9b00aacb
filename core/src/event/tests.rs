use std::{collections::BTreeSet, fs, path::Path};

use serde_json::json;

use super::*;

/// Folder with one file for each version of each event ever written: `<type>.v<version>.json`.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/events");

/// Type, version and payload of each golden file.
fn golden() -> Vec<(String, i16, String)> {
    let files = fs::read_dir(GOLDEN).unwrap();
    files
        .map(|file| {
            let path = file.unwrap().path();
            let (event_type, version) = named(&path).unwrap_or_else(|| panic!("{path:?}"));
            let payload = fs::read_to_string(&path).unwrap();
            (event_type, version, payload.trim_end().to_owned())
        })
        .collect()
}

fn named(path: &Path) -> Option<(String, i16)> {
    let name = path.file_name()?.to_str()?.strip_suffix(".json")?;
    let (event_type, version) = name.rsplit_once(".v")?;
    Some((event_type.to_owned(), version.parse().ok()?))
}

#[test]
fn every_version_of_every_event_has_a_golden_file() {
    let known = CATALOGUE.iter().flat_map(|(event_type, newest)| {
        (1..=*newest).map(|version| ((*event_type).to_owned(), version))
    });
    let files = golden()
        .into_iter()
        .map(|(event_type, version, _)| (event_type, version));
    assert_eq!(files.collect::<BTreeSet<_>>(), known.collect());
}

#[test]
fn golden_events_round_trip_byte_for_byte() {
    for (event_type, version, payload) in golden() {
        let event = Event::from_stored(&event_type, version, &payload).unwrap();
        assert_eq!(event.event_type(), event_type);
        let written = event.to_payload();
        if version == event.schema_version() {
            assert_eq!(written, payload);
        } else {
            // An older version cannot be written any more, but the event that it is read as can.
            let again = Event::from_stored(&event_type, event.schema_version(), &written);
            assert_eq!(again.unwrap(), event);
        }
    }
}

#[test]
fn unknown_members_pass_unknown_types_fail() {
    for (event_type, version, payload) in golden() {
        let payload = payload.replacen('{', r#"{"later":1,"#, 1);
        assert!(Event::from_stored(&event_type, version, &payload).is_ok());
        let error = Event::from_stored(&event_type, version, "{}").unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("malformed payload of `{event_type}`")
        );
    }
    for (event_type, version) in [("LinkCreated", 99), ("LinkCreated", 0), ("LinkFrozen", 1)] {
        let error = Event::from_stored(event_type, version, "{}").unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("unknown event `{event_type}` version {version}")
        );
    }
}

/// Members that the owner of an account sees of the golden event of each type.
#[rustfmt::skip]
const OWNER_MEMBERS: &[(&str, &[&str])] = &[
    ("LinkCreated", &["link_id", "account_id", "slug", "short_url", "destination_url"]),
    ("LinkDestinationChanged", &["link_id", "account_id", "destination_url", "previous_destination_url"]),
    ("LinkDetailsChanged", &["link_id", "account_id", "changes"]),
    ("LinkDeleted", &["link_id", "account_id", "slug"]),
    ("LinkDisabled", &["link_id", "account_id", "by", "disabled_by"]),
    ("LinkEnabled", &["link_id", "account_id", "by"]),
    ("AccountCreated", &["account_id", "name", "external_id", "low_balance_at"]),
    ("AccountChanged", &["account_id", "changes"]),
    ("AccountSuspended", &["account_id", "stop_redirects"]),
    ("AccountResumed", &["account_id", "stop_redirects"]),
    ("ApiKeyIssued", &["account_id", "key_id", "name", "scopes", "expires_at"]),
    ("ApiKeyChanged", &["account_id", "key_id", "changes"]),
    ("ApiKeyRotated", &["account_id", "key_id", "new_key_id", "overlap_until"]),
    ("ApiKeyRevoked", &["account_id", "key_id", "revoked_at"]),
    ("WebhookCreated", &["account_id", "webhook_id", "url", "types", "description", "in_order", "secret"]),
    ("WebhookChanged", &["account_id", "webhook_id", "changes"]),
    ("WebhookSecretRotated", &["account_id", "webhook_id", "secret", "overlap_until"]),
    ("WebhookFailing", &["account_id", "webhook_id", "failing_since", "hours"]),
    ("WebhookDisabled", &["account_id", "webhook_id", "reason"]),
    ("WebhookDeleted", &["account_id", "webhook_id"]),
    ("LinkExpired", &["account_id", "link_id", "expires_at"]),
    ("LinkFirstClicked", &["account_id", "link_id", "clicked_at"]),
    ("LinksClicked", &["account_id", "minute", "links"]),
    ("CreditsGranted", &["account_id", "amount", "balance_after"]),
    ("CreditsAdjusted", &["account_id", "amount", "balance_after"]),
    ("CreditsCharged", &["account_id", "amount", "balance_after", "link_id", "key_id"]),
    ("CreditsRefunded", &["account_id", "amount", "balance_after", "refunds", "link_id"]),
    ("CreditsRevoked", &["account_id", "grant", "asked", "amount", "short", "balance_after"]),
];

#[test]
fn owner_sees_all_but_the_words_of_operators() {
    let seen: BTreeSet<&str> = OWNER_MEMBERS.iter().map(|(name, _)| *name).collect();
    assert_eq!(seen, CATALOGUE.iter().map(|(name, _)| *name).collect());
    for (event_type, version, payload) in golden() {
        let stored: Value = serde_json::from_str(&payload).unwrap();
        let row = OWNER_MEMBERS.iter().find(|(name, _)| *name == event_type);
        let (_, members) = row.unwrap();
        let expected = members
            .iter()
            .map(|name| ((*name).to_owned(), stored[*name].clone()));
        let event = Event::from_stored(&event_type, version, &payload).unwrap();
        let expected: Value = expected.collect::<serde_json::Map<_, _>>().into();
        assert_eq!(event.owner_payload(), expected, "{event_type}");
    }
}

#[test]
fn charge_keeps_the_threshold_that_it_crossed() {
    let payload = r#"{"account_id":"acc_01h455vb4pex5vsknk084sn02r","amount":1,"balance_after":99,"link_id":"lnk_01h455vb4pex5vsknk084sn02q","key_id":"key_01h455vb4pex5vsknk084sn02q","reason":"link_created","low_balance":100}"#;
    let event = Event::from_stored("CreditsCharged", 1, payload).unwrap();
    assert_eq!(event.to_payload(), payload);
    assert_eq!(event.owner_payload()["low_balance"], 100);
}

#[test]
fn owner_sees_the_description_of_credits_and_no_reference() {
    let mut payload = json!({
        "account_id": "acc_01h455vb4pex5vsknk084sn02r",
        "amount": 5,
        "balance_after": 5,
        "description": "Starter pack",
    });
    let seen = payload.clone();
    payload["reason"] = "paid".into();
    payload["reference"] = "invoice 2026-114".into();
    for event_type in ["CreditsGranted", "CreditsAdjusted"] {
        let event = Event::from_stored(event_type, 1, &payload.to_string()).unwrap();
        assert_eq!(event.owner_payload(), seen, "{event_type}");
    }
}
