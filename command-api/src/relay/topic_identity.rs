//! Identity of the topic: the cursors are bound to a Kafka cluster and to an offset of the topic. A topic
//! that was created anew, or another cluster, lacks the records up to the cursors and is refused.

use linkledger_core::shard::Shard;
use linkledger_event_store::log::PerShard;

use super::{
    cursor::Cursor,
    refusal::RelayRefusal,
    topic::{
        Topic,
        tail::{Span, Tail},
    },
};

/// Checks that the cluster has, or had, the records up to the cursors.
///
/// Retention may have removed records: Kafka never gives their offsets to other records, so the end
/// of a partition stays above the last record.
///
/// # Errors
/// Returns a refusal for another cluster, if a relay saw the offsets start again, or if the topic ends
/// before the last known offset: it was created anew, or has lost its last records.
pub(super) fn check(cursors: &PerShard<Cursor>, topic: &Topic) -> Result<(), RelayRefusal> {
    for ((shard, cursor), watermarks) in Shard::all().zip(cursors).zip(&topic.watermarks) {
        if let (Some(bound), Some(present)) = (&cursor.cluster_id, &topic.cluster_id)
            && bound != present
        {
            if cursor.position == 0 && watermarks.is_empty() {
                // Nothing is missing.
                continue;
            }
            let text = format!(
                "what was published lies in the Kafka cluster {bound}, and this is {present}; go back to \
                 that cluster, or publish the log to this one: `command-api relay republish --from 0`"
            );
            return Err(RelayRefusal::new("other_cluster", text));
        }
        if cursor.topic_lost {
            return Err(RelayRefusal::began_again(shard));
        }
        if let Some(offset) = cursor.record_offset
            && watermarks.high <= offset
        {
            let (topic, high) = (&topic.name, watermarks.high);
            let text = format!(
                "the last record of shard {shard} was at offset {offset}, and the topic {topic} ends at \
                 {high}: it was created anew, or has lost records; publish the log again into an empty \
                 topic: `command-api relay republish --from 0`"
            );
            return Err(RelayRefusal::new("records_gone", text));
        }
    }
    Ok(())
}

/// Checks the events after the cursors that no relay of this log has published. Nothing comes from them; but a topic
/// that has no others may be that of another log, whose sequences would come twice.
///
/// # Errors
/// Returns a refusal if nothing of this log was published to the topic.
pub(super) fn check_foreign(
    cursors: &PerShard<Cursor>,
    topic: &Topic,
    tail: &Tail,
) -> Result<(), RelayRefusal> {
    if tail.foreign == 0 {
        return Ok(());
    }
    let topic = topic.name.as_str();
    if tail.records.is_empty() && cursors.iter().all(|cursor| cursor.position == 0) {
        let text = format!(
            "the topic {topic} has records, and none of them is of this log: it is the topic of another log, or \
             somebody else has written to it; give this log a topic of its own (--kafka-topic), or delete the topic, \
             then: `command-api topic create`"
        );
        return Err(RelayRefusal::new("other_log", text));
    }
    tracing::warn!(
        kafka.topic = topic,
        foreign = tail.foreign,
        "the topic has events that no relay of this log has published: somebody else writes to it; the projector \
         drops them, other consumers cannot (docs/kafka.md, \"What others may write\")"
    );
    Ok(())
}

