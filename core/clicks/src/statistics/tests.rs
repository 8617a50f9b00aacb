use proptest::prelude::*;
use time::{Duration, macros::date};

use super::*;
use crate::buckets::{Interval, RangeEdge, RangeRequest, Zone};

fn series(interval: Interval, zone: &str, from: &str, to: &str) -> ClickSeries {
    let request = RangeRequest {
        interval,
        zone: Zone::of_name(zone).unwrap(),
        from: RangeEdge::parse(from),
        to: RangeEdge::parse(to),
    };
    let now = date!(2026 - 11 - 20).midnight().assume_utc();
    ClickSeries::new(Buckets::of(&request, now).unwrap())
}

fn sketch(visitors: &[u64]) -> Vec<u8> {
    let mut sketch = VisitorSketch::default();
    for visitor in visitors {
        sketch.insert(*visitor);
    }
    sketch.to_bytes()
}

fn counted(clicks: u64) -> KindCount {
    KindCount {
        clicks,
        bots: 2 * clicks,
    }
}

#[test]
fn visitors_of_a_day_are_united_and_days_are_added() {
    let mut series = series(Interval::Week, "UTC", "2026-11-02", "2026-11-16");
    for (day, visitors) in [
        (date!(2026 - 11 - 02), [1, 2]),
        (date!(2026 - 11 - 02), [2, 3]),
        (date!(2026 - 11 - 03), [1, 2]),
        (date!(2026 - 11 - 15), [1, 9]),
    ] {
        series
            .add_day(day, counted(1), Some(&sketch(&visitors)))
            .unwrap();
    }
    series
        .add_day(date!(2026 - 11 - 15), counted(1), None)
        .unwrap();
    let (_, statistics, totals) = series.finish();
    let visitors: Vec<_> = statistics
        .iter()
        .map(|statistics| statistics.visitors)
        .collect();
    assert_eq!(visitors, [Some(5), Some(2)]);
    assert_eq!(
        totals,
        ClickStatistics {
            clicks: 5,
            bots: 10,
            visitors: Some(7)
        }
    );
}

#[test]
fn hours_have_no_visitors_but_the_total_has() {
    let mut series = series(
        Interval::Hour,
        "UTC",
        "2026-11-02T12:00:00Z",
        "2026-11-03T01:00:00Z",
    );
    let day = date!(2026 - 11 - 02);
    let slot = day.midnight().assume_utc() + Duration::hours(13);
    series.add_slot(slot, counted(3));
    series
        .add_day(day, counted(5), Some(&sketch(&[1, 2])))
        .unwrap();
    series
        .add_day(date!(2026 - 11 - 03), counted(5), Some(&sketch(&[1])))
        .unwrap();
    series
        .add_day(date!(2026 - 11 - 04), counted(5), Some(&sketch(&[1])))
        .unwrap();
    let (_, statistics, totals) = series.finish();
    assert_eq!(
        statistics[1],
        ClickStatistics {
            clicks: 3,
            bots: 6,
            visitors: None
        }
    );
    assert_eq!(
        totals,
        ClickStatistics {
            clicks: 3,
            bots: 6,
            visitors: Some(3)
        }
    );
}

#[test]
fn damaged_sketch_is_an_error_that_names_the_day() {
    let mut series = series(Interval::Day, "UTC", "2026-11-02", "2026-11-16");
    let day = date!(2026 - 11 - 02);
    let error = series.add_day(day, counted(1), Some(b"x")).unwrap_err();
    assert_eq!(error.day, day);
    assert!(
        error
            .to_string()
            .starts_with("the statistics of 2026-11-02 are damaged")
    );
}

proptest! {
    #[test]
    fn sum_of_buckets_equals_the_sum_of_slots(
        interval in 0..4_usize,
        zone in 0..4_usize,
        clicks in proptest::collection::vec((0..20 * 96_i64, 1..5_u64), 0..200),
    ) {
        let zone = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"][zone];
        let mut series = series(Interval::ALL[interval], zone, "2026-10-20", "2026-11-09");
        let from = series.buckets.from();
        let mut sum = 0;
        for (slot, clicks) in clicks {
            let slot = from + Duration::minutes(15 * slot);
            let day = slot.date();
            series.add_slot(slot, counted(clicks));
            series.add_day(day, counted(clicks), None).unwrap();
            sum += clicks;
        }
        let (_, statistics, totals) = series.finish();
        prop_assert_eq!(totals.clicks, sum);
        prop_assert_eq!(statistics.iter().map(|statistics| statistics.bots).sum::<u64>(), 2 * sum);
    }
}
