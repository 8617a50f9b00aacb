use linkledger_core::{
    api_key::{ApiKeyIssued, KeyChangeRequest, KeyState, Scope},
    id::KeyId,
    link::Expiry,
};
use time::Duration;

use super::*;

const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;
const KEY: KeyId = KeyId::from_uuid(Uuid::from_u128(11));
const NEW_KEY: KeyId = KeyId::from_uuid(Uuid::from_u128(12));

fn issued() -> ApiKeyIssued {
    ApiKeyIssued {
        account_id: ACCOUNT,
        key_id: KEY,
        name: "shop".to_owned(),
        scopes: Scope::names(&[Scope::LinksRead]),
        expires_at: Some(Expiry::at(NOW + Duration::days(30))),
    }
}

fn of_key(version: i64, key_event: ApiKeyEvent) -> TestEvent {
    event(version, Event::ApiKey(key_event))
}

/// Returns events that issue a key, change it and replace it, and the keys after them.
fn life_of_a_key() -> (Vec<TestEvent>, [KeyState; 2]) {
    let key = KeyState::new(&issued(), NOW);
    let request = KeyChangeRequest {
        scopes: Some(Scope::names(&Scope::ALL)),
        ..KeyChangeRequest::default()
    };
    let changed = ApiKeyEvent::Changed(key.decide_change(&request).unwrap());
    let key = key.apply(&changed);
    let (new, rotated) = key.decide_rotate(NEW_KEY, NOW + Duration::HOUR);
    let rotated = ApiKeyEvent::Rotated(rotated);
    let keys = [key.apply(&rotated), KeyState::new(&new, NOW)];
    let events = [
        ApiKeyEvent::Issued(issued()),
        changed,
        ApiKeyEvent::Issued(new),
        rotated,
    ];
    let events = (2..).zip(events);
    let events = events.map(|(version, event)| of_key(version, event));
    (
        [account_created()].into_iter().chain(events).collect(),
        keys,
    )
}

/// Returns the findings in the events; the keys were read at the head `read_at`.
fn found_with(events: &[TestEvent], keys: &[KeyState], read_at: Position) -> Vec<Found> {
    let mut expected = rows(&[], 0);
    for key in keys {
        expected.keys.insert(&expected.texts, key);
    }
    expected.keys.head = read_at;
    found_in(events, expected)
}

#[test]
fn rows_of_keys_are_compared_at_their_own_head() {
    let (events, keys) = life_of_a_key();
    assert_eq!(found_with(&events, &keys, 5), []);
    let first = [KeyState::new(&issued(), NOW)];
    assert_eq!(found_with(&events, &first, 2), []);
    let found = found_with(&events, &first, 5);
    let positions: Vec<_> = found.iter().map(|(position, _)| *position).collect();
    assert_eq!(positions, [Some(4), Some(5)], "{found:?}");
}

#[test]
fn every_member_of_a_key_follows_from_events() {
    let (events, [key, new]) = life_of_a_key();
    let other = |change: fn(&mut KeyState)| {
        let mut key = key.clone();
        change(&mut key);
        [key, new.clone()]
    };
    for (keys, text) in [
        (
            other(|key| key.account_id = AccountId::from_uuid(Uuid::nil())),
            "account",
        ),
        (other(|key| key.name.clear()), "name"),
        (other(|key| key.scopes.clear()), "scopes"),
        (
            other(|key| key.created_at += Duration::SECOND),
            "time of issue",
        ),
        (other(|key| key.expires_at = None), "expiry"),
        (other(|key| key.revoked_at = None), "revocation"),
    ] {
        let found = found_with(&events, &keys, 5);
        assert_one(&found, Some(5), &format!("come to: {text}"));
    }
}

#[test]
fn rows_and_events_need_each_other() {
    let (events, [key, new]) = life_of_a_key();
    let found = found_with(&events, std::slice::from_ref(&new), 5);
    assert_one(&found, Some(5), "it has no row in api_keys");
    let found = found_with(&events[..1], &[key], 1);
    assert_one(&found, None, "that no event explains");
}

#[test]
fn events_of_a_key_follow_its_issue() {
    let (events, _) = life_of_a_key();
    let with_version = |version, event: &TestEvent| TestEvent {
        version,
        ..event.clone()
    };
    let found_at = |events: &[TestEvent]| found_with(events, &[], 0);
    let unknown = [events[0].clone(), with_version(2, &events[2])];
    assert_one(&found_at(&unknown), Some(2), "it was never issued");
    let twice = [&events[..2], &[with_version(3, &events[1])]].concat();
    assert_one(&found_at(&twice), Some(3), "it was issued before");
    let again = [&events[..3], &[with_version(4, &events[2])]].concat();
    assert_one(
        &found_at(&again),
        Some(4),
        "it changes another list of scopes",
    );
    let alone = [&events[..3], &[with_version(4, &events[4])]].concat();
    assert_one(
        &found_at(&alone),
        Some(4),
        "should stand right before this ApiKeyRotated",
    );
}

#[test]
fn revocation_is_never_delayed() {
    let (mut events, [key, _]) = life_of_a_key();
    let revoked = |at| {
        let mut key = key.clone();
        key.revoked_at = None;
        of_key(6, ApiKeyEvent::Revoked(key.decide_revoke(at).unwrap()))
    };
    events.push(revoked(NOW));
    assert_eq!(found(&events), []);
    events[5] = revoked(NOW + Duration::DAY);
    assert_one(&found(&events), Some(6), "for an earlier time before");
}
