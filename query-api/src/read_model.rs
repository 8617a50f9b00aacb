//! The read tables: every SQL statement of query-api on them.
//!
//! Each statement takes the active generation by a sub-select of its own, so that a swap between
//! two statements can't mix generations. A checkpoint comes out of the same snapshot as the rows
//! that are judged by it.

pub(crate) mod credits;
pub(crate) mod links;
pub(crate) mod redirects;

use linkledger_core::{
    event_store::{
        log::PerShard,
        time_limit::{ANSWER_TIME_MAX, within},
    },
    problem::Problem,
    shard::{Position, Shard},
};
use sqlx::PgPool;

/// A place in the log of one shard. Of two, the later epoch is later, whatever the positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Place {
    pub(crate) epoch: i32,
    pub(crate) position: Position,
}

impl Place {
    /// Before every event: whoever asks for it asks for nothing.
    pub(crate) const BEGINNING: Self = Self {
        epoch: 0,
        position: 0,
    };
}

/// How far one snapshot of the read tables has the events of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Visibility {
    /// Everything of the shard up to here is in the snapshot, unless its account is parked.
    pub(crate) checkpoint: Place,
    /// The account's events wait outside of the read tables, from some place on.
    pub(crate) is_parked: bool,
}

impl Visibility {
    /// What such a snapshot shows.
    pub(crate) fn of<T>(self, value: T) -> Seen<T> {
        Seen {
            value,
            visibility: self,
        }
    }
}

/// What one snapshot of the read tables shows.
pub(crate) struct Seen<T> {
    pub(crate) value: T,
    pub(crate) visibility: Visibility,
}

impl<T> Seen<T> {
    /// Something made of it, in the same snapshot.
    pub(crate) fn map<U>(self, make: impl FnOnce(T) -> U) -> Seen<U> {
        self.visibility.of(make(self.value))
    }
}

/// Checkpoints of the active generations.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Checkpoints {
    pub(crate) links: PerShard<Place>,
    pub(crate) redirects: PerShard<Place>,
    pub(crate) credits: PerShard<Place>,
}

/// How far the projections are that somebody may wait for.
pub(crate) async fn checkpoints(pool: &PgPool) -> sqlx::Result<Checkpoints> {
    let rows = sqlx::query!(
        "
        SELECT c.projection, c.shard, c.epoch, c.position
        FROM read_model.projections AS p
        JOIN read_model.checkpoints AS c
          ON c.projection = p.projection AND c.generation = p.active_generation
        WHERE p.projection IN ('links', 'redirects', 'credits')
        "
    )
    .fetch_all(pool)
    .await?;
    let mut checkpoints = Checkpoints::default();
    for row in rows {
        let per_shard = match row.projection.as_str() {
            "links" => &mut checkpoints.links,
            "redirects" => &mut checkpoints.redirects,
            "credits" => &mut checkpoints.credits,
            _ => continue,
        };
        if let Some(shard) = Shard::new(row.shard.into()) {
            per_shard[shard.index()] = Place {
                epoch: row.epoch,
                position: row.position,
            };
        }
    }
    Ok(checkpoints)
}

/// What a statement shows, if it does in time. Why it did not is logged, because the caller learns
/// no more than that.
///
/// # Errors
/// `storage_unavailable`.
pub(crate) async fn available<T>(
    reading: impl Future<Output = sqlx::Result<T>>,
) -> Result<T, Problem> {
    let read = within(ANSWER_TIME_MAX, reading).await;
    read.map_err(|error| unavailable(&error))
}

/// What the caller learns of an error, which is logged.
pub(crate) fn unavailable(error: &sqlx::Error) -> Problem {
    tracing::error!(
        error = error as &dyn std::error::Error,
        "can't read the database"
    );
    Problem::storage_unavailable()
}
