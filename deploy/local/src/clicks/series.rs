//! Clicks over time, as a chart. No I/O.

use std::fmt::Write as _;

use linkledger_core::{click::buckets::Zone, timestamp};
use serde::Deserialize;
use time::{OffsetDateTime, format_description::BorrowedFormatItem, macros::format_description};

use super::chart::{Chart, ChartRow};
use crate::table::short_time;

const DATE: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]-[day]");
const MONTH: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]");
const HOUR: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]-[day] [hour]:[minute]");

/// Clicks over time, as the API returns them.
#[derive(Deserialize)]
pub(super) struct SeriesDocument {
    interval: String,
    timezone: String,
    complete_until: String,
    utc_days_before: Option<String>,
    totals: Figures,
    series: Vec<Bucket>,
}

#[derive(Deserialize)]
struct Figures {
    clicks: u64,
    bots: u64,
    visitors: Option<u64>,
}

#[derive(Deserialize)]
struct Bucket {
    start: String,
    #[serde(flatten)]
    figures: Figures,
}

impl Figures {
    fn row(&self, label: String) -> ChartRow {
        ChartRow {
            label,
            numbers: vec![Some(self.clicks), self.visitors, Some(self.bots)],
        }
    }
}

/// Formats the chart with its totals, and the notes about its figures.
pub(super) fn text(document: &SeriesDocument, width: usize) -> String {
    let title = document.interval.to_uppercase();
    let buckets = document.series.iter();
    let chart = Chart {
        titles: &[&title, "CLICKS", "VISITORS", "BOTS"],
        rows: buckets
            .map(|bucket| bucket.figures.row(label(document, &bucket.start)))
            .collect(),
        sums: vec![document.totals.row("Total".to_owned())],
    };
    let mut text = chart.text(width);
    if let Some(instant) = &document.utc_days_before {
        let instant = short_time(instant);
        writeln!(text, "Days before {instant} are UTC days").expect("a string");
    }
    let until = short_time(&document.complete_until);
    writeln!(text, "Complete until {until}").expect("a string");
    text
}

/// Returns the local begin of a bucket; the instant itself if this program does not know the time zone.
fn label(document: &SeriesDocument, start: &str) -> String {
    let zone = match &document.utc_days_before {
        // Instants of equal form are ordered like their texts.
        Some(until) if start < until.as_str() => Some(Zone::UTC),
        _ => Zone::of_name(&document.timezone),
    };
    let format = match document.interval.as_str() {
        "hour" => HOUR,
        "month" => MONTH,
        _ => DATE,
    };
    let local = |instant: OffsetDateTime| zone?.local(instant).format(format).ok();
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
            "interval": interval, "timezone": timezone, "complete_until": "",
            "utc_days_before": utc_before, "totals": { "clicks": 1, "bots": 0, "visitors": 1 },
            "series": starts.iter().map(bucket).collect::<Vec<_>>(),
        }))
        .unwrap();
        let series = document.series.iter();
        series
            .map(|bucket| label(&document, &bucket.start))
            .collect()
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
