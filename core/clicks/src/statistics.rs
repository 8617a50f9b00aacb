//! Statistics of clicks: rows of slots and of UTC days, added up to buckets and totals.
//!
//! Visitors are estimated for each UTC day, and the estimates are added: a visitor who returns on another day
//! counts again. Only the union of one day is in memory at a time, so rows must arrive in the order of their days.

use time::{Date, OffsetDateTime};

use super::{
    buckets::{Buckets, VisitorsPlace},
    sketch::{SketchUnion, VisitorSketch},
    tally::KindCount,
};

/// Clicks of a bucket, or of a whole range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClickStatistics {
    /// Clicks of people.
    pub clicks: u64,
    /// Clicks of bots.
    pub bots: u64,
    /// Estimated visitors of each UTC day, added over days; `None` for an hour, and before the first UTC day begins.
    pub visitors: Option<u64>,
}

/// Stored statistics that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the statistics of {day} are damaged: {reason}")]
pub struct DamagedStatistics {
    /// UTC day of the row.
    pub day: Date,
    /// Reason of the decoder.
    pub reason: String,
}

/// Returns the stored sketch of a day.
///
/// # Errors
/// Returns an error if the sketch is damaged.
pub fn stored_sketch(day: Date, sketch: &[u8]) -> Result<VisitorSketch, DamagedStatistics> {
    VisitorSketch::from_bytes(sketch).map_err(|error| DamagedStatistics {
        day,
        reason: error.to_string(),
    })
}

/// Series of buckets that rows are added to.
#[derive(Debug)]
pub struct ClickSeries {
    buckets: Buckets,
    statistics: Vec<ClickStatistics>,
    visitors: u64,
    /// Union of the sketches of one day at a time.
    visitors_of_day: Option<(Date, SketchUnion)>,
}

impl ClickSeries {
    /// Returns a series without clicks.
    pub fn new(buckets: Buckets) -> Self {
        let empty = |has_visitors: bool| ClickStatistics {
            visitors: has_visitors.then_some(0),
            ..ClickStatistics::default()
        };
        Self {
            statistics: buckets.have_visitors().map(empty).collect(),
            visitors: 0,
            visitors_of_day: None,
            buckets,
        }
    }

    /// Adds the clicks of a slot of 15 min.
    pub fn add_slot(&mut self, slot: OffsetDateTime, counted: KindCount) {
        let bucket = self.buckets.of_slot(slot);
        self.add_clicks(bucket, counted);
    }

    /// Adds a row of a UTC day. Rows of one day must follow each other.
    ///
    /// # Errors
    /// Returns an error if the sketch is damaged.
    pub fn add_day(
        &mut self,
        day: Date,
        counted: KindCount,
        sketch: Option<&[u8]>,
    ) -> Result<(), DamagedStatistics> {
        let bucket = self.buckets.of_day(day);
        self.add_clicks(bucket, counted);
        if let Some(sketch) = sketch
            && self.buckets.of_visitors(day) != VisitorsPlace::Outside
        {
            let sketch = stored_sketch(day, sketch)?;
            if self
                .visitors_of_day
                .as_ref()
                .is_none_or(|(of, _)| *of != day)
            {
                self.end_day();
            }
            let of_day = self
                .visitors_of_day
                .get_or_insert_with(|| (day, SketchUnion::default()));
            of_day.1.add(&sketch);
        }
        Ok(())
    }

    /// Returns the buckets, their statistics, and the totals.
    pub fn finish(mut self) -> (Buckets, Vec<ClickStatistics>, ClickStatistics) {
        self.end_day();
        let sum = |of: fn(&ClickStatistics) -> u64| self.statistics.iter().map(of).sum();
        let totals = ClickStatistics {
            clicks: sum(|statistics| statistics.clicks),
            bots: sum(|statistics| statistics.bots),
            visitors: Some(self.visitors),
        };
        (self.buckets, self.statistics, totals)
    }

    fn add_clicks(&mut self, bucket: Option<usize>, counted: KindCount) {
        if let Some(statistics) = bucket.map(|bucket| &mut self.statistics[bucket]) {
            statistics.clicks += counted.clicks;
            statistics.bots += counted.bots;
        }
    }

    /// Adds the estimate of the day that is over.
    fn end_day(&mut self) {
        let Some((day, union)) = self.visitors_of_day.take() else {
            return;
        };
        let estimate = union.to_sketch().estimate();
        self.visitors += estimate;
        if let VisitorsPlace::Bucket(bucket) = self.buckets.of_visitors(day) {
            *self.statistics[bucket].visitors.get_or_insert_default() += estimate;
        }
    }
}

#[cfg(test)]
mod tests;
