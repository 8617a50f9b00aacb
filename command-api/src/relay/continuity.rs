//! Comparison of the log with the published events. A restore, or a failover to a lagging standby,
//! can lose the last events of the log; later events then get the same positions.

use anyhow::Context as _;
use linkledger_core::{
    event_store::log::{self, EventPlace},
    shard::{Position, Shard},
};
use sqlx::PgPool;

use super::{refusal::RelayRefusal, topic::tail::Record};

/// Cursor of a shard and end of the log, read in one snapshot.
#[derive(Debug, Clone, Copy)]
struct CursorAndLog {
    shard: Shard,
    position: Position,
    epoch: i32,
    /// Latest epoch with published events that the log lacks.
    lost_epoch: Option<i32>,
    head: Position,
    log_epoch: i32,
}

/// Returns the refusal to publish, if the log lacks published events or has another epoch than a
/// cursor.
///
/// # Errors
/// Returns an error if the database does not answer.
pub(super) async fn judge(pool: &PgPool) -> anyhow::Result<Option<RelayRefusal>> {
    let rows = sqlx::query!(
        "SELECT c.shard, c.position, c.epoch, c.lost_epoch, s.head, m.epoch AS log_epoch
         FROM event_store.relay_cursors AS c
         JOIN event_store.log_shards AS s USING (shard)
         CROSS JOIN event_store.log_meta AS m
         ORDER BY c.shard"
    )
    .fetch_all(pool)
    .await
    .context("cannot compare the cursors with the log")?;
    let published = rows.into_iter().filter_map(|row| {
        Some(CursorAndLog {
            shard: Shard::new(row.shard.into())?,
            position: row.position,
            epoch: row.epoch,
            lost_epoch: row.lost_epoch,
            head: row.head,
            log_epoch: row.log_epoch,
        })
    });
    let refusals: Vec<RelayRefusal> = published.filter_map(refuse).collect();
    // Lost events come first: a new epoch is needed, and a refill before would be in vain.
    let is_lost = |refusal: &&RelayRefusal| matches!(refusal, RelayRefusal::EventsLost { .. });
    let refusal = refusals.iter().find(is_lost).or(refusals.first()).cloned();
    if let Some(RelayRefusal::EventsLost { shard, epoch }) = refusal {
        record_lost(pool, &[shard], epoch).await?;
    }
    Ok(refusal)
}

fn refuse(published: CursorAndLog) -> Option<RelayRefusal> {
    let CursorAndLog {
        shard,
        epoch,
        log_epoch,
        ..
    } = published;
    let is_beyond = epoch == log_epoch && published.position > published.head;
    let beyond = is_beyond.then_some(log_epoch);
    let lost = published.lost_epoch.filter(|lost| *lost >= log_epoch);
    if let Some(epoch) = lost.max(beyond) {
        return Some(RelayRefusal::EventsLost { shard, epoch });
    }
    (epoch != log_epoch).then_some(RelayRefusal::OtherEpoch {
        shard,
        epoch,
        log_epoch,
    })
}

/// Records a loss if the log lacks the last event that this process has published in the epoch. A
/// restored log may have grown beyond the lost positions since.
///
/// # Errors
/// Returns an error if the database does not answer.
pub(super) async fn watch(pool: &PgPool, last: &[EventPlace], epoch: i32) -> anyhow::Result<()> {
    let absent = log::first_absent(pool, last).await;
    match absent.context("cannot compare published events with the log")? {
        Some(place) => record_lost(pool, &[place.shard], epoch).await,
        None => Ok(()),
    }
}

