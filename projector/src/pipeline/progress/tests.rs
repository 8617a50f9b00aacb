//! Admission of delivered events.

use linkledger_core::{
    envelope::Metadata,
    id::{AccountId, EventId},
};
use linkledger_testing::{in_all, in_all_but};
use proptest::prelude::*;
use time::OffsetDateTime;
use uuid::Uuid;

use super::*;

const EPOCH: i32 = 2;

fn shard() -> Shard {
    Shard::new(3).unwrap()
}

fn progress(positions: PerProjection<Position>) -> ShardProgress {
    let checkpoints = positions.map(|position| Checkpoint {
        generation: 1,
        epoch: EPOCH,
        position,
    });
    ShardProgress::new(shard(), EPOCH, checkpoints, 0)
}

fn event(position: Position) -> RecordedEvent {
    RecordedEvent {
        shard: shard(),
        position,
        stream_id: Uuid::nil(),
        version: position,
        account_id: AccountId::from_uuid(Uuid::nil()),
        event_id: EventId::from_uuid(Uuid::nil()),
        event_type: "CreditsGranted".to_owned(),
        schema_version: 1,
        payload: String::new(),
        metadata: Metadata::default(),
        recorded_at: OffsetDateTime::UNIX_EPOCH,
    }
}

fn published(positions: &[Position], log_epoch: i32) -> Vec<PublishedEvent> {
    let published = |position: &Position| PublishedEvent::new(event(*position), log_epoch);
    positions.iter().map(published).collect()
}

fn positions(admitted: &AdmittedEvents) -> Vec<Position> {
    admitted.events.iter().map(|event| event.position).collect()
}

#[test]
fn next_events_are_admitted_in_order() {
    let mut progress = progress(in_all(4));
    let admitted = progress
        .admit_delivered(published(&[6, 5, 7], EPOCH))
        .unwrap();
    assert_eq!(positions(&admitted), [5, 6, 7]);
    assert_eq!(admitted.duplicates, in_all(0));
    assert!(!progress.needs_backfill());
}

#[test]
fn applied_event_is_duplicate_for_its_projection_only() {
    let mut progress = progress(in_all_but(
        6,
        [(Projection::Credits, 4), (Projection::Redirects, 5)],
    ));
    let delivered = published(&[3, 4, 5, 5, 6, 7], EPOCH);
    let admitted = progress.admit_delivered(delivered).unwrap();
    assert_eq!(positions(&admitted), [5, 6, 7]);
    let duplicates = in_all_but(5, [(Projection::Credits, 3), (Projection::Redirects, 4)]);
    assert_eq!(admitted.duplicates, duplicates);
    let advanced = progress.advances(6).map(|it| (it.projection, it.to));
    assert_eq!(
        advanced.collect::<Vec<_>>(),
        [(Projection::Credits, 6), (Projection::Redirects, 6)]
    );
}

#[test]
fn events_behind_gap_are_backfilled() {
    let mut progress = progress(in_all(4));
    let admitted = progress
        .admit_delivered(published(&[5, 8, 9], EPOCH))
        .unwrap();
    assert_eq!(positions(&admitted), [5]);
    assert_eq!(admitted.gap, Some(6..=7));
    progress.advance(5);
    assert!(progress.needs_backfill());

    let delivered = progress.admit_delivered(published(&[10], EPOCH)).unwrap();
    assert_eq!(delivered, AdmittedEvents::default());
    let read = progress.admit_read((6..=8).map(event).collect(), false);
    assert_eq!(positions(&read), [6, 7, 8]);
    progress.advance(8);
    assert!(progress.needs_backfill());

    let read = progress.admit_read((9..=10).map(event).collect(), true);
    assert_eq!(positions(&read), [9, 10]);
    assert!(!progress.needs_backfill());
}

#[test]
fn position_missing_from_log_ends_backfill() {
    let mut progress = progress(in_all(4));
    progress
        .admit_delivered(published(&[1_000_000], EPOCH))
        .unwrap();
    assert!(progress.needs_backfill());
    assert_eq!(
        progress.admit_read(Vec::new(), true),
        AdmittedEvents::default()
    );
    assert!(!progress.needs_backfill());
}

#[test]
fn earlier_epoch_is_dropped_and_later_refused() {
    let mut progress = progress(in_all(4));
    let admitted = progress
        .admit_delivered(published(&[5, 9], EPOCH - 1))
        .unwrap();
    assert_eq!(admitted, AdmittedEvents::default());
    let error = progress
        .admit_delivered(published(&[5], EPOCH + 1))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "shard 3: record 5 is of log epoch 3, the read tables are of epoch 2"
    );
}

