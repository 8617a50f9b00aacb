//! Given parked accounts and events, then a plan.

use linkledger_core::{
    credits::{CreditsEvent, CreditsGranted},
    envelope::{Metadata, RecordedEvent},
    event::Event,
    id::{AccountId, EventId},
    shard::Shard,
};
use time::OffsetDateTime;
use uuid::Uuid;

use super::*;
use crate::{
    pipeline::{checkpoint::Checkpoint, poison::Reason, progress::Progress},
    read_models::skipped::Skipped,
};

const ANNA: AccountId = AccountId::from_uuid(Uuid::from_u128(1));
const BERT: AccountId = AccountId::from_uuid(Uuid::from_u128(2));

fn shard() -> Shard {
    Shard::new(3).unwrap()
}

fn event_id(position: Position) -> EventId {
    EventId::from_uuid(Uuid::from_u128(position.unsigned_abs().into()))
}

fn recorded(position: Position, account_id: AccountId) -> RecordedEvent {
    let granted = CreditsGranted {
        account_id,
        amount: 1,
        balance_after: position,
        reason: "test".to_owned(),
    };
    RecordedEvent {
        shard: shard(),
        position,
        stream_id: account_id.uuid(),
        version: position,
        account_id,
        event_id: event_id(position),
        event_type: "CreditsGranted".to_owned(),
        schema_version: 1,
        payload: Event::Credits(CreditsEvent::Granted(granted)).to_payload(),
        metadata: Metadata::default(),
        recorded_at: OffsetDateTime::UNIX_EPOCH,
    }
}

fn sound(position: Position, account_id: AccountId) -> RunEvent {
    RunEvent::read(recorded(position, account_id))
}

fn unknown(position: Position, account_id: AccountId) -> RunEvent {
    RunEvent::read(RecordedEvent {
        schema_version: 2,
        ..recorded(position, account_id)
    })
}

fn parked_in(projection: Projection, account_id: AccountId) -> ParkedAccount {
    ParkedAccount {
        projection,
        generation: 1,
        shard: shard(),
        account_id,
    }
}

/// Events from position 1 on, with the projections at these positions.
fn run(positions: [Position; 3], events: Vec<RunEvent>, parked: &[ParkedAccount]) -> Run {
    let checkpoints = positions.map(|position| Checkpoint {
        generation: 1,
        epoch: 1,
        position,
    });
    Run {
        progress: Progress::new(shard(), 1, checkpoints, 0),
        events,
        parked: parked.iter().copied().collect(),
        skipped: Skipped::default(),
    }
}

fn applied(plan: &Plan<'_>, projection: Projection) -> Vec<Position> {
    let applied = plan.applied.iter().filter(|it| it.0 == projection);
    applied.map(|it| it.2.recorded.position).collect()
}

fn waiting(plan: &Plan<'_>, projection: Projection) -> Vec<Position> {
    let waiting = plan.waiting.iter();
    let waiting = waiting.filter(|(account, _)| account.projection == projection);
    waiting.map(|(_, position)| *position).collect()
}

#[test]
fn given_sound_events_then_all_are_applied_and_nobody_is_parked() {
    let runs = [run([0; 3], vec![sound(1, ANNA), sound(2, BERT)], &[])];
    let plan = Plan::of(&runs, &Projection::ALL);
    for projection in Projection::ALL {
        assert_eq!(applied(&plan, projection), [1, 2]);
    }
    assert!(plan.parked.is_empty() && plan.waiting.is_empty());
}

#[test]
fn given_an_unknown_event_then_its_account_waits_from_there_on_and_others_go_on() {
    let events = vec![
        sound(1, ANNA),
        unknown(2, ANNA),
        sound(3, BERT),
        sound(4, ANNA),
        unknown(5, ANNA),
    ];
    let runs = [run([0; 3], events, &[])];
    let plan = Plan::of(&runs, &Projection::ALL);
    for projection in Projection::ALL {
        assert_eq!(applied(&plan, projection), [1, 3]);
        assert_eq!(waiting(&plan, projection), [2, 4, 5]);
    }
    let parked: Vec<_> = plan.parked.iter().map(|it| it.account).collect();
    assert_eq!(parked, Projection::ALL.map(|it| parked_in(it, ANNA)));
    for Parking { cause, .. } in plan.parked {
        assert_eq!(
            (cause.position, cause.event_type.as_str()),
            (2, "CreditsGranted")
        );
        assert_eq!(cause.poison.reason, Reason::UnknownEvent);
        assert_eq!(
            cause.poison.detail,
            "unknown event `CreditsGranted` version 2"
        );
    }
}

