use proptest::prelude::*;
use time::macros::{date, datetime};
use uuid::Uuid;

use super::*;
use crate::{ClickDetails, ClickKind, Device, Dimension};
use linkledger_core::id::{AccountId, LinkId};

const NOW: OffsetDateTime = datetime!(2026-11-23 09:51:00 UTC);
const UNLIMITED: TallyLimits = TallyLimits {
    records_max: usize::MAX,
    rows_max: usize::MAX,
};
const RECORDER: RecorderId = RecorderId(Uuid::from_u128(7));

fn click(link: u128, clicked_at: OffsetDateTime, kind: ClickKind) -> Click {
    Click {
        link_id: LinkId::from_uuid(Uuid::from_u128(link)),
        account_id: AccountId::from_uuid(Uuid::from_u128(link % 2)),
        slug: "spring".to_owned(),
        clicked_at,
        kind,
        count: 1,
        details: ClickDetails {
            visitor: Some(7),
            country: Some("DE".to_owned()),
            device: Some(Device::Mobile),
            ..ClickDetails::default()
        },
    }
}

fn records(clicks: impl IntoIterator<Item = Click>) -> Vec<PartitionRecord> {
    let record = |(offset, click)| PartitionRecord {
        offset,
        record_id: Some(format!("id-{offset}").into()),
        place: Some((RECORDER, offset.cast_unsigned() + 1)),
        click: Some(click),
    };
    (0..).zip(clicks).map(record).collect()
}

fn tally(records: &[PartitionRecord]) -> Tally {
    Tally::of(records, Sequences::default(), NOW, UNLIMITED)
}

/// Returns the number of counted clicks, without bots.
fn clicks(tally: &Tally) -> u64 {
    let days = tally.statistics.totals.account_days.values();
    days.map(|day| day.count.clicks).sum()
}

#[test]
fn clicks_fall_into_slots_and_utc_days() {
    let clicks = [
        datetime!(2026-11-22 23:59:59.999 UTC),
        datetime!(2026-11-23 00:00 UTC),
        datetime!(2026-11-23 02:14:59 +02:00),
        datetime!(2026-11-23 00:15 UTC),
    ];
    let records = records(clicks.map(|at| click(1, at, ClickKind::Human)));
    let tally = tally(&records);
    let rows = &tally.statistics.totals;
    let slots: Vec<_> = rows
        .link_15min
        .iter()
        .map(|((_, _, slot), count)| (*slot, count.clicks))
        .collect();
    assert_eq!(
        slots,
        [
            (datetime!(2026-11-22 23:45 UTC), 1),
            (datetime!(2026-11-23 00:00 UTC), 2),
            (datetime!(2026-11-23 00:15 UTC), 1),
        ]
    );
    let days = rows.account_days.iter();
    let days: Vec<_> = days.map(|((_, day), it)| (*day, it.count.clicks)).collect();
    assert_eq!(
        days,
        [(date!(2026 - 11 - 22), 1), (date!(2026 - 11 - 23), 3)]
    );
}

#[test]
fn clicks_of_last_hour_fall_into_utc_minutes() {
    let instants = [
        NOW - Duration::minutes(61),
        NOW - Duration::hours(1) - Duration::NANOSECOND,
        NOW - Duration::hours(1),
        datetime!(2026-11-23 11:50:59.999 +02:00),
        datetime!(2026-11-23 09:50 UTC),
        NOW + Duration::hours(2),
    ];
    let mut clicks = instants.map(|at| click(1, at, ClickKind::Human));
    clicks[3].count = 4;
    clicks[4].kind = ClickKind::Bot;
    let tally = tally(&records(clicks));
    let minutes = tally.statistics.totals.link_minutes.iter();
    let minutes: Vec<_> = minutes
        .map(|((minute, _, _), it)| (*minute, it.clicks, it.bots))
        .collect();
    assert_eq!(
        minutes,
        [
            (datetime!(2026-11-23 08:51 UTC), 1, 0),
            (datetime!(2026-11-23 09:50 UTC), 4, 1),
            (datetime!(2026-11-23 11:51 UTC), 1, 0),
        ]
    );
}

#[test]
fn first_click_of_day_is_earliest_of_humans() {
    let seconds_ago = [(1, 2), (1, 3), (2, 9), (3, 1)];
    let mut clicks = seconds_ago
        .map(|(link, ago)| click(link, NOW - Duration::seconds(ago), ClickKind::Human))
        .to_vec();
    clicks.push(click(1, NOW - Duration::seconds(5), ClickKind::Bot));
    clicks[2].kind = ClickKind::Bot;
    let tally = tally(&records(clicks));
    let days = tally.statistics.totals.link_days.iter();
    let mut first: Vec<_> = days
        .map(|((_, link_id, _), day)| (link_id.uuid().as_u128(), day.first_clicked_at))
        .collect();
    first.sort_unstable();
    assert_eq!(
        first,
        [
            (1, Some(NOW - Duration::seconds(3))),
            (2, None),
            (3, Some(NOW - Duration::seconds(1))),
        ]
    );
}

#[test]
fn bots_count_apart_without_visitors_and_values() {
    let records = records([
        click(1, NOW, ClickKind::Bot),
        click(1, NOW, ClickKind::Human),
    ]);
    let tally = tally(&records);
    let day = tally.statistics.totals.link_days.values().next().unwrap();
    assert_eq!(day.count, KindCount { clicks: 1, bots: 1 });
    assert_eq!(day.visitors, [7]);
    assert!(
        tally
            .statistics
            .values
            .links
            .values()
            .flat_map(|row| row.of(Dimension::Device))
            .all(|(_, count)| count.clicks == 1)
    );
}

