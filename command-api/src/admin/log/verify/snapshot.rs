//! Rows that the log is checked against, and that change while the log is read.
//!
//! The rows are not read in one long transaction. Each part names the head at which it was read, and
//! the order of the reads ensures that no part is newer than the end up to which the log is read.

use anyhow::Context as _;
use linkledger_core::{
    event_store::{
        accounts::{self, AccountAtHead},
        log::{self, PerShard, ShardExtent},
        segments,
    },
    id::AccountId,
    segment::Segment,
    shard::{Position, Shard},
};
use sqlx::PgPool;
use uuid::Uuid;

use super::audit::Expected;

/// Number of rows that one statement reads.
const ROWS_PER_READ: i64 = 5_000;

/// Rows that the log is checked against.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) epoch: i32,
    /// End of each shard.
    pub(super) extents: PerShard<ShardExtent>,
    accounts_known_up_to: PerShard<Position>,
    accounts: PerShard<Vec<AccountAtHead>>,
    segments: PerShard<Vec<Segment>>,
}

impl Snapshot {
    /// Reads the rows of the shard `only`, or of all shards.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub(super) async fn read(pool: &PgPool, only: Option<Shard>) -> anyhow::Result<Self> {
        let is_wanted = |shard: i16| only.is_none_or(|only| only.number() == shard);
        let epoch = log::epoch(pool).await.context("cannot read the epoch")?;
        let heads = log::heads(pool).await.context("cannot read the heads")?;
        let mut accounts = PerShard::<Vec<_>>::default();
        let mut after = AccountId::from_uuid(Uuid::nil());
        loop {
            let rows = accounts::read_after(pool, after, ROWS_PER_READ).await;
            let rows = rows.context("cannot read the accounts")?;
            let Some(last) = rows.last() else { break };
            after = last.account_id;
            for row in rows.into_iter().filter(|row| is_wanted(row.shard)) {
                if let Some(shard) = Shard::new(row.shard.into()) {
                    accounts[shard.index()].push(row);
                }
            }
        }
        let mut segments = PerShard::default();
        for shard in Shard::all().filter(|shard| is_wanted(shard.number())) {
            segments[shard.index()] = segments_of(pool, shard).await?;
        }
        // Read last: rows that were read earlier depend only on events before these ends.
        let extents = log::extents(pool).await.context("cannot read the heads")?;
        Ok(Self {
            epoch,
            extents,
            accounts_known_up_to: heads,
            accounts,
            segments,
        })
    }

    /// Returns the number of segments of all shards.
    pub(super) fn segment_count(&self) -> usize {
        self.segments.iter().map(Vec::len).sum()
    }

    /// Returns the number of events of these shards after their last segments.
    pub(super) fn unsealed_count(&self, shards: &[Shard]) -> Position {
        let unsealed = shards.iter().map(|shard| {
            let sealed = self.segments[shard.index()].last();
            let sealed = sealed.map_or(0, |segment| segment.place.last_position);
            self.extents[shard.index()]
                .head
                .saturating_sub(sealed)
                .max(0)
        });
        unsealed.sum()
    }

    /// Moves the rows of one shard out.
    pub(super) fn take(&mut self, shard: Shard) -> Expected {
        let index = shard.index();
        Expected {
            shard,
            epoch: self.epoch,
            head: self.extents[index].head,
            accounts: std::mem::take(&mut self.accounts[index]),
            accounts_known_up_to: self.accounts_known_up_to[index],
            segments: std::mem::take(&mut self.segments[index]),
        }
    }
}

async fn segments_of(pool: &PgPool, shard: Shard) -> anyhow::Result<Vec<Segment>> {
    let mut segments: Vec<Segment> = Vec::new();
    loop {
        let after = segments.last().map_or(0, |segment| segment.place.number);
        let more = segments::read_after(pool, shard, after, ROWS_PER_READ).await;
        let more = more.context("cannot read the segments")?;
        if more.is_empty() {
            return Ok(segments);
        }
        segments.extend(more);
    }
}
