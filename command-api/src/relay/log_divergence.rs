//! Comparison of the log with the published events. A restore, or a failover to a lagging standby,
//! can lose the last events of the log; later events then get the same positions.

use anyhow::{Context as _, ensure};
use linkledger_core::shard::Shard;
use linkledger_event_store::{
    log::{self, EventPlace, PerShard},
    log_meta,
};
use sqlx::PgPool;

use super::{cursor::Cursor, refusal::RelayRefusal, topic::tail::Record};

/// Checks that the log has the published events, and is of the epoch of the cursors. Stores a
/// loss in the cursors.
///
/// # Errors
/// Returns the refusal to publish, or an error if the database fails.
pub(super) async fn check_cursors(pool: &PgPool, cursors: &PerShard<Cursor>) -> anyhow::Result<()> {
    if let Some((shard, epoch)) = lost(cursors) {
        record_lost(pool, shard, epoch).await?;
    }
    refusal(cursors).map_or(Ok(()), |refusal| Err(refusal.into()))
}

/// Returns the reason against publishing. Lost events come first: a new epoch is needed, and a republish before would be
/// in vain.
fn refusal(cursors: &PerShard<Cursor>) -> Option<RelayRefusal> {
    let lost = lost(cursors).map(|(shard, epoch)| RelayRefusal::events_lost(shard, epoch));
    let mut shards = Shard::all().zip(cursors);
    lost.or_else(|| shards.find_map(|(shard, cursor)| other_epoch(shard, cursor)))
}

/// Returns the first shard of which the log lacks published events, and their epoch.
fn lost(cursors: &PerShard<Cursor>) -> Option<(Shard, i32)> {
    let mut shards = Shard::all().zip(cursors);
    shards.find_map(|(shard, cursor)| Some((shard, lost_epoch(cursor)?)))
}

/// Returns the epoch whose published events the log lacks.
fn lost_epoch(cursor: &Cursor) -> Option<i32> {
    let log_epoch = cursor.log_epoch;
    let is_beyond = cursor.epoch == log_epoch && cursor.position > cursor.head;
    let lost = cursor.lost_epoch.filter(|lost| *lost >= log_epoch);
    lost.max(is_beyond.then_some(log_epoch))
}

/// Returns the refusal if the epoch of the log was raised, and the log was not published again since.
fn other_epoch(shard: Shard, cursor: &Cursor) -> Option<RelayRefusal> {
    let (epoch, log_epoch) = (cursor.epoch, cursor.log_epoch);
    (epoch != log_epoch).then(|| {
        let text = format!(
            "the log is of epoch {log_epoch}, and what was published of shard {shard} is of epoch \
             {epoch}; publish the log again into an empty topic: `command-api relay republish --from 0`"
        );
        RelayRefusal::new("other_epoch", text)
    })
}

/// Compares the events that this process has published in the epoch with the log: a restored log may have grown
/// beyond lost positions since. Returns the events that cannot be read; `None` if the log lacks one, after the loss is
/// recorded.
///
/// # Errors
/// Returns an error if the database fails, or if a second look finds the event or another epoch.
pub(super) async fn compare_published(
    pool: &PgPool,
    published: &[EventPlace],
    epoch: i32,
) -> anyhow::Result<Option<Vec<(EventPlace, sqlx::Error)>>> {
    let presence = log::compare(pool, published).await;
    let presence = presence.context("cannot compare published events with the log")?;
    let Some(place) = presence.first_absent else {
        return Ok(Some(presence.unreadable));
    };
    record_absent(pool, place, epoch).await?;
    Ok(None)
}

