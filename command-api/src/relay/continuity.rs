//! Whether the log still has what was published. A restore, or a failover to a standby that lagged,
//! can lose its last events; their positions are then given out again, to other events.

use anyhow::Context as _;
use linkledger_core::{
    event_store::log::{self, EventPlace},
    shard::{Position, Shard},
};
use sqlx::PgPool;

use super::{refusal::Refusal, topic::tail::Record};

/// A cursor beside the end of the log, both of one moment.
#[derive(Debug, Clone, Copy)]
struct Published {
    shard: Shard,
    position: Position,
    epoch: i32,
    /// The latest epoch of which the log was seen to lack what was published.
    lost_epoch: Option<i32>,
    head: Position,
    log_epoch: i32,
}

/// Why nothing may be published of the log as it is, if so; whoever has the leases.
///
/// # Errors
/// When the database does not answer.
pub(super) async fn judge(pool: &PgPool) -> anyhow::Result<Option<Refusal>> {
    let rows = sqlx::query!(
        "SELECT c.shard, c.position, c.epoch, c.lost_epoch, s.head, m.epoch AS log_epoch
         FROM event_store.relay_cursors AS c
         JOIN event_store.log_shards AS s USING (shard)
         CROSS JOIN event_store.log_meta AS m
         ORDER BY c.shard"
    )
    .fetch_all(pool)
    .await
    .context("can't compare the cursors with the log")?;
    let published = rows.into_iter().filter_map(|row| {
        Some(Published {
            shard: Shard::new(row.shard.into())?,
            position: row.position,
            epoch: row.epoch,
            lost_epoch: row.lost_epoch,
            head: row.head,
            log_epoch: row.log_epoch,
        })
    });
    let refusals: Vec<Refusal> = published.filter_map(refuse).collect();
    // Another epoch comes first: what is filled again before would have to be once more.
    let is_lost = |it: &&Refusal| matches!(it, Refusal::EventsLost { .. });
    let refusal = refusals.iter().find(is_lost).or(refusals.first()).cloned();
    if let Some(Refusal::EventsLost { shard, epoch }) = refusal {
        note_lost(pool, &[shard], epoch).await?;
    }
    Ok(refusal)
}

fn refuse(published: Published) -> Option<Refusal> {
    let Published {
        shard,
        epoch,
        log_epoch,
        ..
    } = published;
    let is_beyond = epoch == log_epoch && published.position > published.head;
    let beyond = is_beyond.then_some(log_epoch);
    let lost = published.lost_epoch.filter(|lost| *lost >= log_epoch);
    if let Some(epoch) = lost.max(beyond) {
        return Some(Refusal::EventsLost { shard, epoch });
    }
    (epoch != log_epoch).then_some(Refusal::OtherEpoch {
        shard,
        epoch,
        log_epoch,
    })
}

/// Notes it if the log has not what this process has published last in that epoch: it may have been
/// restored, and have grown beyond since.
///
/// # Errors
/// When the database does not answer.
pub(super) async fn watch(pool: &PgPool, last: &[EventPlace], epoch: i32) -> anyhow::Result<()> {
    let absent = log::first_absent(pool, last).await;
    match absent.context("can't compare what was published with the log")? {
        Some(place) => note_lost(pool, &[place.shard], epoch).await,
        None => Ok(()),
    }
}

/// Why nothing may be published, if these records are on the topic: the log has not, or no more,
/// what was published in its epoch, or in a later one.
///
/// What is of an earlier epoch does no harm: consumers drop it.
///
/// # Errors
/// When the database does not answer.
pub(super) async fn judge_records(
    pool: &PgPool,
    records: &[Record],
) -> anyhow::Result<Option<Refusal>> {
    let log_epoch = log::epoch(pool).await;
    let log_epoch = log_epoch.context("can't read the log's epoch")?;
    let later = records.iter().filter(|it| it.log_epoch > log_epoch);
    let places: Vec<_> = records
        .iter()
        .filter(|it| it.log_epoch == log_epoch)
        .map(|it| it.place)
        .collect();
    let absent = match later.max_by_key(|it| it.log_epoch).copied() {
        Some(later) => Some(later),
        None => log::first_absent(pool, &places)
            .await
            .context("can't compare the topic with the log")?
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
        "the topic has an event that the log has not"
    );
    note_lost(pool, &[place.shard], log_epoch).await?;
    let (shard, epoch) = (place.shard, log_epoch);
    Ok(Some(Refusal::EventsLost { shard, epoch }))
}

/// Notes that the log has lost published events of these shards in that epoch.
///
/// Without a lease: within an epoch the log only grows, so who has seen it shorter than what was
/// published is right whoever publishes now.
///
/// # Errors
/// When the database does not answer.
pub(super) async fn note_lost(pool: &PgPool, shards: &[Shard], epoch: i32) -> anyhow::Result<()> {
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
    .context("can't note that the log has lost events")?;
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
        let published = Published {
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
    fn what_is_published_is_in_the_log_and_of_its_epoch() {
        for (cursor, lost_epoch, end, expected) in [
            ((0, 1), None, (0, 1), None),
            ((7, 1), None, (7, 1), None),
            ((7, 1), None, (9, 1), None),
            ((7, 1), None, (6, 1), Some("events_lost")),
            // Seen before the log grew again; a refill in the same epoch mends nothing.
            ((7, 1), Some(1), (9, 1), Some("events_lost")),
            ((0, 1), Some(1), (9, 1), Some("events_lost")),
            // The topic has records of a later epoch.
            ((7, 1), Some(3), (9, 1), Some("events_lost")),
            ((7, 1), Some(3), (9, 2), Some("events_lost")),
            ((7, 1), Some(3), (9, 4), Some("other_epoch")),
            // The epoch was raised: positions do not compare.
            ((7, 1), None, (6, 2), Some("other_epoch")),
            ((7, 1), Some(1), (9, 2), Some("other_epoch")),
            // And the log was published again.
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
