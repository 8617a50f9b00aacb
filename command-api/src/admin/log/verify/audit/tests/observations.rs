use linkledger_core::{
    link::{ExistingLink, Expiry, LinkDetails},
    observation::{LINKS_PER_EVENT_MAX, LinkClicks, LinksClicked, ObservationEvent},
};
use linkledger_event_store::link_expiries::LinkExpiry;
use linkledger_testing::events::{deleted, details_changed, expired, first_clicked};
use time::Duration;

use super::*;

/// Position of the link's creation.
const CREATION: Position = 3;
/// Head after [`paid_link`].
const PAID: Position = 4;

fn expires_at() -> OffsetDateTime {
    link_created().expires_at.unwrap().instant()
}

/// Returns the second event of the link.
fn changed(event: Event) -> TestEvent {
    let Event::Link(event) = event else {
        panic!("not of a link: {event:?}");
    };
    let link = ExistingLink::new(&link_created(), OffsetDateTime::UNIX_EPOCH);
    let after = link.apply(&event).state;
    of_link(2, event, Some(after))
}

/// Returns the second event of the link, which changes its expiry.
fn moved_to(expires_at: Option<OffsetDateTime>) -> TestEvent {
    let details = LinkDetails {
        expires_at: expires_at.map(Expiry::at),
        ..link_created().details()
    };
    changed(details_changed(&link_created(), &details))
}

/// Returns the findings in the paid link and these events; at the head `read_at`, the link had a row with this expiry.
fn found_with(
    later: &[TestEvent],
    expires_at: Option<OffsetDateTime>,
    read_at: Position,
) -> Vec<Found> {
    let mut expected = rows(&[], 0);
    expected.expiries.head = read_at;
    let row = expires_at.map(|expires_at| LinkExpiry {
        link_id: LINK,
        account_id: ACCOUNT,
        expires_at,
    });
    expected.expiries.rows.extend(row);
    found_in(&[&paid_link()[..], later].concat(), expected)
}

#[test]
fn rows_of_expiries_are_compared_at_their_own_head() {
    let set = Some(expires_at());
    assert_eq!(found_with(&[], set, PAID), []);
    let found = found_with(&[], None, PAID);
    assert_one(&found, Some(CREATION), "is not that of its row");
    let other = set.map(|it| it + Duration::MILLISECOND);
    let found = found_with(&[], other, PAID);
    assert_one(&found, Some(CREATION), "is not that of its row");
    for end in [
        moved_to(None),
        changed(deleted(&link_created())),
        event(4, expired(&link_created())),
    ] {
        let end = [end];
        assert_eq!(found_with(&end, set, PAID), []);
        assert_eq!(found_with(&end, None, PAID + 1), []);
        let found = found_with(&end, set, PAID + 1);
        assert_one(&found, None, ") that no event explains");
    }
    let moved = [moved_to(other)];
    assert_eq!(found_with(&moved, set, PAID), []);
    assert_eq!(found_with(&moved, other, PAID + 1), []);
    let found = found_with(&moved, set, PAID + 1);
    assert_one(&found, Some(PAID + 1), "is not that of its row");
}

#[test]
fn expiry_is_observed_once_and_as_it_was_set() {
    let observed = |version| event(version, expired(&link_created()));
    let text = "had no such expiry, or had expired before";
    let found = found_with(&[observed(4), observed(5)], None, PAID + 1);
    assert_one(&found, Some(PAID + 2), text);
    let gone = [changed(deleted(&link_created())), observed(4)];
    assert_one(&found_with(&gone, None, PAID + 1), Some(PAID + 2), text);
    let moved = [moved_to(Some(expires_at() + Duration::DAY)), observed(4)];
    assert_one(&found_with(&moved, None, PAID + 2), Some(PAID + 2), text);
}

#[test]
fn moved_expiry_is_observed_again() {
    let later = expires_at() + Duration::DAY;
    let mut moved = link_created();
    moved.expires_at = Some(Expiry::at(later));
    let events = [
        event(4, expired(&link_created())),
        moved_to(Some(later)),
        event(5, expired(&moved)),
    ];
    assert_eq!(found_with(&events[..2], Some(later), PAID + 2), []);
    assert_eq!(found_with(&events, None, PAID + 3), []);
}

#[test]
fn link_has_one_first_click() {
    let observed = |version| event(version, first_clicked(&link_created()));
    let set = Some(expires_at());
    assert_eq!(found_with(&[observed(4)], set, PAID), []);
    let found = found_with(&[observed(4), observed(5)], set, PAID);
    assert_one(&found, Some(PAID + 2), "was clicked before");
}

fn clicks(number: u128) -> LinkClicks {
    LinkClicks {
        link_id: LinkId::from_uuid(Uuid::from_u128(number)),
        clicks: 1,
        bots: 0,
    }
}

fn many(count: usize) -> Vec<LinkClicks> {
    (0..).map(clicks).take(count).collect()
}

#[test]
fn clicks_of_a_minute_keep_their_rules() {
    let negative = LinkClicks {
        bots: -1,
        ..clicks(1)
    };
    let found_in_minute = |links: Vec<LinkClicks>, seconds| {
        let clicked = LinksClicked {
            account_id: ACCOUNT,
            minute: OffsetDateTime::UNIX_EPOCH + Duration::seconds(seconds),
            links,
        };
        let observation = Event::Observation(ObservationEvent::LinksClicked(clicked));
        found_with(&[event(4, observation)], Some(expires_at()), PAID)
    };
    assert_eq!(found_in_minute(many(LINKS_PER_EVENT_MAX), 60), []);
    for (links, seconds, text) in [
        (many(1), 61, "its minute does not begin"),
        (Vec::new(), 60, "it has no links, or too many"),
        (
            many(LINKS_PER_EVENT_MAX + 1),
            60,
            "it has no links, or too many",
        ),
        (vec![clicks(1), clicks(1)], 60, "it has a link twice"),
        (vec![negative], 60, "it has a negative number"),
    ] {
        assert_one(&found_in_minute(links, seconds), Some(PAID + 1), text);
    }
}