#[test]
fn paused_projection_does_not_delay_others() {
    let mut progress = progress(in_all_but(4, [(Projection::Links, 2)]))
        .with_paused(in_all_but(false, [(Projection::Links, true)]));
    assert_eq!(progress.floor(), Some(4));
    let admitted = progress
        .admit_delivered(published(&[4, 5, 6], EPOCH))
        .unwrap();
    assert_eq!(positions(&admitted), [5, 6]);
    assert_eq!(admitted.duplicates, in_all_but(1, [(Projection::Links, 0)]));
    let advanced = progress.advances(6).map(|it| it.projection);
    let others = Projection::ALL
        .into_iter()
        .filter(|it| *it != Projection::Links);
    assert!(advanced.eq(others));
    progress.advance(6);
    assert_eq!(progress.checkpoint(Projection::Links).position, 2);
    assert!(!progress.needs_backfill());
}

#[test]
fn fully_paused_shard_admits_nothing() {
    let mut progress = progress(in_all(4)).with_paused(in_all(true));
    progress.extend_backfill(9);
    let admitted = progress.admit_delivered(published(&[5, 8], EPOCH)).unwrap();
    assert_eq!(admitted, AdmittedEvents::default());
    assert!(!progress.needs_backfill());
    assert!(progress.catching_up().is_none());
}

#[test]
fn lagging_projection_catches_up_separately() {
    let mut progress = progress(in_all_but(
        10_000,
        [(Projection::Links, 100), (Projection::Redirects, 9_990)],
    ))
    .with_paused(in_all(false));
    assert_eq!(progress.floor(), Some(9_990));
    let (lagging, head) = (progress.catching_up().unwrap(), 10_001);
    assert_eq!(
        (lagging.floor(), lagging.backfill_until()),
        (Some(100), 9_990)
    );
    let advanced = lagging.advances(4_100).map(|it| it.projection);
    assert_eq!(advanced.collect::<Vec<_>>(), [Projection::Links]);

    progress.advance(head);
    progress.advance_like(&lagging, 9_990);
    assert_eq!(progress.mode(Projection::Links), Mode::CatchingUp);
    let lagging = progress.catching_up().unwrap();
    assert_eq!(
        (lagging.floor(), lagging.backfill_until()),
        (Some(9_990), head)
    );
    progress.advance_like(&lagging, head);
    assert!(progress.catching_up().is_none());
    assert_eq!(
        Projection::ALL.map(|it| progress.mode(it)),
        in_all(Mode::Live)
    );
    assert_eq!(progress.floor(), Some(head));
}

#[test]
fn only_moving_projection_stays_live() {
    let progress = progress(in_all_but(10_000, [(Projection::Links, 100)]))
        .with_paused(in_all_but(true, [(Projection::Links, false)]));
    assert!(progress.catching_up().is_none());
    assert_eq!(progress.floor(), Some(100));
}

/// Step of a simulated process: a delivery, a chunk of a backfill, or a restart.
#[derive(Debug, Clone)]
enum Step {
    Deliver(Vec<Position>),
    Read(usize),
    /// Only the checkpoints survive: a restart, a lost checkpoint, or a pause or its end.
    Forget(PerProjection<bool>),
}

fn steps(head: Position) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => prop::collection::vec(1..=head, 0..12).prop_map(Step::Deliver),
        // Mostly in order, as a broker delivers.
        4 => (1..=head, 1..=8_i64).prop_map(move |(from, length)| {
            Step::Deliver((from..=(from + length).min(head)).collect())
        }),
        3 => (1..6_usize).prop_map(Step::Read),
        1 => any::<PerProjection<bool>>().prop_map(Step::Forget),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn any_delivery_applies_log_once_in_order(
        steps in steps(30),
        start in prop::array::uniform::<_, { Projection::ALL.len() }>(0..10_i64),
    ) {
        const HEAD: Position = 30;
        let mut progress = progress(start);
        let mut applied: PerProjection<Vec<Position>> = start.map(|start| (1..=start).collect());
        let catch_up = [
            Step::Forget(in_all(false)),
            Step::Deliver(vec![HEAD]),
            Step::Read(1_000),
        ];
        for step in steps.into_iter().chain(catch_up) {
            let admitted = match step {
                Step::Deliver(positions) => {
                    progress.admit_delivered(published(&positions, EPOCH)).unwrap()
                }
                Step::Read(limit) if progress.needs_backfill() => {
                    let floor = progress.floor().unwrap();
                    let rest: Vec<_> = (floor + 1..=HEAD).map(event).collect();
                    let is_end = rest.len() < limit;
                    progress.admit_read(rest.into_iter().take(limit).collect(), is_end)
                }
                Step::Read(_) => AdmittedEvents::default(),
                Step::Forget(paused) => {
                    let checkpoints = Projection::ALL.map(|it| progress.checkpoint(it));
                    progress = ShardProgress::new(shard(), EPOCH, checkpoints, 0).with_paused(paused);
                    AdmittedEvents::default()
                }
            };
            let Some(to) = admitted.events.last().map(|event| event.position) else { continue };
            for advance in progress.advances(to) {
                let own = positions(&admitted).into_iter().filter(|it| *it > advance.from.position);
                applied[advance.projection.index()].extend(own);
            }
            progress.advance(to);
        }
        let whole: Vec<Position> = (1..=HEAD).collect();
        prop_assert_eq!(applied, in_all(whole));
    }
}
