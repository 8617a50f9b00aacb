//! What is remembered of a shard as long as this process looks after it.

use anyhow::{Context as _, ensure};
use linkledger_core::{
    metrics::PARKED_ACCOUNTS,
    shard::{Position, Shard},
};
use metrics::gauge;
use tokio::time::Instant;

use crate::{
    checkpoint::LiveCheckpoint, parking::ParkedAccount, progress::Progress,
    projections::Projection, retry::Backoff,
};

/// Most retries of one release: with the waits between them, some minutes.
const RETRIES_MAX: u32 = 60;

pub(super) struct Tenure {
    /// `None` until the checkpoints have been read, and again when they may have moved.
    pub(super) progress: Option<Progress>,
    /// Whether the consumer group may have given the shard to somebody else.
    pub(super) is_contestable: bool,
    /// When an event was applied last, or there was none left to apply.
    pub(super) progressed_at: Instant,
    /// Whether an account may be parked; if not, none is.
    pub(super) has_parked: bool,
    pub(super) releases: Releases,
    /// What has to be read from the event store once the checkpoints are known.
    owed: Position,
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
            is_contestable: false,
            progressed_at: Instant::now(),
            has_parked: false,
            releases: Releases::Done,
            owed: 0,
        }
    }

    /// Starts from the shard's checkpoints, which are among `rows`.
    pub(super) fn begin(
        &mut self,
        shard: Shard,
        epoch: i32,
        rows: &[LiveCheckpoint],
    ) -> anyhow::Result<()> {
        let mut checkpoints = Vec::with_capacity(Projection::ALL.len());
        for projection in Projection::ALL {
            let row = rows
                .iter()
                .find(|row| row.shard == shard && row.projection == projection)
                .with_context(|| {
                    format!("`{projection}` has no live checkpoint in shard {shard}")
                })?;
            let checkpoint = row.checkpoint;
            ensure!(
                checkpoint.epoch == epoch,
                "`{projection}` is of log epoch {} in shard {shard}, the log is of epoch {epoch}: \
                 the projection has to be rebuilt",
                checkpoint.epoch
            );
            checkpoints.push(checkpoint);
        }
        let checkpoints = checkpoints.try_into().expect("one for each projection");
        let owed = std::mem::take(&mut self.owed);
        self.progress = Some(Progress::new(shard, epoch, checkpoints, owed));
        self.note_parked(shard, rows);
        self.releases = if self.has_parked {
            Releases::Due(Attempt::after(None))
        } else {
            Releases::Done
        };
        // From here on a delivery could have been applied.
        self.progressed_at = Instant::now();
        Ok(())
    }

    /// Keeps whether somebody is parked in the shard, according to `rows`, and tells the metrics.
    pub(super) fn note_parked(&mut self, shard: Shard, rows: &[LiveCheckpoint]) {
        self.has_parked = false;
        for row in rows.iter().filter(|row| row.shard == shard) {
            self.has_parked |= row.parked_accounts > 0;
            report_parked(row.projection, shard, row.parked_accounts);
        }
    }

    /// Whether a parked account is to be tried now.
    pub(super) fn is_release_due(&self) -> bool {
        matches!(&self.releases, Releases::Due(attempt) if attempt.is_due())
    }

    /// Everything up to `to` has been applied.
    pub(super) fn advance(&mut self, to: Position) {
        if let Some(progress) = &mut self.progress {
            progress.advance(to);
        }
        self.progressed_at = Instant::now();
    }

    /// The checkpoints may have moved; what was delivered up to `seen` will not come again.
    pub(super) fn forget(&mut self, seen: Position) {
        let owed = self.progress.take().map_or(0, |progress| progress.owed());
        self.owed = self.owed.max(owed).max(seen);
    }
}

pub(super) fn report_parked(projection: Projection, shard: Shard, accounts: u32) {
    gauge!(PARKED_ACCOUNTS, "projection" => projection.name(), "shard" => shard.to_string())
        .set(f64::from(accounts));
}
