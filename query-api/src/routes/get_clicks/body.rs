//! Answers with clicks over time.

use linkledger_clicks::statistics::ClickStatistics;
use linkledger_core::{id::LinkId, timestamp};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::IntervalName;
use crate::{
    read_model::clicks::Series,
    routes::clicks_csv::{CsvRow, optional},
    statistics_reads::CompleteStatistics,
};

/// Clicks of a range.
#[derive(Serialize, ToSchema)]
#[schema(as = Clicks)]
pub(super) struct ClicksBody {
    #[schema(inline, value_type = IntervalName)]
    interval: &'static str,
    timezone: String,
    /// Begin of the first bucket.
    #[schema(format = "date-time")]
    from: String,
    /// End of the last bucket, exclusive.
    #[schema(format = "date-time")]
    to: String,
    /// Every click before this instant is in the statistics, except clicks that were lost.
    #[schema(format = "date-time")]
    complete_until: String,
    /// Buckets that begin before this instant consist of UTC days, because the time zone of their clicks is kept
    /// for 90 days only; absent if there are no such buckets.
    #[schema(format = "date-time", nullable = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    utc_days_before: Option<String>,
    totals: ClickTotals,
    /// Every bucket of the range, oldest first.
    #[schema(max_items = 1000)]
    pub(super) series: Vec<ClickBucket>,
}

/// Clicks of a link in a range.
#[derive(Serialize, ToSchema)]
#[schema(as = LinkClicks)]
pub(super) struct LinkClicksBody {
    #[schema(inline)]
    pub(super) link_id: LinkId,
    #[serde(flatten)]
    pub(super) clicks: ClicksBody,
}

/// Clicks of all buckets.
#[derive(Serialize, ToSchema)]
pub(super) struct ClickTotals {
    /// Clicks of people.
    clicks: u64,
    /// Clicks of bots.
    bots: u64,
    /// Estimated distinct visitors of each UTC day, added over days: a visitor who returns on another day counts
    /// again. The standard error of a day is below 1 %. With `interval=hour`: of all UTC days that the range
    /// touches; otherwise the sum of the series, null counted as 0.
    visitors: u64,
}

/// Clicks of one bucket.
#[derive(Serialize, ToSchema)]
pub(super) struct ClickBucket {
    /// Begin with the offset of the time zone, for CSV.
    #[serde(skip)]
    local_start: OffsetDateTime,
    #[schema(format = "date-time")]
    start: String,
    /// Clicks of people.
    clicks: u64,
    /// Clicks of bots.
    bots: u64,
    /// Estimated distinct visitors of each UTC day whose noon (UTC) is in the bucket, added over days; null with
    /// `interval=hour`, and as long as none of these UTC days has begun: in Asia/Tokyo, today until 09:00.
    #[schema(required)]
    visitors: Option<u64>,
}

impl CsvRow for ClickBucket {
    const COLUMNS: &'static [&'static str] = &["date", "start", "clicks", "bots", "visitors"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.local_start.date().to_string(),
            timestamp::format_local(self.local_start),
            self.clicks.to_string(),
            self.bots.to_string(),
            optional(self.visitors),
        ]
    }
}

impl ClicksBody {
    pub(super) fn new(read: CompleteStatistics<Series>) -> Self {
        let Series {
            buckets,
            statistics,
            totals,
        } = read.statistics;
        let series = buckets.local_starts().zip(statistics);
        Self {
            interval: buckets.interval().name(),
            timezone: buckets.zone().name().to_owned(),
            from: timestamp::format(buckets.from()),
            to: timestamp::format(buckets.to()),
            complete_until: timestamp::format(read.complete_until),
            utc_days_before: buckets.utc_days_before().map(timestamp::format),
            totals: ClickTotals {
                clicks: totals.clicks,
                bots: totals.bots,
                visitors: totals.visitors.unwrap_or_default(),
            },
            series: series.map(ClickBucket::new).collect(),
        }
    }
}

impl ClickBucket {
    fn new((start, statistics): (OffsetDateTime, ClickStatistics)) -> Self {
        Self {
            local_start: start,
            start: timestamp::format(start),
            clicks: statistics.clicks,
            bots: statistics.bots,
            visitors: statistics.visitors,
        }
    }
}