/// Returns the offsets after the cursor of each shard, at most the last 10,000 of a partition. A record
/// at such an offset was published by a process that ended before that process stored the cursor.
pub(super) fn spans_after_cursors(cursors: &PerShard<Cursor>, topic: &Topic) -> Vec<Span> {
    let partitions = Shard::all().zip(cursors).zip(&topic.watermarks);
    partitions
        .filter_map(|((shard, cursor), watermarks)| {
            Span::after(shard, cursor.record_offset, *watermarks)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use linkledger_core::{id::EventId, shard::Position};
    use linkledger_event_store::log::EventPlace;
    use uuid::Uuid;

    use super::{
        super::topic::{TopicSettings, Watermarks, tail::Record},
        *,
    };

    fn bound(
        position: Position,
        cluster_id: Option<&str>,
        record_offset: Option<i64>,
    ) -> Box<PerShard<Cursor>> {
        Box::new([(); 16].map(|()| Cursor {
            position,
            cluster_id: cluster_id.map(str::to_owned),
            record_offset,
            ..Cursor::default()
        }))
    }

    fn topic(low: i64, high: i64) -> Topic {
        Topic {
            name: "t".to_owned(),
            cluster_id: Some("present".to_owned()),
            replicas: vec![1; 16],
            settings: TopicSettings::Unsupported,
            watermarks: vec![Watermarks { low, high }; 16],
        }
    }

    fn reason(cursors: &PerShard<Cursor>, topic: &Topic) -> Option<&'static str> {
        let checked = check(cursors, topic);
        checked.err().map(|refusal| refusal.reason)
    }

    #[test]
    fn topic_with_records_of_cursors_is_accepted() {
        let here = Some("present");
        for (cursors, topic) in [
            // Unchanged since the cursor was stored.
            (bound(7, here, Some(6)), topic(0, 7)),
            // A relay crashed after it had published and before it stored the cursor.
            (bound(7, here, Some(6)), topic(0, 9)),
            // Retention has removed some records, or all.
            (bound(7, here, Some(6)), topic(5, 7)),
            (bound(7, here, Some(6)), topic(7, 7)),
            // No cluster and no offset are stored.
            (bound(7, None, None), topic(0, 7)),
            // Moved back by a republish, and nothing published since.
            (bound(7, here, None), topic(0, 0)),
            // Nothing published yet, or a first batch before a crash.
            (bound(0, here, None), topic(0, 0)),
            (bound(0, here, None), topic(0, 2)),
            // Nothing published to the former cluster either.
            (bound(0, Some("former"), None), topic(0, 0)),
        ] {
            assert_eq!(reason(&cursors, &topic), None, "{cursors:?} {topic:?}");
        }
    }

    #[test]
    fn topic_with_events_of_another_log_only_is_refused() {
        let (published, nothing) = (bound(7, None, None), bound(0, None, None));
        let record = || Record {
            place: EventPlace {
                shard: Shard::new(3).unwrap(),
                position: 1,
                event_id: EventId::from_uuid(Uuid::nil()),
            },
            log_epoch: 1,
        };
        for (cursors, own, foreign, is_refused) in [
            (&nothing, false, 0, false),
            (&nothing, false, 1, true),
            // A crash before the first position was stored.
            (&nothing, true, 1, false),
            (&published, false, 1, false),
        ] {
            let records = own.then(record).into_iter().collect();
            let checked = check_foreign(cursors, &topic(0, 7), &Tail { records, foreign });
            assert_eq!(checked.is_err(), is_refused, "{own} {foreign}");
        }
    }

    #[test]
    fn other_cluster_and_lost_records_are_refused() {
        let (here, former) = (Some("present"), Some("former"));
        for (cursors, topic, expected) in [
            (bound(7, here, Some(6)), topic(0, 6), "records_gone"),
            (bound(7, here, Some(6)), topic(0, 0), "records_gone"),
            (bound(7, former, Some(6)), topic(0, 0), "other_cluster"),
            (bound(7, former, Some(6)), topic(0, 7), "other_cluster"),
            (bound(7, former, None), topic(0, 0), "other_cluster"),
            // Records of another log.
            (bound(0, former, None), topic(0, 1), "other_cluster"),
        ] {
            assert_eq!(
                reason(&cursors, &topic),
                Some(expected),
                "{cursors:?} {topic:?}"
            );
        }
        // One refused shard is enough.
        let mut cursors = bound(0, here, None);
        cursors[3].position = 7;
        cursors[3].record_offset = Some(6);
        assert_eq!(reason(&cursors, &topic(0, 6)), Some("records_gone"));
        cursors[3].record_offset = Some(5);
        cursors[3].topic_lost = true;
        assert_eq!(reason(&cursors, &topic(0, 6)), Some("began_again"));
    }
}
