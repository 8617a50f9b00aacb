//! Binding of the cursors to a Kafka cluster and to an offset of the topic. A topic that was created
//! anew, or another cluster, lacks the records up to the cursors and is refused.

use anyhow::Context as _;
use linkledger_core::shard::{Position, Shard};
use sqlx::PgPool;

use super::{
    refusal::RelayRefusal,
    topic::{Cluster, tail::Span},
};

/// Cluster and offset of the cursor of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Shard of the cursor.
    pub shard: Shard,
    /// Highest acknowledged position.
    pub position: Position,
    /// Cluster of the records; unknown for records of an earlier release.
    pub cluster_id: Option<String>,
    /// Offset of a published record, if one is known; later records have higher offsets.
    pub offset: Option<i64>,
    /// True if the topic began again at a lower offset while a relay published.
    pub is_lost: bool,
}

/// Reads the bindings of all shards.
///
/// # Errors
/// Returns an error if the database does not answer.
pub async fn read(pool: &PgPool) -> anyhow::Result<Vec<Binding>> {
    let rows = sqlx::query!(
        "SELECT shard, position, cluster_id, record_offset, topic_lost
         FROM event_store.relay_cursors ORDER BY shard"
    )
    .fetch_all(pool)
    .await
    .context("cannot read the bindings of the cursors")?;
    let bindings = rows.into_iter().filter_map(|row| {
        Some(Binding {
            shard: Shard::new(row.shard.into())?,
            position: row.position,
            cluster_id: row.cluster_id,
            offset: row.record_offset,
            is_lost: row.topic_lost,
        })
    });
    Ok(bindings.collect())
}

/// Checks that the cluster has, or had, the records up to the cursors.
///
/// Retention may have removed records: Kafka never gives their offsets to other records, so the end
/// of a partition stays above the last record.
///
/// # Errors
/// Returns the refusal if the cluster is another one, or the topic was created anew.
pub fn judge(bindings: &[Binding], cluster: &Cluster) -> Result<(), RelayRefusal> {
    let Some(topic) = &cluster.topic else {
        return Ok(());
    };
    for binding in bindings {
        let shard = binding.shard;
        let Some(watermarks) = topic.watermarks.get(shard.index()) else {
            continue;
        };
        if let (Some(bound), Some(present)) = (&binding.cluster_id, &cluster.id)
            && bound != present
        {
            let nothing_is_missing = binding.position == 0 && watermarks.high == watermarks.low;
            if nothing_is_missing {
                continue;
            }
            return Err(RelayRefusal::OtherCluster {
                bound: bound.clone(),
                present: present.clone(),
            });
        }
        if binding.is_lost {
            return Err(RelayRefusal::BeganAgain { shard });
        }
        if let Some(offset) = binding.offset
            && watermarks.high <= offset
        {
            return Err(RelayRefusal::RecordsGone {
                topic: topic.name.clone(),
                shard,
                offset,
                high: watermarks.high,
            });
        }
    }
    Ok(())
}

/// Returns the offsets of the records behind the cursors.
pub fn behind(bindings: &[Binding], cluster: &Cluster) -> Vec<Span> {
    let span = |binding: &Binding| {
        let partitions = &cluster.topic.as_ref()?.watermarks;
        let partition = *partitions.get(binding.shard.index())?;
        Span::after(binding.shard, binding.offset, partition)
    };
    bindings.iter().filter_map(span).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::topic::{Settings, Topic, Watermarks},
        *,
    };

    fn bound(position: Position, cluster_id: Option<&str>, offset: Option<i64>) -> Vec<Binding> {
        let binding = |shard| Binding {
            shard,
            position,
            cluster_id: cluster_id.map(str::to_owned),
            offset,
            is_lost: false,
        };
        Shard::all().map(binding).collect()
    }

    fn cluster(low: i64, high: i64) -> Cluster {
        Cluster {
            id: Some("present".to_owned()),
            brokers: 1,
            topic: Some(Topic {
                name: "t".to_owned(),
                replicas: vec![1; 16],
                settings: Settings::Unsupported,
                watermarks: vec![Watermarks { low, high }; 16],
            }),
        }
    }

    fn reason(bindings: &[Binding], cluster: &Cluster) -> Option<&'static str> {
        judge(bindings, cluster)
            .err()
            .map(|refusal| refusal.reason())
    }

    #[test]
    fn topic_with_records_of_cursors_is_accepted() {
        let here = Some("present");
        for (bindings, cluster) in [
            // Unchanged since the cursor was stored.
            (bound(7, here, Some(6)), cluster(0, 7)),
            // A relay crashed after it had published and before it stored the cursor.
            (bound(7, here, Some(6)), cluster(0, 9)),
            // Retention has removed some records, or all.
            (bound(7, here, Some(6)), cluster(5, 7)),
            (bound(7, here, Some(6)), cluster(7, 7)),
            // An earlier release stored no cluster and no offset.
            (bound(7, None, None), cluster(0, 7)),
            // Moved back by a refill, and nothing published since.
            (bound(7, here, None), cluster(0, 0)),
            // Nothing published yet, or a first batch before a crash.
            (bound(0, here, None), cluster(0, 0)),
            (bound(0, here, None), cluster(0, 2)),
            // Nothing published to the former cluster either.
            (bound(0, Some("former"), None), cluster(0, 0)),
        ] {
            assert_eq!(
                reason(&bindings, &cluster),
                None,
                "{bindings:?} {cluster:?}"
            );
        }
    }

    #[test]
    fn other_cluster_and_lost_records_are_refused() {
        let (here, former) = (Some("present"), Some("former"));
        for (bindings, cluster, expected) in [
            (bound(7, here, Some(6)), cluster(0, 6), "records_gone"),
            (bound(7, here, Some(6)), cluster(0, 0), "records_gone"),
            (bound(7, former, Some(6)), cluster(0, 0), "other_cluster"),
            (bound(7, former, Some(6)), cluster(0, 7), "other_cluster"),
            (bound(7, former, None), cluster(0, 0), "other_cluster"),
            // Records of another log.
            (bound(0, former, None), cluster(0, 1), "other_cluster"),
        ] {
            assert_eq!(
                reason(&bindings, &cluster),
                Some(expected),
                "{bindings:?} {cluster:?}"
            );
        }
        // One refused shard is enough.
        let mut bindings = bound(0, here, None);
        bindings[3].position = 7;
        bindings[3].offset = Some(6);
        assert_eq!(reason(&bindings, &cluster(0, 6)), Some("records_gone"));
        bindings[3].offset = Some(5);
        bindings[3].is_lost = true;
        assert_eq!(reason(&bindings, &cluster(0, 6)), Some("began_again"));
    }
}
