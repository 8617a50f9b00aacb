//! What is remembered of a shard as long as this process looks after it.

use anyhow::Context as _;
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    event_store::log,
    metrics::{PARKED_ACCOUNTS, PROJECTION_PAUSED},
    shard::{Position, Shard},
};
use metrics::gauge;
use time::OffsetDateTime;
use tokio::time::Instant;

use super::refusal::{Refusal, Refused};
use crate::{
    pipeline::{
        checkpoint::LiveCheckpoint, heartbeat::Tenancy, parking::ParkedAccount, progress::Progress,
        retry::Backoff,
    },
    read_models::{PerProjection, Projection},
};

/// Most retries of one release: with the waits between them, some minutes.
const RETRIES_MAX: u32 = 60;

pub(super) struct Tenure {
    /// `None` until the checkpoints have been read, and again when they may have moved.
    pub(super) progress: Option<Progress>,
    /// When it began.
    pub(super) since: OffsetDateTime,
    /// Whether the consumer group may have given the shard to somebody else.
    pub(super) is_contestable: bool,
    /// When an event was applied last, or there was none left to apply.
    pub(super) progressed_at: Instant,
    /// Whether an account may be parked; if not, none is.
    pub(super) has_parked: bool,
    /// Whether an event that is ahead may be left out; if not, none is.
    pub(super) has_skipped: bool,
    pub(super) releases: Releases,
    /// What has to be read from the event store once the checkpoints are known.
    owed: Position,
    /// Why the checkpoints are not gone on from.
    pub(super) refused: Option<Refused>,
}

/// Parked accounts are tried whenever a tenure begins: this release may be able to read what the
/// one before was not.
#[derive(Debug)]
pub(super) enum Releases {
    Due(Attempt),
    Done,
}

/// Which account is tried next, and when.
#[derive(Debug)]
pub(super) struct Attempt {
    /// The one that comes after this, or the first one.
    pub(super) after: Option<ParkedAccount>,
    not_before: Option<Instant>,
    retries: u32,
    backoff: Backoff,
}

impl Attempt {
    pub(super) fn after(after: Option<ParkedAccount>) -> Self {
        Self {
            after,
            not_before: None,
            retries: 0,
            backoff: Backoff::default(),
        }
    }

    /// The same a little later, unless that was done often enough.
    pub(super) fn again(mut self) -> Option<Self> {
        self.retries += 1;
        self.not_before = Some(Instant::now() + self.backoff.next_delay());
        (self.retries <= RETRIES_MAX).then_some(self)
    }

    fn is_due(&self) -> bool {
        self.not_before.is_none_or(|at| Instant::now() >= at)
    }
}

impl Tenure {
    pub(super) fn new() -> Self {
        Self {
            progress: None,
            since: SystemClock.now(),
            is_contestable: false,
            progressed_at: Instant::now(),
            has_parked: false,
            has_skipped: false,
            releases: Releases::Done,
            owed: 0,
            refused: None,
        }
    }

    /// What operators are told of it.
    pub(super) fn tenancy(&self, shard: Shard) -> Tenancy {
        let progress = self.progress.as_ref();
        let positions =
            progress.map(|progress| Projection::ALL.map(|it| progress.checkpoint(it).position));
        Tenancy {
            shard,
            since: self.since,
            positions,
        }
    }

    /// Starts from the shard's checkpoints, which are among `rows`, if they are of the log that has
    /// that `end`.
    pub(super) fn begin(
        &mut self,
        shard: Shard,
        end: &log::LogEnd,
        rows: &[LiveCheckpoint],
    ) -> anyhow::Result<()> {
        let mut checkpoints = Vec::with_capacity(Projection::ALL.len());
        let mut paused = PerProjection::default();
        for projection in Projection::ALL {
            let row = rows
                .iter()
                .find(|row| row.shard == shard && row.projection == projection)
                .with_context(|| {
                    format!("`{projection}` has no live checkpoint in shard {shard}")
                })?;
            if let Some(refusal) = Refusal::of(row, end) {
                self.refuse(shard, refusal);
                return Ok(());
            }
            checkpoints.push(row.checkpoint);
            paused[projection.index()] = row.is_paused;
        }
        let checkpoints = checkpoints.try_into().expect("one for each projection");
        let owed = std::mem::take(&mut self.owed);
        let progress = Progress::new(shard, end.epoch, checkpoints, owed).with_paused(paused);
        self.progress = Some(progress);
        self.accept(shard);
        self.note_aside(shard, rows);
        self.releases = if self.has_parked {
            Releases::Due(Attempt::after(None))
        } else {
            Releases::Done
        };
        // From here on a delivery could have been applied.
        self.progressed_at = Instant::now();
        Ok(())
    }

    /// Keeps whether somebody is parked in the shard, and whether something is to be left out,
    /// according to `rows`; tells the metrics.
    pub(super) fn note_aside(&mut self, shard: Shard, rows: &[LiveCheckpoint]) {
        (self.has_parked, self.has_skipped) = (false, false);
        for row in rows.iter().filter(|row| row.shard == shard) {
            self.has_parked |= row.parked_accounts > 0;
            self.has_skipped |= row.has_skipped;
            report_paused(row.projection, shard, row.is_paused);
            report_parked(row.projection, shard, row.parked_accounts);
        }
    }

    /// Whether a parked account is to be tried now.
    pub(super) fn is_release_due(&self) -> bool {
        matches!(&self.releases, Releases::Due(attempt) if attempt.is_due())
    }

    /// Everything up to `to` has been applied to those that `applied` advances.
    pub(super) fn advance(&mut self, applied: &Progress, to: Position) {
        if let Some(progress) = &mut self.progress {
            let floor = progress.floor();
            progress.advance_as(applied, to);
            if progress.floor() > floor {
                self.progressed_at = Instant::now();
            }
        }
    }

    /// The checkpoints may have moved; what was delivered up to `seen` will not come again.
    pub(super) fn forget(&mut self, seen: Position) {
        let owed = self.progress.take().map_or(0, |progress| progress.owed());
        self.owed = self.owed.max(owed).max(seen);
    }
}

pub(super) fn report_paused(projection: Projection, shard: Shard, is_paused: bool) {
    gauge!(PROJECTION_PAUSED, "projection" => projection.name(), "shard" => shard.to_string())
        .set(f64::from(u8::from(is_paused)));
}

pub(super) fn report_parked(projection: Projection, shard: Shard, accounts: u32) {
    gauge!(PARKED_ACCOUNTS, "projection" => projection.name(), "shard" => shard.to_string())
        .set(f64::from(accounts));
}
