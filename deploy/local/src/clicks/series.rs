//! Clicks over time, as a chart. No I/O.

use std::fmt::Write as _;

use linkledger_clicks::buckets::Zone;
use linkledger_core::timestamp;
use serde::Deserialize;
use time::{
    OffsetDateTime, UtcOffset, format_description::BorrowedFormatItem, macros::format_description,
};

use super::{
    NEWER,
    chart::{Chart, ChartRow},
    completeness,
};
use crate::table::short_time;

const DATE: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]-[day]");
const MONTH: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]");
const HOUR: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]-[day] [hour]:[minute]");
const HOUR_WITH_OFFSET: &[BorrowedFormatItem<'_>] = format_description!(
    "[year]-[month]-[day] [hour]:[minute] [offset_hour sign:mandatory]:[offset_minute]"
);

/// Clicks over time, as the API returns them.
#[derive(Deserialize)]
pub(super) struct SeriesDocument {
    interval: String,
    timezone: String,
    from: String,
    to: String,
    complete_until: String,
    utc_days_before: Option<String>,
    totals: Statistics,
    series: Vec<Bucket>,
}

#[derive(Deserialize)]
struct Statistics {
    clicks: u64,
    bots: u64,
    visitors: Option<u64>,
}

#[derive(Deserialize)]
struct Bucket {
    start: String,
    #[serde(flatten)]
    statistics: Statistics,
}

impl Statistics {
    /// Returns the row of a chart. Visitors are counted by UTC day, so hours have none.
    fn row(&self, label: String, is_of_hours: bool) -> ChartRow {
        let (clicks, bots) = (Some(self.clicks), Some(self.bots));
        let numbers = if is_of_hours {
            vec![clicks, bots]
        } else {
            vec![clicks, self.visitors, bots]
        };
        ChartRow { label, numbers }
    }
}

/// Formats the chart with its totals, and the notes about its statistics.
pub(super) fn text(document: &SeriesDocument, width: usize) -> String {
    let mut text = range(document);
    match document.totals {
        Statistics {
            clicks: 0, bots: 0, ..
        } => writeln!(text, "No clicks in this range. {NEWER}").expect("a string"),
        _ => text.push_str(&chart(document, width)),
    }
    writeln!(text, "{}", completeness(&document.complete_until)).expect("a string");
    text
}

/// Returns the chart, and the notes about its statistics.
fn chart(document: &SeriesDocument, width: usize) -> String {
    let title = document.interval.to_uppercase();
    let is_of_hours = document.interval == "hour";
    let titles: &[&str] = if is_of_hours {
        &[&title, "CLICKS", "BOTS"]
    } else {
        &[&title, "CLICKS", "VISITORS", "BOTS"]
    };
    let row = |statistics: &Statistics, label| statistics.row(label, is_of_hours);
    let buckets = document.series.iter().zip(labels(document));
    let chart = Chart {
        titles,
        rows: buckets
            .map(|(bucket, label)| row(&bucket.statistics, label))
            .collect(),
        sums: vec![row(&document.totals, "Total".to_owned())],
    };
    let mut text = chart.text(width);
    if document.timezone != "UTC" && !is_of_hours {
        text.push_str("Visitors are of UTC days: each counts where its noon in UTC is\n");
    }
    if let Some(instant) = &document.utc_days_before {
        let instant = short_time(instant);
        writeln!(text, "Days before {instant} are UTC days").expect("a string");
    }
    text
}

/// Returns the line with begin and end of the range, in its time zone.
fn range(document: &SeriesDocument) -> String {
    let local = |text: &str| {
        let zone = Zone::of_name(&document.timezone)?;
        zone.local(timestamp::parse(text)?).format(HOUR).ok()
    };
    let [from, to] =
        [&document.from, &document.to].map(|text| local(text).unwrap_or_else(|| short_time(text)));
    format!("{from} to {to}, {}\n", document.timezone)
}

/// Returns the label of each bucket. An hour that repeats, when clocks are set back, has its offset from UTC.
fn labels(document: &SeriesDocument) -> Vec<String> {
    let starts: Vec<&str> = document.series.iter().map(|it| it.start.as_str()).collect();
    let labels: Vec<String> = starts.iter().map(|it| label(document, it, false)).collect();
    let is_repeated = |index: usize, other: Option<usize>| {
        other.and_then(|it| labels.get(it)) == Some(&labels[index])
    };
    let labelled = starts.iter().enumerate().map(|(index, start)| {
        let has_offset =
            is_repeated(index, index.checked_sub(1)) || is_repeated(index, Some(index + 1));
        label(document, start, has_offset)
    });
    labelled.collect()
}

