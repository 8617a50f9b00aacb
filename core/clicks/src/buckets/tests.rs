use jiff::tz;
use proptest::prelude::*;
use time::macros::{date, datetime};

use super::*;

const NOW: OffsetDateTime = datetime!(2026-11-20 09:51:00 UTC);
/// Earliest kept slot at [`NOW`].
const KEPT_FROM: OffsetDateTime = datetime!(2026-08-22 00:00 UTC);

fn request(interval: Interval, zone: &str, from: &str, to: &str) -> RangeRequest {
    let edge = |text: &str| (!text.is_empty()).then(|| RangeEdge::parse(text).unwrap());
    RangeRequest {
        interval,
        zone: Zone::of_name(zone).unwrap(),
        from: edge(from),
        to: edge(to),
    }
}

fn buckets(interval: Interval, zone: &str, from: &str, to: &str) -> Buckets {
    Buckets::of(&request(interval, zone, from, to), NOW).unwrap()
}

/// Hours of each bucket.
fn hours(buckets: &Buckets) -> Vec<f64> {
    let lengths = buckets.boundaries.windows(2);
    lengths
        .map(|pair| f64::from(i32::try_from(pair[1] - pair[0]).unwrap()) / 3_600.0)
        .collect()
}

fn starts(buckets: &Buckets) -> Vec<OffsetDateTime> {
    buckets.starts().collect()
}

#[test]
fn default_is_thirty_days_with_today() {
    let all = buckets(Interval::Day, "UTC", "", "");
    assert_eq!(all.len(), 30);
    assert_eq!(all.from(), datetime!(2026-10-22 00:00 UTC));
    assert_eq!(all.to(), datetime!(2026-11-21 00:00 UTC));
    let berlin = buckets(Interval::Day, "Europe/Berlin", "", "");
    assert_eq!(berlin.len(), 30);
    assert_eq!(berlin.from(), datetime!(2026-10-21 22:00 UTC));
    assert_eq!(buckets(Interval::Hour, "UTC", "", "").len(), 29 * 24 + 10);
    let until = buckets(Interval::Day, "UTC", "", "2026-03-31");
    assert_eq!(until.from(), datetime!(2026-03-01 00:00 UTC));
    assert_eq!(until.len(), 30);
}

#[test]
fn edges_snap_outward_to_whole_buckets() {
    for (interval, from, to) in [
        (
            Interval::Hour,
            datetime!(2026-11-18 13:00 UTC),
            datetime!(2026-11-18 15:00 UTC),
        ),
        (
            Interval::Day,
            datetime!(2026-11-18 00:00 UTC),
            datetime!(2026-11-19 00:00 UTC),
        ),
        (
            Interval::Week,
            datetime!(2026-11-16 00:00 UTC),
            datetime!(2026-11-23 00:00 UTC),
        ),
        (
            Interval::Month,
            datetime!(2026-11-01 00:00 UTC),
            datetime!(2026-12-01 00:00 UTC),
        ),
    ] {
        let snapped = buckets(
            interval,
            "UTC",
            "2026-11-18T13:07:00Z",
            "2026-11-18T14:00:00.001Z",
        );
        assert_eq!((snapped.from(), snapped.to()), (from, to), "{interval:?}");
        let whole = RangeRequest {
            interval,
            zone: Zone::UTC,
            from: Some(RangeEdge::Instant(from)),
            to: Some(RangeEdge::Instant(to)),
        };
        assert_eq!(Buckets::of(&whole, NOW), Ok(snapped), "{interval:?}");
    }
}

#[test]
fn daylight_saving_days_have_23_and_25_hours() {
    // Slots of both changes are kept.
    let now = datetime!(2026-04-20 00:00 UTC);
    for (zone, from, to) in [
        ("Europe/Berlin", "2026-03-28", "2026-03-31"),
        ("America/New_York", "2026-03-07", "2026-03-10"),
    ] {
        let request = request(Interval::Day, zone, from, to);
        let spring = Buckets::of(&request, now).unwrap();
        assert_eq!(hours(&spring), [24.0, 23.0, 24.0], "{zone}");
    }
    let autumn = buckets(Interval::Day, "Europe/Berlin", "2026-10-24", "2026-10-27");
    assert_eq!(hours(&autumn), [24.0, 25.0, 24.0]);
    let autumn = buckets(
        Interval::Week,
        "America/New_York",
        "2026-10-26",
        "2026-11-09",
    );
    assert_eq!(hours(&autumn), [169.0, 168.0]);
}

