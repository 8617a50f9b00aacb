//! Ends of the topic: lag, and the instants until which partitions are read to their ends.

use std::collections::BTreeMap;

use linkledger_event_store::time_limit::{ANSWER_TIME_MAX, within};
use linkledger_service::metrics::CLICKS_LAG_RECORDS;
use metrics::gauge;

use super::AggregationLoop;
use crate::clicks::position;

impl AggregationLoop {
    pub(super) fn has_reached_end_of_topic(&self) -> bool {
        if self.is_ending_at_topic_end
            && self.partitions.is_empty()
            && self.claimed.borrow().is_empty()
        {
            return true;
        }
        let Some(last) = &self.last_ends else {
            return false;
        };
        self.partitions.iter().all(|(number, partition)| {
            let end = last.ends.get(number).map(|ends| ends.end);
            match (partition, end) {
                (Some(partition), Some(end)) => partition.has_counted_to(end),
                (Some(_), None) => false,
                (None, _) => self.paused.contains(number),
            }
        })
    }

    /// Asks for the ends of the topic once a second, and records which partitions are read to their end.
    pub(super) async fn measure(&mut self) {
        if let Some(answer) = self.requests.take().await {
            for (number, ends) in &answer.ends {
                let counted = answer.counted.get(number).copied().unwrap_or(0);
                if let Some(Some(partition)) = self.partitions.get_mut(number) {
                    partition.measure(*ends, counted, answer.at);
                }
            }
            self.restart();
            // Nobody would ask again for an end that this answer lacks.
            let counted = self.partitions.keys();
            let mut counted = counted.filter(|it| !self.paused.contains(it));
            let has_all_ends = counted.all(|it| answer.ends.contains_key(it));
            if self.is_ending_at_topic_end && !self.partitions.is_empty() && has_all_ends {
                self.last_ends.get_or_insert(answer);
            }
            self.report_lag();
        }
        self.record_read_to_end().await;
        let counted = self.partitions.iter();
        let counted: BTreeMap<u8, i64> = counted
            .map(|(number, it)| (*number, it.as_ref().map_or(0, |it| it.counted)))
            .collect();
        if self.requests.is_due() && !counted.is_empty() {
            let begun = self
                .requests
                .begin(&self.pool, &self.consumer, counted)
                .await;
            if let Err(error) = begun {
                self.warn_of(&error, "cannot read the clock of the database");
            }
        }
    }

    async fn record_read_to_end(&mut self) {
        let ends = self
            .partitions
            .iter_mut()
            .filter_map(|(number, partition)| {
                let partition = partition.as_mut()?;
                let at = partition.read_to_end_at.take()?;
                Some((i16::from(*number), partition.position.next_offset, at))
            });
        let ends: Vec<_> = ends.collect();
        if ends.is_empty() {
            return;
        }
        let recording = position::record_read_to_end(&self.pool, ends);
        if let Err(error) = within(ANSWER_TIME_MAX, recording).await {
            self.warn_of(
                &error,
                "cannot record that the topic of clicks is read to its end",
            );
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    pub(super) fn report_lag(&self) {
        let lag: u64 = self.partitions.values().flatten().map(|it| it.lag).sum();
        gauge!(CLICKS_LAG_RECORDS).set(lag as f64);
    }
}
