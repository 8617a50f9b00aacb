//! Figures of clicks: rows of quarters and of UTC days, added up to buckets and totals.
//!
//! Visitors are estimated for each UTC day, and the estimates are added: a visitor who returns on another day
//! counts again. Only the union of one day is in memory at a time, so rows must arrive in the order of their days.

use std::mem;

use time::{Date, OffsetDateTime};

use super::{
    buckets::{Buckets, VisitorsPlace},
    sketch::{SketchUnion, VisitorSketch},
    tally::KindCount,
};

/// Clicks of a bucket, or of a whole range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClickFigures {
    /// Clicks of people.
    pub clicks: u64,
    /// Clicks of bots.
    pub bots: u64,
    /// Estimated visitors of each UTC day, added over days; `None` for an hour, and before the first UTC day begins.
    pub visitors: Option<u64>,
}

/// Stored figures that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the figures of {day} are damaged: {reason}")]
pub struct DamagedFigures {
    /// UTC day of the row.
    pub day: Date,
    /// Reason of the decoder.
    pub reason: String,
}

/// Returns the stored sketch of a day.
///
/// # Errors
/// Returns an error if the sketch is damaged.
pub fn stored_sketch(day: Date, sketch: &[u8]) -> Result<VisitorSketch, DamagedFigures> {
    VisitorSketch::from_bytes(sketch).map_err(|error| DamagedFigures {
        day,
        reason: error.to_string(),
    })
}

/// Union of the sketches of one day at a time, for rows in the order of their days.
#[derive(Debug, Default)]
struct DayUnion {
    current: Option<(Date, SketchUnion)>,
}

impl DayUnion {
    /// Adds the sketch of a row. Returns the estimate of the day before, if the day is another one.
    fn add(&mut self, day: Date, sketch: &[u8]) -> Result<Option<(Date, u64)>, DamagedFigures> {
        let sketch = stored_sketch(day, sketch)?;
        match &mut self.current {
            Some((current, union)) if *current == day => {
                union.add(&sketch);
                Ok(None)
            }
            current => {
                let mut union = SketchUnion::default();
                union.add(&sketch);
                Ok(estimated(current.replace((day, union))))
            }
        }
    }

    /// Returns the estimate of the last day.
    fn finish(self) -> Option<(Date, u64)> {
        estimated(self.current)
    }
}

fn estimated(union: Option<(Date, SketchUnion)>) -> Option<(Date, u64)> {
    union.map(|(day, union)| (day, union.to_sketch().estimate()))
}

/// Series of buckets that rows are added to.
#[derive(Debug)]
pub struct ClickSeries {
    buckets: Buckets,
    figures: Vec<ClickFigures>,
    visitors: u64,
    visitors_of_day: DayUnion,
}

impl ClickSeries {
    /// Returns a series without clicks.
    pub fn new(buckets: Buckets) -> Self {
        let empty = |has_visitors: bool| ClickFigures {
            visitors: has_visitors.then_some(0),
            ..ClickFigures::default()
        };
        Self {
            figures: buckets.have_visitors().map(empty).collect(),
            visitors: 0,
            visitors_of_day: DayUnion::default(),
            buckets,
        }
    }

    /// Adds the clicks of a quarter of an hour.
    pub fn add_quarter(&mut self, quarter: OffsetDateTime, counted: KindCount) {
        let bucket = self.buckets.of_quarter(quarter);
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
    ) -> Result<(), DamagedFigures> {
        let bucket = self.buckets.of_day(day);
        self.add_clicks(bucket, counted);
        if let Some(sketch) = sketch
            && self.buckets.of_visitors(day) != VisitorsPlace::Outside
        {
            let finished = self.visitors_of_day.add(day, sketch)?;
            self.add_visitors(finished);
        }
        Ok(())
    }

    /// Returns the buckets, their figures, and the totals.
    pub fn finish(mut self) -> (Buckets, Vec<ClickFigures>, ClickFigures) {
        let last = mem::take(&mut self.visitors_of_day).finish();
        self.add_visitors(last);
        let sum = |of: fn(&ClickFigures) -> u64| self.figures.iter().map(of).sum();
        let totals = ClickFigures {
            clicks: sum(|figures| figures.clicks),
            bots: sum(|figures| figures.bots),
            visitors: Some(self.visitors),
        };
        (self.buckets, self.figures, totals)
    }

    fn add_clicks(&mut self, bucket: Option<usize>, counted: KindCount) {
        if let Some(figures) = bucket.map(|bucket| &mut self.figures[bucket]) {
            figures.clicks += counted.clicks;
            figures.bots += counted.bots;
        }
    }

    fn add_visitors(&mut self, estimate: Option<(Date, u64)>) {
        let Some((day, estimate)) = estimate else {
            return;
        };
        self.visitors += estimate;
        if let VisitorsPlace::Bucket(bucket) = self.buckets.of_visitors(day) {
            *self.figures[bucket].visitors.get_or_insert_default() += estimate;
        }
    }
}

#[cfg(test)]
mod tests;
