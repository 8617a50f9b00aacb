//! All SQL statements of query-api on the read tables.
//!
//! Each statement selects the active generation itself, so that a swap between two statements cannot mix generations. Rows and
//! the checkpoint that says how current the rows are come from the same database snapshot; the one exception reads the
//! checkpoint before the rows ([`redirects::VisibilityOf`]), which can only be newer.

pub(crate) mod clicks;
pub(crate) mod credits;
pub(crate) mod links;
pub(crate) mod redirects;

use linkledger_core::{
    projection::{PerProjection, Projection},
    shard::{Position, Shard},
};
use linkledger_event_store::log::PerShard;
pub(crate) use linkledger_http::storage::{read_in_time, storage_unavailable, try_read_in_time};
use sqlx::PgPool;

/// Position in the log of one shard, with the epoch of the log. A position of a later epoch is later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct LogPosition {
    pub(crate) epoch: i32,
    pub(crate) position: Position,
}

impl LogPosition {
    /// Position before every event: a snapshot of any age contains all events up to here.
    pub(crate) const BEGINNING: Self = Self {
        epoch: 0,
        position: 0,
    };
}

/// Events of an account that one snapshot of the read tables contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Visibility {
    /// Checkpoint of the shard. The snapshot contains all events up to the checkpoint; of a parked
    /// account, only the events before the one that cannot be applied.
    pub(crate) checkpoint: LogPosition,
    /// True if the account is parked: the event that cannot be applied, and the events after it, are not
    /// in the read tables.
    pub(crate) is_parked: bool,
}

impl Visibility {
    /// Visibility that was not read, because a snapshot of any age will do. Contains nothing but
    /// [`LogPosition::BEGINNING`].
    pub(crate) const NOT_READ: Self = Self {
        checkpoint: LogPosition::BEGINNING,
        is_parked: false,
    };

    /// Returns the visibility from the columns of a row of `read_model.checkpoints`.
    pub(crate) const fn new(epoch: i32, position: Position, is_parked: bool) -> Self {
        Self {
            checkpoint: LogPosition { epoch, position },
            is_parked,
        }
    }

    /// Returns true if the snapshot contains all events of the account up to `position`.
    pub(crate) fn contains(&self, position: LogPosition) -> bool {
        position == LogPosition::BEGINNING || !self.is_parked && self.checkpoint >= position
    }

    /// Joins a value to the visibility of the snapshot that the value was read from.
    pub(crate) fn with<T>(self, value: T) -> SnapshotRead<T> {
        SnapshotRead {
            value,
            visibility: self,
        }
    }
}

/// Value that was read from one snapshot of the read tables.
pub(crate) struct SnapshotRead<T> {
    pub(crate) value: T,
    pub(crate) visibility: Visibility,
}

impl<T> SnapshotRead<T> {
    /// Converts the value and keeps the visibility.
    pub(crate) fn map<U>(self, make: impl FnOnce(T) -> U) -> SnapshotRead<U> {
        self.visibility.with(make(self.value))
    }
}

/// Checkpoints of the active generation of each projection.
pub(crate) type Checkpoints = PerProjection<PerShard<LogPosition>>;

/// Reads the checkpoints of all projections.
pub(crate) async fn checkpoints(pool: &PgPool) -> sqlx::Result<Checkpoints> {
    let rows = sqlx::query!(
        "
        SELECT c.projection, c.shard, c.epoch, c.position
        FROM read_model.projections AS p
        JOIN read_model.checkpoints AS c
          ON c.projection = p.projection AND c.generation = p.active_generation
        "
    )
    .fetch_all(pool)
    .await?;
    let mut checkpoints = Checkpoints::default();
    for row in rows {
        let projection = Projection::of_name(&row.projection);
        let shard = Shard::new(row.shard.into());
        if let (Some(projection), Some(shard)) = (projection, shard) {
            checkpoints[projection.index()][shard.index()] = LogPosition {
                epoch: row.epoch,
                position: row.position,
            };
        }
    }
    Ok(checkpoints)
}
