//! Plans for sound, poison, parked and skipped events.

use std::sync::Arc;

use linkledger_core::{
    credits::{CreditsEvent, CreditsGranted},
    envelope::{Metadata, RecordedEvent},
    event::Event,
    id::{AccountId, EventId},
    projection::PerProjection,
    shard::Shard,
};
use linkledger_testing::{in_all, in_all_but};
use time::OffsetDateTime;
use uuid::Uuid;

use super::*;
use crate::{
    pipeline::{checkpoint::Checkpoint, poison::PoisonReason},
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
        reference: None,
        description: None,
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

fn sound(position: Position, account_id: AccountId) -> BatchEvent {
    BatchEvent::decode(recorded(position, account_id))
}

fn unknown(position: Position, account_id: AccountId) -> BatchEvent {
    BatchEvent::decode(RecordedEvent {
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

/// Returns a batch of events from position 1 on, with the projections at the given positions.
fn batch(
    positions: PerProjection<Position>,
    events: Vec<BatchEvent>,
    parked: &[ParkedAccount],
) -> ShardBatch {
    let checkpoint = |position| Checkpoint {
        generation: 1,
        epoch: 1,
        position,
    };
    let checkpoints = Projection::ALL.into_iter().zip(positions.map(checkpoint));
    ShardBatch {
        shard: shard(),
        checkpoints: checkpoints.collect(),
        events: events.into_iter().map(Arc::new).collect(),
        parked: parked.iter().copied().collect(),
        skipped: Skipped::default(),
    }
}

fn applied(plan: &ApplyPlan<'_>, projection: Projection) -> Vec<Position> {
    let applied = plan.applied.iter().filter(|it| it.0 == projection);
    applied.map(|it| it.2.recorded.position).collect()
}

fn waiting(plan: &ApplyPlan<'_>, projection: Projection) -> Vec<Position> {
    let waiting = plan.waiting.iter();
    let waiting = waiting.filter(|(account, _)| account.projection == projection);
    waiting.map(|(_, position)| *position).collect()
}

#[test]
fn sound_events_are_applied_by_all_projections() {
    let batches = [batch(in_all(0), vec![sound(1, ANNA), sound(2, BERT)], &[])];
    let plan = ApplyPlan::of(&batches);
    for projection in Projection::ALL {
        assert_eq!(applied(&plan, projection), [1, 2]);
    }
    assert!(plan.parked.is_empty() && plan.waiting.is_empty());
}

#[test]
fn unknown_event_parks_only_its_account() {
    let events = vec![
        sound(1, ANNA),
        unknown(2, ANNA),
        sound(3, BERT),
        sound(4, ANNA),
        unknown(5, ANNA),
    ];
    let batches = [batch(in_all(0), events, &[])];
    let plan = ApplyPlan::of(&batches);
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
        assert_eq!(cause.poison.reason, PoisonReason::UnknownEvent);
        assert_eq!(
            cause.poison.detail,
            "unknown event `CreditsGranted` version 2"
        );
    }
}

#[test]
fn parked_account_waits_only_in_its_projection() {
    let parked = [parked_in(Projection::Links, ANNA)];
    let batches = [batch(
        in_all(0),
        vec![sound(1, ANNA), sound(2, BERT)],
        &parked,
    )];
    let plan = ApplyPlan::of(&batches);
    assert_eq!(waiting(&plan, Projection::Links), [1]);
    assert_eq!(applied(&plan, Projection::Links), [2]);
    for projection in Projection::ALL
        .into_iter()
        .filter(|it| *it != Projection::Links)
    {
        assert!(waiting(&plan, projection).is_empty());
        assert_eq!(applied(&plan, projection), [1, 2]);
    }
    assert!(plan.parked.is_empty());
}

#[test]
fn parking_of_another_generation_is_ignored() {
    let parked = ParkedAccount {
        generation: 2,
        ..parked_in(Projection::Links, ANNA)
    };
    let batches = [batch(in_all(0), vec![sound(1, ANNA)], &[parked])];
    let plan = ApplyPlan::of(&batches);
    assert_eq!(applied(&plan, Projection::Links), [1]);
}

#[test]
fn poison_below_checkpoint_does_not_park() {
    // A later release has applied the event to this projection.
    let positions = in_all_but(0, [(Projection::Credits, 1)]);
    let events = vec![unknown(1, ANNA), sound(2, ANNA)];
    let batches = [batch(positions, events, &[])];
    let plan = ApplyPlan::of(&batches);
    assert_eq!(applied(&plan, Projection::Credits), [2]);
    assert!(waiting(&plan, Projection::Credits).is_empty());
    assert_eq!(waiting(&plan, Projection::Links), [1, 2]);
}

#[test]
fn other_projections_than_those_of_the_batch_get_no_events() {
    let mut batch = batch(in_all(0), vec![unknown(1, ANNA), sound(2, BERT)], &[]);
    batch.checkpoints.retain(|it| it.0 == Projection::Credits);
    let batches = [batch];
    let plan = ApplyPlan::of(&batches);
    assert_eq!(plan.parked.len(), 1);
    assert_eq!(plan.waiting.len(), 1);
    assert_eq!(plan.applied.len(), 1);
}

#[test]
fn skipped_event_neither_parks_nor_waits() {
    let skipped = [1, 2, 3].map(|position| (Projection::Links, event_id(position)));
    let events = vec![
        unknown(1, ANNA),
        sound(2, ANNA),
        sound(3, BERT),
        sound(4, ANNA),
    ];
    let parked = [parked_in(Projection::Links, BERT)];
    let batches = [ShardBatch {
        skipped: skipped.into_iter().collect(),
        ..batch(in_all(0), events, &parked)
    }];
    let plan = ApplyPlan::of(&batches);
    assert_eq!(applied(&plan, Projection::Links), [4]);
    assert!(waiting(&plan, Projection::Links).is_empty());
    // The other projections do not skip the events.
    assert_eq!(applied(&plan, Projection::Credits), [3]);
    assert_eq!(waiting(&plan, Projection::Credits), [1, 2, 4]);
}

#[test]
fn poison_reasons_are_found_by_name() {
    for reason in PoisonReason::ALL {
        assert_eq!(PoisonReason::of_name(reason.name()), Some(reason));
    }
    assert_eq!(PoisonReason::of_name("mood"), None);
}
