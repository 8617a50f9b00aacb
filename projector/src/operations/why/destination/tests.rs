use linkledger_core::{
    clock::new_uuid,
    envelope::Metadata,
    event::Event,
    id::{AccountId, EventId, LinkId},
    link::{
        DisabledBy, ExistingLink, LinkDeleted, LinkDestinationChanged, LinkDisabled, LinkEvent,
    },
    shard::Shard,
};
use linkledger_testing as testing;
use time::macros::{date, datetime};

use super::*;

const NOW: OffsetDateTime = datetime!(2026-11-20 12:00 UTC);

/// Returns a stream, newest event first.
fn stream(changes: &[(OffsetDateTime, LinkEvent)]) -> Vec<RecordedEvent> {
    let mut link = None;
    let mut events = Vec::new();
    for (recorded_at, event) in changes {
        let next = match (link.take(), event) {
            (None, LinkEvent::Created(created)) => ExistingLink::new(created, *recorded_at),
            (Some(link), event) => ExistingLink::apply(link, event),
            (None, _) => panic!("it begins with its creation"),
        };
        let kept = (next.version > 1).then(|| next.state.clone());
        events.push(recorded(*recorded_at, event, next.version, kept));
        link = Some(next);
    }
    events.reverse();
    events
}

fn recorded(
    recorded_at: OffsetDateTime,
    event: &LinkEvent,
    version: i64,
    link: Option<LinkState>,
) -> RecordedEvent {
    let event = Event::Link(event.clone());
    RecordedEvent {
        shard: Shard::all().next().unwrap(),
        position: version,
        stream_id: event.subject().stream_id(),
        version,
        account_id: AccountId::from_uuid(new_uuid(NOW)),
        event_id: EventId::from_uuid(new_uuid(NOW)),
        event_type: event.event_type().to_owned(),
        schema_version: event.schema_version(),
        payload: event.to_payload(),
        metadata: Metadata {
            link: link.map(Into::into),
            ..Metadata::default()
        },
        recorded_at,
    }
}

fn life() -> Vec<RecordedEvent> {
    let link_id = LinkId::from_uuid(new_uuid(NOW));
    let account_id = AccountId::from_uuid(new_uuid(NOW));
    let created = testing::link_created(link_id, account_id, "spring", "https://a.example/");
    let changed = LinkDestinationChanged {
        link_id,
        account_id,
        destination_url: "https://b.example/".to_owned(),
        previous_destination_url: "https://a.example/".to_owned(),
    };
    let disabled = LinkDisabled {
        link_id,
        account_id,
        reason: "test".to_owned(),
        by: DisabledBy::Operator,
        disabled_by: DisabledBy::Operator,
    };
    let deleted = LinkDeleted {
        link_id,
        account_id,
        slug: "spring".to_owned(),
    };
    stream(&[
        (datetime!(2026-11-10 08:00 UTC), LinkEvent::Created(created)),
        (
            datetime!(2026-11-12 10:00 UTC),
            LinkEvent::DestinationChanged(changed),
        ),
        (
            datetime!(2026-11-12 16:00 UTC),
            LinkEvent::Disabled(disabled),
        ),
        (datetime!(2026-11-20 06:00 UTC), LinkEvent::Deleted(deleted)),
    ])
}

fn at(destination: &str) -> DestinationState {
    DestinationState::At(destination.to_owned())
}

/// Returns the start of each state in hours, and the state.
fn on(date: Date) -> Vec<(u8, DestinationState)> {
    let day = Day::of(date);
    let events: Vec<_> = life()
        .into_iter()
        .filter(|event| event.recorded_at < day.end)
        .collect();
    let stretches = stretches(&events, day, NOW);
    for pair in stretches.windows(2) {
        assert_eq!(pair[0].until, pair[1].from);
    }
    stretches
        .into_iter()
        .map(|it| (it.from.hour(), it.destination))
        .collect()
}

#[test]
fn day_shows_every_state_of_the_link() {
    let b = "https://b.example/";
    assert_eq!(on(date!(2026 - 11 - 09)), [(0, DestinationState::NotYet)]);
    assert_eq!(
        on(date!(2026 - 11 - 10)),
        [(0, DestinationState::NotYet), (8, at("https://a.example/"))]
    );
    assert_eq!(on(date!(2026 - 11 - 11)), [(0, at("https://a.example/"))]);
    assert_eq!(
        on(date!(2026 - 11 - 12)),
        [
            (0, at("https://a.example/")),
            (10, at(b)),
            (16, DestinationState::Disabled(b.to_owned())),
        ]
    );
    assert_eq!(
        on(date!(2026 - 11 - 20)),
        [
            (0, DestinationState::Disabled(b.to_owned())),
            (6, DestinationState::Deleted)
        ]
    );
}

#[test]
fn current_day_ends_now_and_future_is_empty() {
    let today = stretches(&life(), Day::of(date!(2026 - 11 - 20)), NOW);
    assert_eq!(today.last().unwrap().until, NOW);
    assert_eq!(on(date!(2026 - 11 - 21)), []);
}

#[test]
fn unread_part_of_a_day_is_marked() {
    let mut events = life();
    events.truncate(2);
    let day = stretches(&events, Day::of(date!(2026 - 11 - 12)), NOW);
    assert_eq!(day[0].destination, DestinationState::ChangesNotRead);
    let mut unreadable = life();
    unreadable[0].event_type = "LinkPainted".to_owned();
    let day = stretches(&unreadable, Day::of(date!(2026 - 11 - 20)), NOW);
    assert_eq!(day[1].destination, DestinationState::Unreadable);
}