#[test]
fn given_a_parked_account_then_its_events_wait_where_it_is_parked_only() {
    let parked = [parked_in(Projection::Links, ANNA)];
    let runs = [run([0; 3], vec![sound(1, ANNA), sound(2, BERT)], &parked)];
    let plan = Plan::of(&runs, &Projection::ALL);
    assert_eq!(waiting(&plan, Projection::Links), [1]);
    assert_eq!(applied(&plan, Projection::Links), [2]);
    for projection in [Projection::Credits, Projection::Redirects] {
        assert!(waiting(&plan, projection).is_empty());
        assert_eq!(applied(&plan, projection), [1, 2]);
    }
    assert!(plan.parked.is_empty());
}

#[test]
fn given_a_parking_of_another_generation_then_it_stops_nobody() {
    let parked = ParkedAccount {
        generation: 2,
        ..parked_in(Projection::Links, ANNA)
    };
    let runs = [run([0; 3], vec![sound(1, ANNA)], &[parked])];
    let plan = Plan::of(&runs, &Projection::ALL);
    assert_eq!(applied(&plan, Projection::Links), [1]);
}

#[test]
fn given_a_projection_that_has_the_event_already_then_it_does_not_park_for_it() {
    // A later release had applied it there.
    let [credits, links, redirects] = [1, 0, 0];
    let events = vec![unknown(1, ANNA), sound(2, ANNA)];
    let runs = [run([credits, links, redirects], events, &[])];
    let plan = Plan::of(&runs, &Projection::ALL);
    assert_eq!(applied(&plan, Projection::Credits), [2]);
    assert!(waiting(&plan, Projection::Credits).is_empty());
    assert_eq!(waiting(&plan, Projection::Links), [1, 2]);
}

#[test]
fn given_one_projection_to_plan_for_then_the_others_are_left_alone() {
    let runs = [run([0; 3], vec![unknown(1, ANNA), sound(2, BERT)], &[])];
    let plan = Plan::of(&runs, &[Projection::Credits]);
    assert_eq!(plan.parked.len(), 1);
    assert_eq!(plan.waiting.len(), 1);
    assert_eq!(plan.applied.len(), 1);
}

#[test]
fn given_an_event_that_is_left_out_then_it_parks_nobody_and_waits_for_nothing() {
    let skipped = [1, 2, 3].map(|position| (Projection::Links, event_id(position)));
    let events = vec![
        unknown(1, ANNA),
        sound(2, ANNA),
        sound(3, BERT),
        sound(4, ANNA),
    ];
    let parked = [parked_in(Projection::Links, BERT)];
    let runs = [Run {
        skipped: skipped.into_iter().collect(),
        ..run([0; 3], events, &parked)
    }];
    let plan = Plan::of(&runs, &Projection::ALL);
    assert_eq!(applied(&plan, Projection::Links), [4]);
    assert!(waiting(&plan, Projection::Links).is_empty());
    // The others leave nothing out.
    assert_eq!(applied(&plan, Projection::Credits), [3]);
    assert_eq!(waiting(&plan, Projection::Credits), [1, 2, 4]);
}

#[test]
fn given_a_paused_projection_then_nothing_is_planned_for_it() {
    let mut run = run([0; 3], vec![unknown(1, ANNA), sound(2, BERT)], &[]);
    run.progress = run.progress.with_paused([false, true, false]);
    let runs = [run];
    let plan = Plan::of(&runs, &Projection::ALL);
    assert!(applied(&plan, Projection::Links).is_empty());
    assert!(waiting(&plan, Projection::Links).is_empty());
    assert_eq!(applied(&plan, Projection::Redirects), [2]);
}

#[test]
fn a_reason_has_a_name_of_its_own() {
    for reason in Reason::ALL {
        assert_eq!(Reason::named(reason.name()), Some(reason));
    }
    assert_eq!(Reason::named("mood"), None);
}