/// Returns the refusal to publish, if the log lacks one of `records` of the log's epoch, or a record
/// has a later epoch.
///
/// Records of an earlier epoch do no harm: consumers drop such records.
///
/// # Errors
/// Returns an error if the database does not answer.
pub(super) async fn judge_records(
    pool: &PgPool,
    records: &[Record],
) -> anyhow::Result<Option<RelayRefusal>> {
    let log_epoch = log::epoch(pool).await;
    let log_epoch = log_epoch.context("cannot read the epoch of the log")?;
    let later = records.iter().filter(|record| record.log_epoch > log_epoch);
    let places: Vec<_> = records
        .iter()
        .filter(|record| record.log_epoch == log_epoch)
        .map(|record| record.place)
        .collect();
    let absent = match later.max_by_key(|record| record.log_epoch).copied() {
        Some(later) => Some(later),
        None => log::first_absent(pool, &places)
            .await
            .context("cannot compare the topic with the log")?
            .map(|place| Record { place, log_epoch }),
    };
    let Some(Record { place, log_epoch }) = absent else {
        return Ok(None);
    };
    tracing::error!(
        shard = %place.shard,
        event.position = place.position,
        event.id = %place.event_id,
        log_epoch,
        "the topic has an event that the log lacks"
    );
    record_lost(pool, &[place.shard], log_epoch).await?;
    let (shard, epoch) = (place.shard, log_epoch);
    Ok(Some(RelayRefusal::EventsLost { shard, epoch }))
}

/// Records that the log has lost published events of these shards in the epoch.
///
/// Needs no lease: within an epoch the log only grows, so a loss stays true whichever process
/// publishes now.
///
/// # Errors
/// Returns an error if the database does not answer.
pub(super) async fn record_lost(pool: &PgPool, shards: &[Shard], epoch: i32) -> anyhow::Result<()> {
    let shards: Vec<i16> = shards.iter().map(|shard| shard.number()).collect();
    sqlx::query!(
        "
        UPDATE event_store.relay_cursors AS c
        SET lost_epoch = $2
        FROM (SELECT shard FROM event_store.relay_cursors
              WHERE shard = ANY($1) AND coalesce(lost_epoch, 0) < $2
                AND EXISTS (SELECT FROM event_store.log_meta WHERE epoch <= $2)
              ORDER BY shard FOR NO KEY UPDATE) AS lost
        WHERE c.shard = lost.shard
        ",
        &shards,
        epoch
    )
    .execute(pool)
    .await
    .context("cannot record that the log has lost events")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(
        (position, epoch): (Position, i32),
        lost_epoch: Option<i32>,
        (head, log_epoch): (Position, i32),
    ) -> Option<&'static str> {
        let shard = Shard::new(3).unwrap();
        let published = CursorAndLog {
            shard,
            position,
            epoch,
            lost_epoch,
            head,
            log_epoch,
        };
        refuse(published).map(|refusal| refusal.reason())
    }

    #[test]
    fn cursors_beyond_log_or_epoch_are_refused() {
        for (cursor, lost_epoch, end, expected) in [
            ((0, 1), None, (0, 1), None),
            ((7, 1), None, (7, 1), None),
            ((7, 1), None, (9, 1), None),
            ((7, 1), None, (6, 1), Some("events_lost")),
            // Recorded before the log grew again; a refill in the same epoch changes nothing.
            ((7, 1), Some(1), (9, 1), Some("events_lost")),
            ((0, 1), Some(1), (9, 1), Some("events_lost")),
            // The topic has records of a later epoch.
            ((7, 1), Some(3), (9, 1), Some("events_lost")),
            ((7, 1), Some(3), (9, 2), Some("events_lost")),
            ((7, 1), Some(3), (9, 4), Some("other_epoch")),
            // The epoch was raised: positions do not compare.
            ((7, 1), None, (6, 2), Some("other_epoch")),
            ((7, 1), Some(1), (9, 2), Some("other_epoch")),
            // The log was published again in the new epoch.
            ((0, 2), Some(1), (9, 2), None),
            ((9, 2), Some(1), (9, 2), None),
            // A database of before the epoch was raised.
            ((7, 2), None, (9, 1), Some("other_epoch")),
        ] {
            assert_eq!(
                reason(cursor, lost_epoch, end),
                expected,
                "{cursor:?} {lost_epoch:?} {end:?}"
            );
        }
    }
}