#[test]
fn repeated_and_skipped_hours_are_told_apart() {
    let hours_of = |zone, from, to| buckets(Interval::Hour, zone, from, to);
    let repeated = hours_of("Europe/Berlin", "2026-10-25", "2026-10-26");
    assert_eq!(repeated.len(), 25);
    let kolkata = hours_of(
        "Asia/Kolkata",
        "2026-11-01T00:00:00Z",
        "2026-11-01T02:00:00Z",
    );
    assert_eq!(kolkata.from(), datetime!(2026-10-31 23:30 UTC));
    assert_eq!(hours(&kolkata), [1.0, 1.0, 1.0]);
    // The clock moves by half an hour: 02:00 is followed by 02:30.
    let lord_howe = hours_of("Australia/Lord_Howe", "2026-10-04", "2026-10-05");
    assert_eq!(hours(&lord_howe)[..4], [1.0, 1.0, 0.5, 1.0]);
    let length = lord_howe.to() - lord_howe.from();
    assert_eq!(length, Duration::minutes(23 * 60 + 30));
}

#[test]
fn date_that_a_zone_skipped_is_no_bucket() {
    let now = datetime!(2012-01-10 00:00 UTC);
    let request = request(Interval::Day, "Pacific/Apia", "2011-12-29", "2012-01-01");
    let days = Buckets::of(&request, now).unwrap();
    assert_eq!(hours(&days), [24.0, 24.0]);
}

#[test]
fn days_without_slots_are_utc_days() {
    for (zone, joint, local_from) in [
        // The joint bucket begins with a UTC day and ends with a day of the zone.
        ("Europe/Berlin", 22.0, datetime!(2026-08-22 22:00 UTC)),
        ("America/New_York", 28.0, datetime!(2026-08-22 04:00 UTC)),
        ("Asia/Kolkata", 18.5, datetime!(2026-08-22 18:30 UTC)),
    ] {
        let days = buckets(Interval::Day, zone, "2026-08-20", "2026-08-25");
        assert_eq!(days.from(), datetime!(2026-08-20 00:00 UTC), "{zone}");
        assert_eq!(days.utc_days_before(), Some(local_from), "{zone}");
        assert!(hours(&days).contains(&joint), "{zone}: {:?}", hours(&days));
        assert_eq!(days.slots().unwrap().start, KEPT_FROM, "{zone}");
        let later = buckets(Interval::Day, zone, "2026-08-24", "2026-08-25");
        assert_eq!(later.utc_days_before(), None, "{zone}");
        let earlier = buckets(Interval::Month, zone, "2026-01-01", "2026-03-01");
        assert_eq!(earlier.utc_days_before(), Some(earlier.to()), "{zone}");
        assert_eq!(earlier.slots(), None, "{zone}");
    }
    let utc = buckets(Interval::Day, "UTC", "2026-08-20", "2026-08-25");
    assert_eq!((utc.utc_days_before(), utc.slots()), (None, None));
}

#[test]
fn hours_without_slots_are_refused() {
    for (zone, earliest) in [
        ("UTC", "2026-08-22T00:00:00.000Z"),
        ("Asia/Kathmandu", "2026-08-22T00:15:00.000Z"),
    ] {
        let too_early = request(Interval::Hour, zone, "2026-08-21T23:59:00Z", "2026-08-23");
        let error = Buckets::of(&too_early, NOW).unwrap_err();
        assert_eq!((error.parameter, error.code), ("from", "too_early"));
        assert!(error.detail.contains(earliest), "{}", error.detail);
        let kept = buckets(Interval::Hour, zone, earliest, "2026-08-23");
        assert_eq!(timestamp::format(kept.from()), earliest);
    }
}

#[test]
fn range_has_at_most_a_thousand_buckets() {
    let thousand = buckets(Interval::Day, "UTC", "2024-01-01", "2026-09-27");
    assert_eq!(thousand.len(), 1_000);
    let more = request(Interval::Day, "UTC", "2024-01-01", "2026-09-27T00:00:01Z");
    let error = Buckets::of(&more, NOW).unwrap_err();
    assert_eq!(
        (error.parameter, error.code),
        ("interval", "too_many_buckets")
    );
    assert!(
        error.detail.contains("a longer interval"),
        "{}",
        error.detail
    );
    let all = buckets(Interval::Month, "UTC", "2000-01-01", "2083-05-01");
    assert_eq!(all.len(), 1_000);
}

#[test]
fn empty_range_is_refused() {
    for (from, to) in [
        ("2026-11-02", "2026-11-02"),
        ("2026-11-03", "2026-11-02"),
        ("2026-11-20T09:51:01Z", ""),
    ] {
        let error = Buckets::of(&request(Interval::Day, "UTC", from, to), NOW).unwrap_err();
        assert_eq!((error.parameter, error.code), ("from", "range_empty"));
    }
}