#[test]
fn merged_record_counts_without_values() {
    let mut merged = click(1, NOW, ClickKind::Human);
    merged.count = 40;
    merged.details = ClickDetails::default();
    let tally = tally(&records([merged]));
    let row = tally.statistics.values.accounts.values().next().unwrap();
    for dimension in Dimension::ALL {
        let values = row.of(dimension);
        assert_eq!(values.len(), 1);
        assert!(values[0].0.is_empty() && values[0].1.clicks == 40);
    }
}

#[test]
fn repeats_are_dropped_and_gaps_are_missing() {
    let mut records = records([1, 2, 3, 4].map(|link| click(link, NOW, ClickKind::Human)));
    let sequences = [5, 5, 4, 9];
    for (record, sequence) in records.iter_mut().zip(sequences) {
        record.place = Some((RECORDER, sequence));
    }
    let counted = Sequences::counted([(RECORDER, 4)]);
    let tally = Tally::of(&records, counted, NOW, UNLIMITED);
    assert_eq!((tally.records, clicks(&tally), tally.unreadable), (4, 2, 0));
    let change = SequenceChange {
        recorder_id: RECORDER,
        sequence: 9,
        missing: 3,
    };
    assert_eq!(tally.sequences.changes().collect::<Vec<_>>(), [change]);
    assert_eq!(tally.next_offset, 4);
    assert_eq!(tally.last_record_id.as_deref(), Some("id-3"));
}

#[test]
fn uncountable_records_advance_sequences() {
    let instants = [
        NOW - Duration::days(801),
        NOW - Duration::days(799),
        NOW + Duration::hours(23),
        NOW + Duration::hours(25),
    ];
    let mut records = records(instants.map(|at| click(1, at, ClickKind::Human)));
    records.push(PartitionRecord {
        offset: 4,
        record_id: None,
        place: Some((RECORDER, 5)),
        click: None,
    });
    let tally = tally(&records);
    assert_eq!((clicks(&tally), tally.unreadable), (2, 3));
    assert_eq!(tally.sequences.missing(), 0);
    // Slots of the old click are not kept.
    assert_eq!(tally.statistics.totals.link_15min.len(), 1);
    assert_eq!(tally.statistics.totals.link_days.len(), 2);
    assert_eq!(tally.last_record_id, None);
}

#[test]
fn limits_end_a_tally_between_records() {
    let records = records((1..=10).map(|link| click(link, NOW, ClickKind::Human)));
    let of = |records_max, rows_max| {
        let limits = TallyLimits {
            records_max,
            rows_max,
        };
        let tally = Tally::of(&records, Sequences::default(), NOW, limits);
        (tally.records, tally.next_offset)
    };
    assert_eq!(of(3, usize::MAX), (3, 3));
    // A link has three rows, its account three more.
    assert_eq!(of(usize::MAX, 12), (2, 2));
    assert_eq!(of(0, 0), (1, 1));
}

#[test]
fn values_are_in_order_of_first_clicks() {
    let countries = ["FR", "DE", "FR", "AT", "DE"];
    let clicks = countries.map(|country| {
        let mut click = click(1, NOW, ClickKind::Human);
        click.details.country = Some(country.to_owned());
        click
    });
    let tally = tally(&records(clicks));
    let row = tally.statistics.values.links.values().next().unwrap();
    let counted = row.of(Dimension::Country).into_iter();
    let counted: Vec<_> = counted.map(|(value, it)| (value, it.clicks)).collect();
    assert_eq!(counted, [("FR", 2), ("DE", 2), ("AT", 1)]);
}

fn any_click() -> impl Strategy<Value = Click> {
    (0_u128..6, 0_i64..200_000, any::<bool>(), 1_u32..4, 0_u64..9).prop_map(
        |(link, seconds_ago, is_bot, count, visitor)| {
            let kind = if is_bot {
                ClickKind::Bot
            } else {
                ClickKind::Human
            };
            let mut click = click(link, NOW - Duration::seconds(seconds_ago), kind);
            click.count = count;
            click.details.visitor = (count == 1).then_some(visitor);
            click
        },
    )
}

proptest! {
    #[test]
    fn statistics_add_up_however_records_are_divided(
        clicks in proptest::collection::vec(any_click(), 1..60),
        records_max in 1_usize..20,
        rows_max in 1_usize..40,
    ) {
        let records = records(clicks.clone());
        let limits = TallyLimits { records_max, rows_max };
        let (mut humans, mut bots, mut taken) = (0, 0, 0);
        let mut counted = Sequences::default();
        while taken < records.len() {
            // Every tally meets the records of the one before again.
            let from = taken.saturating_sub(2);
            let limits = TallyLimits { records_max: limits.records_max + taken - from, ..limits };
            let tally = Tally::of(&records[from..], counted, NOW, limits);
            for day in tally.statistics.totals.account_days.values() {
                humans += day.count.clicks;
                bots += day.count.bots;
            }
            taken = from + tally.records;
            counted = Sequences::counted(
                tally.sequences.changes().map(|it| (it.recorder_id, it.sequence)),
            );
            if tally.records == 0 { break; }
        }
        let of_kind = |kind| -> u64 {
            clicks.iter().filter(|it| it.kind == kind).map(|it| u64::from(it.count)).sum()
        };
        prop_assert_eq!((humans, bots), (of_kind(ClickKind::Human), of_kind(ClickKind::Bot)));
    }
}
