//! Sealed segments: a chain of hashes over the log of each shard.

use sqlx::{PgConnection, PgExecutor};

use super::log::{PerShard, stored};
use linkledger_core::{
    segment::{NO_SEGMENT_BEFORE, Segment, SegmentHasher, SegmentPlace},
    shard::{Position, Shard},
};

/// Head and last segment of a shard.
#[derive(Debug, Clone, Copy, Default)]
pub struct SealState {
    /// The epoch of the log.
    pub epoch: i32,
    /// Highest position of the shard.
    pub head: Position,
    /// Last sealed segment, if there is one.
    pub last: Option<Segment>,
}

/// Reason why a segment was not sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The log has a gap, or a sealed segment covers other events than the log has.
    #[error(
        "segment {number} of shard {shard} can't be sealed: {what}; run `command-api log verify`",
        number = .place.number, shard = .place.shard
    )]
    Unsound {
        /// Place of the segment.
        place: SegmentPlace,
        /// Damage that was found.
        what: String,
    },
    /// The epoch of the log was raised after the place of the segment was computed.
    #[error(
        "segment {number} of shard {shard} is not sealed: the log is not in epoch {epoch} any more",
        number = .place.number, shard = .place.shard, epoch = .place.epoch
    )]
    Epoch {
        /// Place of the segment.
        place: SegmentPlace,
    },
    /// The database reported an error, or did not answer.
    #[error("can't seal a segment of the log")]
    Database(#[from] sqlx::Error),
}

/// Reads head and last segment of every shard in one snapshot, indexed by [`Shard::index`].
///
/// # Errors
/// Returns an error if the database fails.
pub async fn seal_states(executor: impl PgExecutor<'_>) -> sqlx::Result<PerShard<SealState>> {
    let rows = sqlx::query!(
        r#"
        SELECT s.shard, s.head, m.epoch,
               l.number AS "number?", l.first_position AS "first_position?",
               l.last_position AS "last_position?", l.epoch AS "sealed_epoch?",
               l.sha256 AS "sha256?"
        FROM event_store.log_shards AS s
        CROSS JOIN event_store.log_meta AS m
        LEFT JOIN LATERAL (
            SELECT * FROM event_store.log_segments WHERE shard = s.shard
            ORDER BY number DESC
            LIMIT 1
        ) AS l ON true
        "#
    )
    .fetch_all(executor)
    .await?;
    let mut shards = PerShard::default();
    for row in rows {
        // No other number passes the check of the table.
        let Some(shard) = Shard::new(row.shard.into()) else {
            continue;
        };
        let last = row.number.map(|number| SegmentRow {
            number,
            first_position: row.first_position.unwrap_or_default(),
            last_position: row.last_position.unwrap_or_default(),
            epoch: row.sealed_epoch.unwrap_or_default(),
            sha256: row.sha256.unwrap_or_default(),
        });
        shards[shard.index()] = SealState {
            epoch: row.epoch,
            head: row.head,
            last: last.map(|row| row.into_segment(shard)).transpose()?,
        };
    }
    Ok(shards)
}

/// Reads at most `limit` segments of a shard whose number is above `number`, in order.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn read_after(
    executor: impl PgExecutor<'_>,
    shard: Shard,
    number: i64,
    limit: i64,
) -> sqlx::Result<Vec<Segment>> {
    let rows = sqlx::query_as!(
        SegmentRow,
        "
        SELECT number, first_position, last_position, epoch, sha256
        FROM event_store.log_segments
        WHERE shard = $1 AND number > $2
        ORDER BY number
        LIMIT $3
        ",
        shard.number(),
        number,
        limit
    )
    .fetch_all(executor)
    .await?;
    rows.into_iter()
        .map(|row| row.into_segment(shard))
        .collect()
}

/// Hashes the events at `place` and stores their segment, which follows the segment `before`. The caller must
/// close the session after an error, as after one of [`stored::read_stored_on`].
///
/// The segment depends on the events alone: sealing a segment twice stores and returns the same
/// segment.
///
/// # Errors
/// Returns [`SealError::Unsound`] if the positions have a gap, or another process has sealed other
/// events at this place; [`SealError::Epoch`] if the epoch of the log was raised after `place` was
/// computed; [`SealError::Database`] if the database fails.
pub async fn seal(
    session: &mut PgConnection,
    place: SegmentPlace,
    before: Option<&Segment>,
) -> Result<Segment, SealError> {
    let mut hasher = SegmentHasher::new(
        &place,
        before.map_or(&NO_SEGMENT_BEFORE, |before| &before.sha256),
    );
    let mut after = place.first_position - 1;
    while after < place.last_position {
        let stretch = stored::PositionRange {
            shard: place.shard,
            after,
            up_to: place.last_position.min(after + stored::EVENTS_PER_READ),
        };
        let events = stored::read_stored_on(session, stretch).await?;
        for event in events.iter() {
            let event = event?;
            if event.position != after + 1 {
                break;
            }
            hasher.update(event.row);
            after = event.position;
        }
        if after != stretch.up_to {
            let what = format!("there is no event at position {}", after + 1);
            return Err(SealError::Unsound { place, what });
        }
    }
    let sha256 = hasher.finish();
    let segment = Segment { place, sha256 };
    insert(session, &segment).await?;
    Ok(segment)
}

async fn insert(session: &mut PgConnection, segment: &Segment) -> Result<(), SealError> {
    let Segment { place, sha256 } = segment;
    let inserted = sqlx::query!(
        "
        INSERT INTO event_store.log_segments
            (shard, number, first_position, last_position, epoch, sha256)
        SELECT $1, $2, $3, $4, epoch, $6 FROM event_store.log_meta
        -- Who has not heard of a restore does not seal what was restored.
        WHERE epoch = $5
        ON CONFLICT (shard, number) DO NOTHING
        ",
        place.shard.number(),
        place.number,
        place.first_position,
        place.last_position,
        place.epoch,
        sha256
    )
    .execute(&mut *session)
    .await?;
    if inserted.rows_affected() == 1 {
        return Ok(());
    }
    let stored = read_after(session, place.shard, place.number - 1, 1).await?;
    let stored = stored
        .first()
        .filter(|stored| stored.place.epoch == place.epoch);
    match stored {
        Some(stored) if stored == segment => Ok(()),
        Some(stored) if stored.place.number == place.number => Err(SealError::Unsound {
            place: *place,
            what: "another process has sealed other events under this number".to_owned(),
        }),
        _ => Err(SealError::Epoch { place: *place }),
    }
}

struct SegmentRow {
    number: i64,
    first_position: i64,
    last_position: i64,
    epoch: i32,
    sha256: Vec<u8>,
}

impl SegmentRow {
    fn into_segment(self, shard: Shard) -> sqlx::Result<Segment> {
        let sha256 = self.sha256.try_into();
        Ok(Segment {
            place: SegmentPlace {
                shard,
                number: self.number,
                first_position: self.first_position,
                last_position: self.last_position,
                epoch: self.epoch,
            },
            sha256: sha256.map_err(|_| sqlx::Error::Decode("a hash has 32 bytes".into()))?,
        })
    }
}