#[test]
fn edges_are_instants_or_dates() {
    let instant = |instant| Some(RangeEdge::Instant(instant));
    let parsed = RangeEdge::parse("2026-11-20T01:00:00+02:00");
    assert_eq!(parsed, instant(datetime!(2026-11-19 23:00 UTC)));
    let date = Some(RangeEdge::Date(civil::date(2026, 2, 28)));
    assert_eq!(RangeEdge::parse("2026-02-28"), date);
    for text in [
        "",
        "2026",
        "2026-02-29",
        "1999-12-31",
        "2100-01-01",
        "20261120",
        "now",
        "2026-11-20 09:51",
        "2026-1-1",
        "+002026-11-20",
        "1999-12-31T23:59:59Z",
        "2026-11-20T09:51:00",
    ] {
        assert_eq!(RangeEdge::parse(text), None, "{text}");
    }
}

#[test]
fn zone_is_an_iana_name_in_any_case() {
    let named = |name| Zone::of_name(name).map(|zone| zone.name().to_owned());
    assert_eq!(named("europe/berlin").as_deref(), Some("Europe/Berlin"));
    assert_eq!(named("utc").as_deref(), Some("UTC"));
    assert!(Zone::of_name("UTC").unwrap().is_utc());
    for name in [
        "",
        "Europe",
        "CET-1CEST",
        "+01:00",
        "../UTC",
        "Etc/Unknown",
        "Europe/Berlin ",
    ] {
        assert_eq!(named(name), None, "{name}");
    }
}

#[test]
fn noon_of_utc_decides_on_visitors() {
    let days = buckets(
        Interval::Day,
        "Pacific/Auckland",
        "2026-11-01",
        "2026-11-04",
    );
    // Local days begin at 11:00 UTC of the day before.
    let place = |day| days.of_visitors(day);
    assert_eq!(place(date!(2026 - 10 - 31)), VisitorsPlace::Bucket(0));
    assert_eq!(place(date!(2026 - 11 - 02)), VisitorsPlace::Bucket(2));
    assert_eq!(place(date!(2026 - 11 - 03)), VisitorsPlace::Outside);
    let hours = buckets(
        Interval::Hour,
        "UTC",
        "2026-11-01T23:00:00Z",
        "2026-11-02T01:00:00Z",
    );
    assert_eq!(hours.days(), date!(2026 - 11 - 01)..date!(2026 - 11 - 03));
    assert_eq!(
        hours.of_visitors(date!(2026 - 11 - 02)),
        VisitorsPlace::Total
    );
    assert_eq!(
        hours.of_visitors(date!(2026 - 11 - 03)),
        VisitorsPlace::Outside
    );
}

#[test]
fn buckets_have_visitors_once_their_utc_day_begins() {
    let having = |interval, zone, from, to| -> Vec<bool> {
        buckets(interval, zone, from, to).have_visitors().collect()
    };
    // Now is 09:51 UTC on the 20th; in Auckland it is already 22:51, and the noon of that UTC day is on the 21st.
    let days = having(Interval::Day, "UTC", "2026-11-19", "2026-11-22");
    assert_eq!(days, [true, true, false]);
    let days = having(
        Interval::Day,
        "Pacific/Auckland",
        "2026-11-20",
        "2026-11-23",
    );
    assert_eq!(days, [true, true, false]);
    let late = datetime!(2026-11-19 23:10 UTC);
    let berlin = request(Interval::Day, "Europe/Berlin", "2026-11-19", "");
    let after_midnight = Buckets::of(&berlin, late).unwrap();
    assert!(after_midnight.have_visitors().eq([true, false]));
    // The day from 13:00 to 12:00 UTC on which daylight saving time begins has no noon of UTC.
    let days = having(Interval::Day, "Pacific/Norfolk", "2026-10-03", "2026-10-06");
    assert_eq!(days, [true, false, true]);
    let weeks = having(Interval::Week, "Asia/Tokyo", "2026-11-16", "2026-11-24");
    assert_eq!(weeks, [true, false]);
    let hours = having(
        Interval::Hour,
        "UTC",
        "2026-11-20T08:00:00Z",
        "2026-11-20T10:00:00Z",
    );
    assert_eq!(hours, [false, false]);
}

fn intervals() -> impl Strategy<Value = Interval> {
    (0..4_usize).prop_map(|index| Interval::ALL[index])
}

