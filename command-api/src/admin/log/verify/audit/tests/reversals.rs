use linkledger_core::credits::{CreditsRefunded, CreditsRevoked};

use super::*;

/// Positions of the grant and the charge of [`paid_link`].
const GRANT: Position = 2;
const CHARGE: Position = 4;

fn entry(position: Position) -> EntryId {
    EntryId::from_uuid(event_id(position).uuid())
}

fn refunded(version: i64, amount: i64, refunds: EntryId, balance_after: i64) -> TestEvent {
    let refunded = CreditsRefunded {
        account_id: ACCOUNT,
        amount,
        balance_after,
        refunds,
        link_id: LINK,
        reason: "x".to_owned(),
    };
    event(version, Event::Credits(CreditsEvent::Refunded(refunded)))
}

fn revoked(version: i64, grant: EntryId, numbers: [i64; 3], balance_after: i64) -> TestEvent {
    let [asked, amount, short] = numbers;
    let revoked = CreditsRevoked {
        account_id: ACCOUNT,
        grant,
        asked,
        amount,
        short,
        balance_after,
        reason: "x".to_owned(),
    };
    event(version, Event::Credits(CreditsEvent::Revoked(revoked)))
}

/// Returns the findings after these events.
fn found_after(events: &[TestEvent]) -> Vec<Found> {
    let named = events.iter().filter_map(|it| match &it.event {
        Event::Credits(CreditsEvent::Refunded(refunded)) => Some(refunded.refunds),
        Event::Credits(CreditsEvent::Revoked(revoked)) => Some(revoked.grant),
        Event::Link(_)
        | Event::Account(_)
        | Event::ApiKey(_)
        | Event::Webhook(_)
        | Event::Observation(_)
        | Event::Credits(_) => None,
    });
    let expected = Expected {
        reversed_entries: named.collect(),
        ..rows(&[], 0)
    };
    found_in(&[&paid_link()[..], events].concat(), expected)
}

#[test]
fn refund_and_revocation_of_own_entries_are_sound() {
    let refund = refunded(4, 3, entry(CHARGE), 10);
    let revocation = revoked(5, entry(GRANT), [10, 10, 0], 0);
    assert_eq!(found_after(&[refund, revocation]), []);
    let short = revoked(4, entry(GRANT), [10, 7, 3], 0);
    assert_eq!(found_after(&[short]), []);
}

#[test]
fn wrong_refund_is_found() {
    for (refund, text) in [
        (refunded(4, 2, entry(CHARGE), 9), "is 3 for lnk_"),
        (
            refunded(4, 3, entry(GRANT), 10),
            "is no earlier charge of the account",
        ),
        (
            refunded(4, 3, entry(9), 10),
            "is no earlier charge of the account",
        ),
    ] {
        assert_one(&found_after(&[refund]), Some(5), text);
    }
    let twice = [
        refunded(4, 3, entry(CHARGE), 10),
        refunded(5, 3, entry(CHARGE), 13),
    ];
    let found = found_after(&twice);
    assert_one(&found, Some(6), "was given back before, at position 5");
}

#[test]
fn wrong_revocation_is_found() {
    for (revocation, text) in [
        (revoked(4, entry(GRANT), [9, 7, 2], 0), "but ent_"),
        (
            revoked(4, entry(GRANT), [10, 7, 2], 0),
            "takes 7 and is 2 short",
        ),
        (
            revoked(4, entry(GRANT), [10, 6, 4], 1),
            "4 credits short, but leaves 1",
        ),
        (
            revoked(4, entry(CHARGE), [3, 3, 0], 4),
            "is no earlier grant of the account",
        ),
    ] {
        assert_one(&found_after(&[revocation]), Some(5), text);
    }
    let twice = [
        revoked(4, entry(GRANT), [10, 7, 3], 0),
        revoked(5, entry(GRANT), [10, 0, 10], 0),
    ];
    let found = found_after(&twice);
    assert_one(&found, Some(6), "was taken back before, at position 5");
}
