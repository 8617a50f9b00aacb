//! What the cursors refer to: the Kafka cluster, and where in the topic the last record is. A topic
//! that was created anew, or another cluster, lacks the records up to the cursors.

use anyhow::Context as _;
use linkledger_core::shard::{Position, Shard};
use sqlx::PgPool;

use super::{
    cursor::Lease,
    refusal::Refusal,
    topic::{Cluster, tail::Span},
};

/// What the cursor of a shard refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The shard.
    pub shard: Shard,
    /// Everything up to it was acknowledged.
    pub position: Position,
    /// By this cluster; unknown of what an earlier release has published.
    pub cluster_id: Option<String>,
    /// Where in the topic there is a record, if that is known; new ones come behind it.
    pub offset: Option<i64>,
    /// The topic was seen to begin again while it was published to.
    pub is_lost: bool,
}

/// What the cursors of all shards refer to, whoever publishes them.
///
/// # Errors
/// When the database does not answer.
pub async fn read(pool: &PgPool) -> anyhow::Result<Vec<Binding>> {
    let rows = sqlx::query!(
        "SELECT shard, position, cluster_id, record_offset, topic_lost
         FROM event_store.relay_cursors ORDER BY shard"
    )
    .fetch_all(pool)
    .await
    .context("can't read what the cursors refer to")?;
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

/// Whether the cluster has what the cursors stand for.
///
/// Old records that retention has removed are not missed: their offsets are never given out again,
/// so a partition's end stays above the last record.
///
/// # Errors
/// Why not.
pub fn judge(bindings: &[Binding], cluster: &Cluster) -> Result<(), Refusal> {
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
            return Err(Refusal::OtherCluster {
                bound: bound.clone(),
                present: present.clone(),
            });
        }
        if binding.is_lost {
            return Err(Refusal::BeganAgain { shard });
        }
        if let Some(offset) = binding.offset
            && watermarks.high <= offset
        {
            return Err(Refusal::RecordsGone {
                topic: topic.name.clone(),
                shard,
                offset,
                high: watermarks.high,
            });
        }
    }
    Ok(())
}

/// The records that were published after the cursors of these leases were stored.
pub fn behind(bindings: &[Binding], leases: &[Lease], cluster: &Cluster) -> Vec<Span> {
    let is_ours = |it: &&Binding| leases.iter().any(|lease| lease.shard == it.shard);
    let span = |it: &Binding| {
        let partitions = &cluster.topic.as_ref()?.watermarks;
        Span::after(it.shard, it.offset, *partitions.get(it.shard.index())?)
    };
    bindings.iter().filter(is_ours).filter_map(span).collect()
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
    fn cursors_are_good_for_the_topic_that_has_their_records() {
        let here = Some("present");
        for (bindings, cluster) in [
            // As it was left.
            (bound(7, here, Some(6)), cluster(0, 7)),
            // Records of somebody who published before the cursor was stored.
            (bound(7, here, Some(6)), cluster(0, 9)),
            // Retention has removed some, or all.
            (bound(7, here, Some(6)), cluster(5, 7)),
            (bound(7, here, Some(6)), cluster(7, 7)),
            // Of an earlier release: nothing is known.
            (bound(7, None, None), cluster(0, 7)),
            // Set back, and nothing published since.
            (bound(7, here, None), cluster(0, 0)),
            // Nothing was published yet, or a first batch before a crash.
            (bound(0, here, None), cluster(0, 0)),
            (bound(0, here, None), cluster(0, 2)),
            // Nothing was published to the cluster before either.
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
    fn cursors_whose_records_are_elsewhere_or_gone_are_refused() {
        let (here, former) = (Some("present"), Some("former"));
        for (bindings, cluster, expected) in [
            (bound(7, here, Some(6)), cluster(0, 6), "records_gone"),
            (bound(7, here, Some(6)), cluster(0, 0), "records_gone"),
            (bound(7, former, Some(6)), cluster(0, 0), "other_cluster"),
            (bound(7, former, Some(6)), cluster(0, 7), "other_cluster"),
            (bound(7, former, None), cluster(0, 0), "other_cluster"),
            // Somebody else's records.
            (bound(0, former, None), cluster(0, 1), "other_cluster"),
        ] {
            assert_eq!(
                reason(&bindings, &cluster),
                Some(expected),
                "{bindings:?} {cluster:?}"
            );
        }
        // One shard is enough.
        let mut bindings = bound(0, here, None);
        bindings[3].position = 7;
        bindings[3].offset = Some(6);
        assert_eq!(reason(&bindings, &cluster(0, 6)), Some("records_gone"));
        bindings[3].offset = Some(5);
        bindings[3].is_lost = true;
        assert_eq!(reason(&bindings, &cluster(0, 6)), Some("began_again"));
    }
}