/// Checks that the log has each of `records` that has the log's epoch, and that no record has a later
/// epoch. Stores a loss in the cursors.
///
/// Records of an earlier epoch do no harm: consumers drop such records.
///
/// # Errors
/// Returns the refusal to publish, or an error if the database fails.
pub(super) async fn check_records(pool: &PgPool, records: &[Record]) -> anyhow::Result<()> {
    let log_epoch = log_meta::epoch(pool).await;
    let log_epoch = log_epoch.context("cannot read the epoch of the log")?;
    let later = records.iter().filter(|record| record.log_epoch > log_epoch);
    let places: Vec<_> = records
        .iter()
        .filter(|record| record.log_epoch == log_epoch)
        .map(|record| record.place)
        .collect();
    let absent = match later.max_by_key(|record| record.log_epoch).copied() {
        Some(later) => Some(later),
        // An event of the log that cannot be read is not reported here: all places are after the cursors, so the
        // relay reads the same event next, and stops its shard at that event.
        None => log::compare(pool, &places)
            .await
            .context("cannot compare the topic with the log")?
            .first_absent
            .map(|place| Record { place, log_epoch }),
    };
    let Some(record) = absent else {
        return Ok(());
    };
    let (place, epoch) = (record.place, record.log_epoch);
    tracing::error!(
        shard = %place.shard,
        event.position = place.position,
        event.id = %place.event_id,
        record_epoch = epoch,
        log_epoch,
        "the topic has an event that the log lacks"
    );
    record_lost(pool, place.shard, epoch).await?;
    Err(RelayRefusal::events_lost(place.shard, epoch).into())
}

/// Records a loss like [`record_lost`], unless the log has the event: the session that did not find the event may
/// have been one of a former primary, and what it has read must not be published.
async fn record_absent(pool: &PgPool, place: EventPlace, epoch: i32) -> anyhow::Result<()> {
    let recorded = sqlx::query!(
        "UPDATE event_store.relay_cursors SET lost_epoch = greatest(lost_epoch, $2)
         WHERE shard = $1
           AND EXISTS (SELECT FROM event_store.log_meta WHERE epoch <= $2)
           AND NOT EXISTS (
               SELECT FROM event_store.events
               WHERE shard = $1 AND position = $3 AND event_id = $4
           )",
        place.shard.number(),
        epoch,
        place.position,
        place.event_id.uuid()
    )
    .execute(pool)
    .await
    .context("cannot record that the log has lost events")?;
    ensure!(
        recorded.rows_affected() > 0,
        "two sessions have read different logs, as at a failover; retrying"
    );
    Ok(())
}

/// Records that the log has lost published events of the shard in the epoch.
///
/// Needs no lease: within an epoch the log only grows, so a loss stays true whichever process
/// publishes now.
async fn record_lost(pool: &PgPool, shard: Shard, epoch: i32) -> anyhow::Result<()> {
    sqlx::query!(
        "UPDATE event_store.relay_cursors SET lost_epoch = $2
         WHERE shard = $1 AND coalesce(lost_epoch, 0) < $2
           AND EXISTS (SELECT FROM event_store.log_meta WHERE epoch <= $2)",
        shard.number(),
        epoch
    )
    .execute(pool)
    .await
    .context("cannot record that the log has lost events")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use linkledger_core::shard::Position;

    use super::*;

    fn reason(
        (position, epoch): (Position, i32),
        lost_epoch: Option<i32>,
        (head, log_epoch): (Position, i32),
    ) -> Option<&'static str> {
        let mut cursors = PerShard::<Cursor>::default();
        for cursor in &mut cursors {
            cursor.log_epoch = log_epoch;
            cursor.epoch = log_epoch;
        }
        cursors[3] = Cursor {
            position,
            epoch,
            lost_epoch,
            head,
            log_epoch,
            ..Cursor::default()
        };
        refusal(&cursors).map(|refusal| refusal.reason)
    }

    #[test]
    fn cursors_beyond_log_or_epoch_are_refused() {
        for (cursor, lost_epoch, end, expected) in [
            ((0, 1), None, (0, 1), None),
            ((7, 1), None, (7, 1), None),
            ((7, 1), None, (9, 1), None),
            ((7, 1), None, (6, 1), Some("events_lost")),
            // Recorded before the log grew again; a republish in the same epoch changes nothing.
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