fn zones() -> impl Strategy<Value = Zone> {
    let zones: Vec<String> = tz::db()
        .available()
        .map(|name| name.as_str().to_owned())
        .collect();
    assert!(zones.len() > 400);
    (0..zones.len()).prop_map(move |index| Zone::of_name(&zones[index]).unwrap_or(Zone::UTC))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn buckets_cover_the_range_without_holes(
        interval in intervals(),
        zone in zones(),
        // Up to 300 days before NOW, and after.
        from in -300 * 86_400..30 * 86_400_i64,
        length in 1..40 * 86_400_i64,
    ) {
        let (from, to) = (NOW + Duration::seconds(from), NOW + Duration::seconds(from + length));
        let request = RangeRequest {
            interval, zone,
            from: Some(RangeEdge::Instant(from)),
            to: Some(RangeEdge::Instant(to)),
        };
        let Ok(buckets) = Buckets::of(&request, NOW) else {
            prop_assert_eq!(interval, Interval::Hour);
            return Ok(());
        };
        prop_assert!(buckets.from() <= from && buckets.to() >= to);
        prop_assert!(buckets.boundaries.is_sorted_by(|one, next| one < next));
        prop_assert!(buckets.boundaries.iter().all(|boundary| boundary % 900 == 0));
        // Without the first or the last bucket the range is not covered.
        let ends: Vec<OffsetDateTime> = starts(&buckets).into_iter().skip(1).collect();
        prop_assert!(ends.first().is_none_or(|end| *end > from));
        prop_assert!(ends.last().is_none_or(|start| *start < to));

        // Each slot is counted once: by itself, or with its UTC day.
        let days = buckets.days();
        let mut day = days.start;
        while day < days.end {
            let of_day = buckets.of_day(day);
            for slot in 0..96 {
                let slot = day.midnight().assume_utc() + Duration::minutes(15 * slot);
                let is_inside = buckets.from() <= slot && slot < buckets.to();
                let of_slot = buckets.of_slot(slot);
                prop_assert!(of_day.is_none() || of_slot.is_none());
                prop_assert_eq!(of_day.or(of_slot).is_some(), is_inside, "{}", slot);
                let is_read = buckets.slots().is_some_and(|read| read.contains(&slot));
                prop_assert_eq!(of_slot.is_some(), is_read);
                if let Some(index) = of_day.or(of_slot) {
                    prop_assert!(instant(buckets.boundaries[index]) <= slot);
                    prop_assert!(slot < instant(buckets.boundaries[index + 1]));
                }
            }
            day = day.next_day().unwrap();
        }
    }
}

#[test]
fn local_starts_have_date_and_offset_of_the_zone() {
    let local = |buckets: &Buckets| -> Vec<String> {
        buckets
            .local_starts()
            .map(timestamp::format_local)
            .collect()
    };
    let days = buckets(Interval::Day, "Europe/Berlin", "2026-10-24", "2026-10-27");
    assert_eq!(
        local(&days),
        [
            "2026-10-24T00:00:00+02:00",
            "2026-10-25T00:00:00+02:00",
            "2026-10-26T00:00:00+01:00",
        ]
    );
    // The hour that comes twice has two offsets.
    let hours = buckets(
        Interval::Hour,
        "Europe/Berlin",
        "2026-10-25T00:00:00Z",
        "2026-10-25T02:00:00Z",
    );
    assert_eq!(
        local(&hours),
        ["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"]
    );
    let months = buckets(
        Interval::Month,
        "America/New_York",
        "2026-11-01",
        "2026-11-02",
    );
    assert_eq!(local(&months), ["2026-11-01T00:00:00-04:00"]);
    let west = buckets(
        Interval::Day,
        "America/St_Johns",
        "2026-11-18",
        "2026-11-19",
    );
    assert_eq!(local(&west), ["2026-11-18T00:00:00-03:30"]);
}

/// The midnight of UTC is on the day before in America: the bucket is a UTC day all the same.
#[test]
fn local_starts_of_utc_days_are_in_utc() {
    let days = buckets(
        Interval::Day,
        "America/New_York",
        "2026-08-21",
        "2026-08-25",
    );
    let local: Vec<String> = days.local_starts().map(timestamp::format_local).collect();
    assert_eq!(local[0], "2026-08-21T00:00:00Z");
    assert_eq!(local[local.len() - 1], "2026-08-24T00:00:00-04:00");
    let mut dates: Vec<&str> = local.iter().map(|start| &start[..10]).collect();
    dates.dedup();
    assert_eq!(dates.len(), local.len(), "{local:?}");
}
