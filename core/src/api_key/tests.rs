use time::{Duration, OffsetDateTime, macros::datetime};
use uuid::Uuid;

use super::*;
use crate::{
    change::ValueUpdate,
    id::{AccountId, KeyId},
    link::Expiry,
};

const NOW: OffsetDateTime = datetime!(2026-11-20 09:51:00.123 UTC);
const KEY: KeyId = KeyId::from_uuid(Uuid::from_u128(11));
const NEW_KEY: KeyId = KeyId::from_uuid(Uuid::from_u128(12));

fn given(revoked_at: Option<OffsetDateTime>) -> KeyState {
    let issued = ApiKeyIssued {
        account_id: AccountId::from_uuid(Uuid::from_u128(7)),
        key_id: KEY,
        name: "shop".to_owned(),
        scopes: Scope::names(&[Scope::CreditsRead, Scope::LinksRead]),
        expires_at: Some(Expiry::at(NOW + Duration::days(30))),
    };
    KeyState {
        revoked_at,
        ..KeyState::new(&issued, NOW)
    }
}

#[test]
fn names_of_scopes_are_unique_and_in_order() {
    let given = [Scope::CreditsRead, Scope::LinksRead, Scope::CreditsRead];
    assert_eq!(
        Scope::names(&given),
        ["link:links.read", "link:credits.read"]
    );
}

#[test]
fn change_has_only_members_that_differ() {
    let key = given(None);
    let reversed = key.scopes.iter().rev().cloned().collect();
    let same = KeyChangeRequest {
        name: Some(key.name.clone()),
        scopes: Some(reversed),
        expires_at: ValueUpdate::to(key.expires_at.map(Expiry::at)),
    };
    assert_eq!(key.decide_change(&same), None);
    assert_eq!(key.decide_change(&KeyChangeRequest::default()), None);
    let other = KeyChangeRequest {
        scopes: Some(vec!["link:later.read".to_owned()]),
        expires_at: ValueUpdate::Remove,
        ..same
    };
    let changed = key.decide_change(&other).unwrap();
    assert_eq!(changed.changes.name, None);
    let after = key.apply(&ApiKeyEvent::Changed(changed));
    assert_eq!(after.scopes, ["link:later.read"]);
    assert_eq!((after.name.as_str(), after.expires_at), ("shop", None));
}

#[test]
fn rotation_never_delays_a_revocation() {
    let overlap_until = NOW + Duration::days(7);
    for (revoked_at, until) in [
        (None, overlap_until),
        (Some(NOW + Duration::days(1)), NOW + Duration::days(1)),
        (Some(NOW + Duration::days(9)), overlap_until),
    ] {
        let key = given(revoked_at);
        let (issued, rotated) = key.decide_rotate(NEW_KEY, overlap_until);
        let new = KeyState::new(&issued, NOW);
        assert_eq!((new.key_id, new.revoked_at), (NEW_KEY, None));
        assert_eq!(
            (&new.name, &new.scopes, new.expires_at),
            (&key.name, &key.scopes, key.expires_at)
        );
        let old = key.apply(&ApiKeyEvent::Rotated(rotated));
        assert_eq!(old.revoked_at, Some(until));
    }
}

#[test]
fn key_is_revoked_once_and_never_later() {
    for (revoked_at, is_changed) in [
        (None, true),
        (Some(NOW + Duration::MILLISECOND), true),
        (Some(NOW), false),
        (Some(NOW - Duration::DAY), false),
    ] {
        let key = given(revoked_at);
        let revoked = key.decide_revoke(NOW);
        assert_eq!(revoked.is_some(), is_changed, "{revoked_at:?}");
        if let Some(revoked) = revoked {
            let key = key.apply(&ApiKeyEvent::Revoked(revoked));
            assert_eq!(key.revoked_at, Some(NOW));
            assert!(key.is_revoked(NOW));
        }
    }
}
