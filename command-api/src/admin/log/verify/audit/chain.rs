//! Check of a shard's sealed segments: each hash must match the events and the segment before.

use std::{iter::Peekable, vec::IntoIter};

use linkledger_core::{
    segment::{NO_SEGMENT_BEFORE, Segment, SegmentHash, SegmentHasher},
    shard::{Position, Shard},
};
use linkledger_event_store::log::stored::StoredEvent;

use super::findings::Findings;

/// Running check of the segments.
#[derive(Debug)]
pub(super) struct Chain {
    to_come: Peekable<IntoIter<Segment>>,
    open: Option<(Segment, SegmentHasher)>,
    before: SegmentHash,
}

impl Chain {
    /// Checks that the segments are one chain, and skips segments beyond the end of the log.
    pub(super) fn new(
        shard: Shard,
        mut segments: Vec<Segment>,
        end: (i32, Position),
        findings: &mut Findings,
    ) -> Self {
        let (epoch, head) = end;
        let mut before: Option<&Segment> = None;
        for segment in &segments {
            let place = segment.place;
            let expected = Segment::next(before, shard, epoch, 1);
            let number = place.number;
            let mut found = |what: String| findings.add(Some(place.first_position), what);
            if number != expected.number {
                let missing = expected.number;
                found(format!(
                    "segment {missing} is missing before segment {number}"
                ));
            } else if place.first_position != expected.first_position {
                let right = expected.first_position;
                found(format!(
                    "segment {number} begins here, but must begin at position {right}"
                ));
            }
            let earliest = before.map_or(1, |before| before.place.epoch);
            if !(earliest..=epoch).contains(&place.epoch) {
                found(format!(
                    "segment {number} was sealed in epoch {}, outside of {earliest} (previous segment) to \
                     {epoch} (log)",
                    place.epoch
                ));
            }
            if place.last_position > head {
                found(format!(
                    "segment {number} is sealed up to position {}, but the log ends at {head}",
                    place.last_position
                ));
            }
            before = Some(segment);
        }
        segments.retain(|segment| segment.place.last_position <= head);
        Self {
            to_come: segments.into_iter().peekable(),
            open: None,
            before: NO_SEGMENT_BEFORE,
        }
    }

    /// Hashes the next event; events after the last segment are not sealed yet.
    pub(super) fn event(&mut self, event: &StoredEvent<'_>, findings: &mut Findings) {
        let begins = |segment: &Segment| segment.place.first_position <= event.position;
        while let Some((segment, _)) = &self.open
            && segment.place.last_position < event.position
        {
            self.close(findings);
        }
        if self.open.is_none()
            && let Some(segment) = self.to_come.next_if(begins)
        {
            self.open = Some((segment, SegmentHasher::new(&segment.place, &self.before)));
        }
        let Some((segment, hasher)) = &mut self.open else {
            return;
        };
        hasher.update(event.row);
        if segment.place.last_position == event.position {
            self.close(findings);
        }
    }

    /// Checks the remaining segments after the last event.
    pub(super) fn finish(mut self, findings: &mut Findings) {
        self.close(findings);
        while let Some(segment) = self.to_come.next() {
            self.open = Some((segment, SegmentHasher::new(&segment.place, &self.before)));
            self.close(findings);
        }
    }

    fn close(&mut self, findings: &mut Findings) {
        let Some((segment, hasher)) = self.open.take() else {
            return;
        };
        let place = segment.place;
        if hasher.finish() != segment.sha256 {
            let what = format!(
                "segment {} (positions {} to {}) is not what was sealed: its events, its row or \
                 the segment before have changed",
                place.number, place.first_position, place.last_position
            );
            findings.add(Some(place.first_position), what);
        }
        self.before = segment.sha256;
    }
}