/// Returns the local begin of a bucket; the instant itself if this program does not know the time zone.
fn label(document: &SeriesDocument, start: &str, has_offset: bool) -> String {
    let zone = match &document.utc_days_before {
        // Instants of equal form are ordered like their texts.
        Some(until) if start < until.as_str() => Some(Zone::UTC),
        _ => Zone::of_name(&document.timezone),
    };
    let format = match document.interval.as_str() {
        "hour" if has_offset => HOUR_WITH_OFFSET,
        "hour" => HOUR,
        "month" => MONTH,
        _ => DATE,
    };
    let local = |instant: OffsetDateTime| {
        let local = zone?.local(instant);
        let offset = (local.assume_utc() - instant).whole_seconds();
        let offset = UtcOffset::from_whole_seconds(offset.try_into().ok()?).ok()?;
        local.assume_offset(offset).format(format).ok()
    };
    let local = timestamp::parse(start).and_then(local);
    local.unwrap_or_else(|| short_time(start))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(
        interval: &str,
        timezone: &str,
        starts: &[&str],
        utc_before: Option<&str>,
    ) -> Vec<String> {
        let bucket =
            |start: &&str| json!({ "start": start, "clicks": 1, "bots": 0, "visitors": null });
        let document: SeriesDocument = serde_json::from_value(json!({
            "interval": interval, "timezone": timezone, "from": "", "to": "", "complete_until": "",
            "utc_days_before": utc_before, "totals": { "clicks": 1, "bots": 0, "visitors": 1 },
            "series": starts.iter().map(bucket).collect::<Vec<_>>(),
        }))
        .unwrap();
        super::labels(&document)
    }

    #[test]
    fn repeated_hour_has_its_offset() {
        let starts = ["23", "00", "01", "02"].map(|hour| {
            let day = if hour == "23" { 24 } else { 25 };
            format!("2026-10-{day}T{hour}:00:00.000Z")
        });
        let starts = starts.each_ref().map(String::as_str);
        let expected = [
            "2026-10-25 01:00",
            "2026-10-25 02:00 +02:00",
            "2026-10-25 02:00 +01:00",
            "2026-10-25 03:00",
        ];
        assert_eq!(labels("hour", "Europe/Berlin", &starts, None), expected);
    }

    #[test]
    fn hours_have_no_visitors_and_empty_ranges_no_bars() {
        let document = |clicks: u64| {
            serde_json::from_value(json!({
                "interval": "hour", "timezone": "Europe/Berlin", "from": "2026-11-20T08:00:00.000Z",
                "to": "2026-11-20T09:00:00.000Z", "complete_until": "2026-11-20T09:51:00.123Z",
                "totals": { "clicks": clicks, "bots": 0, "visitors": 3056 },
                "series": [
                    { "start": "2026-11-20T08:00:00.000Z", "clicks": clicks, "bots": 0, "visitors": null },
                ],
            }))
            .unwrap()
        };
        let expected = "\
2026-11-20 09:00 to 2026-11-20 10:00, Europe/Berlin
HOUR              CLICKS  BOTS
2026-11-20 09:00       7     0  ████████
Total                  7     0
Complete until 2026-11-20T09:51:00Z
";
        assert_eq!(text(&document(7), 1), expected);
        let empty = text(&document(0), 80);
        assert!(
            empty.contains("\nNo clicks in this range. A click"),
            "{empty}"
        );
    }

    #[test]
    fn buckets_are_labelled_in_their_zone() {
        let start = "2026-10-24T22:00:00.000Z";
        assert_eq!(labels("day", "UTC", &[start], None), ["2026-10-24"]);
        assert_eq!(
            labels("day", "Europe/Berlin", &[start], None),
            ["2026-10-25"]
        );
        assert_eq!(
            labels("hour", "Asia/Kolkata", &[start], None),
            ["2026-10-25 03:30"]
        );
        assert_eq!(
            labels("month", "UTC", &["2026-10-01T00:00:00.000Z"], None),
            ["2026-10"]
        );
        let unknown = labels("day", "Mars/Base", &[start], None);
        assert_eq!(unknown, ["2026-10-24T22:00:00Z"]);
        let starts = ["2026-08-21T00:00:00.000Z", "2026-08-22T22:00:00.000Z"];
        let mixed = labels("day", "Europe/Berlin", &starts, Some(starts[1]));
        assert_eq!(mixed, ["2026-08-21", "2026-08-23"]);
    }
}
