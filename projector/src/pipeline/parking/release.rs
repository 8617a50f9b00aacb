//! Releases a parked account: applies its waiting events in order, chunk by chunk.
//!
//! Each chunk is one transaction; after a crash, the remaining events still wait. New events of the
//! account wait as well during the release. The account is parked until no event waits.

use anyhow::{Context as _, ensure};
use linkledger_core::{envelope::RecordedEvent, shard::Position};
use linkledger_event_store::{log, transaction::PoolTransaction};
use linkledger_service::databases::Databases;
use sqlx::PgPool;

use super::{ParkedAccount, Parking, ParkingCause, table};
use crate::{
    pipeline::{
        apply::ApplyConflict,
        checkpoint::{self, Role},
        decode::BatchEvent,
        poison::Poison,
        retry,
    },
    read_models::{Creation, DecodedEvent, Rows, skipped::Skipped},
};

/// Maximum number of events of one transaction, which then locks the checkpoint for far less than
/// a second.
pub const CHUNK_EVENTS_MAX: u16 = 1_000;

/// Outcome of an attempt to release an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseOutcome {
    /// Number of applied events.
    pub applied: usize,
    /// State of the account after the attempt.
    pub state: ReleaseState,
}

impl ReleaseOutcome {
    /// Returns the outcome of an attempt that applied nothing.
    fn none(state: ReleaseState) -> Self {
        Self { applied: 0, state }
    }
}

/// State of an account after an attempt to release it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseState {
    /// No event waits. Another session may have applied the events.
    Released,
    /// More events wait, or another session is releasing the account: the next attempt continues.
    Unfinished,
    /// The first waiting event cannot be applied.
    Stuck(ParkingCause),
    /// An operator has paused the projection.
    Paused,
}

/// Applies up to `events_max` waiting events to the generation, which has the given role, and stops at
/// a poison event.
///
/// # Errors
/// Returns an error if the database fails, or the log lacks a waiting event.
pub async fn release(
    databases: &Databases,
    parking: &Parking,
    role: Role,
    events_max: u16,
) -> anyhow::Result<ReleaseOutcome> {
    let mut events_max = events_max;
    loop {
        let chunk = Chunk::read(databases, parking.account, events_max).await?;
        if let ([], Some(cause)) = (chunk.events.as_slice(), &chunk.poison) {
            return record_cause(&databases.read, parking, role, cause.clone()).await;
        }
        match chunk.apply(&databases.read, role).await {
            Ok(Err(state)) => return Ok(ReleaseOutcome::none(state)),
            // The skipped events wait no longer: the loop continues with the next chunk.
            Ok(Ok(ReleaseState::Unfinished)) if chunk.is_all_skipped() => {}
            Ok(Ok(state)) => {
                let applied = chunk.events.len();
                return Ok(ReleaseOutcome { applied, state });
            }
            Err(error) if !retry::is_refusal(&error) => {
                return Err(error).context("cannot release an account");
            }
            Err(error) => match chunk.events.as_slice() {
                [] => return Err(error).context("cannot end the parking of an account"),
                [event] => {
                    let cause = ParkingCause::of(&event.recorded, Poison::refused(error));
                    return record_cause(&databases.read, parking, role, cause).await;
                }
                // One of the events is poison: the earlier half is tried, down to one event.
                events => events_max = u16::try_from(events.len() / 2)?,
            },
        }
    }
}

/// The next waiting events of an account. A chunk has either events to apply or skipped events, not
/// both, and ends before an event that cannot be decoded.
struct Chunk {
    account: ParkedAccount,
    /// Positions of the events that no longer wait after the chunk.
    positions: Vec<Position>,
    /// Events at `positions`; empty if the events are skipped.
    events: Vec<DecodedEvent>,
    /// Event behind the chunk that cannot be decoded.
    poison: Option<ParkingCause>,
}

impl Chunk {
    /// Returns true if the chunk consists of skipped events.
    fn is_all_skipped(&self) -> bool {
        self.events.is_empty() && !self.positions.is_empty()
    }

    /// Reads the next chunk of at most `limit` waiting events.
    async fn read(
        databases: &Databases,
        account: ParkedAccount,
        limit: u16,
    ) -> anyhow::Result<Self> {
        let positions = table::waiting(&databases.read, account, limit.into())
            .await
            .context("cannot read the waiting events of a parked account")?;
        let waiting = log::read_at(&databases.log, account.shard, &positions)
            .await
            .context("cannot read the event store")?;
        ensure!(
            waiting.len() == positions.len(),
            "the event store lacks events of shard {} that wait to be applied to a parked account; was the log \
             restored? See docs/operations.md",
            account.shard
        );
        let range = match (positions.first(), positions.last()) {
            (Some(first), Some(last)) => vec![(account.shard, *first..=*last)],
            _ => Vec::new(),
        };
        let skipped = Skipped::within(&databases.read, &range)
            .await
            .context("cannot read which events are skipped")?;
        Ok(Self::of(account, waiting, &skipped))
    }

    /// Cuts the chunk before the first undecodable event, and where skipped events and events to apply
    /// meet.
    fn of(account: ParkedAccount, waiting: Vec<RecordedEvent>, skipped: &Skipped) -> Self {
        let mut chunk = Self {
            account,
            positions: Vec::with_capacity(waiting.len()),
            events: Vec::with_capacity(waiting.len()),
            poison: None,
        };
        for recorded in waiting {
            let position = recorded.position;
            if skipped.contains(account.projection, &recorded) {
                if !chunk.events.is_empty() {
                    break;
                }
                chunk.positions.push(position);
                continue;
            }
            if chunk.is_all_skipped() {
                break;
            }
            match BatchEvent::decode(recorded) {
                BatchEvent::Decoded(event) => {
                    chunk.positions.push(position);
                    chunk.events.push(event);
                }
                BatchEvent::Poison(recorded, poison) => {
                    chunk.poison = Some(ParkingCause::of(&recorded, poison));
                    break;
                }
            }
        }
        chunk
    }

    /// Applies the chunk in one transaction, under the lock of the checkpoint, and returns the state of the
    /// account. Applies nothing, and returns the state as an error, if the checkpoint cannot be locked, or
    /// another session has removed some of the waiting events.
    async fn apply(
        &self,
        pool: &PgPool,
        role: Role,
    ) -> sqlx::Result<Result<ReleaseState, ReleaseState>> {
        let account = self.account;
        let events: Vec<_> = self
            .events
            .iter()
            .map(|event| (account.projection, account.generation, event))
            .collect();
        let rows = Rows::of(&events);
        let last = self.positions.last().copied().unwrap_or(0);
        let mut tx = PoolTransaction::begin(pool).await?;
        if let Err(conflict) = checkpoint::lock_of_in_tx(&mut tx, account, role).await? {
            tx.rollback().await?;
            return Ok(Err(state_of(&conflict)));
        }
        // A projector remembers that no account is parked: a crash of Postgres must not roll the
        // end of the parking back.
        sqlx::query!("SET LOCAL synchronous_commit = on")
            .execute(&mut *tx)
            .await?;
        let removed = table::remove_events_in_tx(&mut tx, account, last).await?;
        if removed != self.positions.len() as u64 {
            tx.rollback().await?;
            return Ok(Err(ReleaseState::Unfinished));
        }
        rows.write_in_tx(&mut tx, Creation::Put).await?;
        let state = if table::end_parking_in_tx(&mut tx, account).await? {
            ReleaseState::Released
        } else {
            ReleaseState::Unfinished
        };
        // Redirect caches serve the live generation only.
        if role == Role::Live {
            rows.redirect_changes().append_in_tx(&mut tx).await?;
        }
        tx.commit().await?;
        Ok(Ok(state))
    }
}

/// Returns the state of an account whose checkpoint could not be locked.
fn state_of(conflict: &ApplyConflict) -> ReleaseState {
    match conflict {
        ApplyConflict::CheckpointMoved(_) | ApplyConflict::AccountReleased => {
            ReleaseState::Unfinished
        }
        ApplyConflict::ProjectionPaused => ReleaseState::Paused,
    }
}

/// Records the event that the account is parked for, if the cause has changed.
async fn record_cause(
    pool: &PgPool,
    parking: &Parking,
    role: Role,
    cause: ParkingCause,
) -> anyhow::Result<ReleaseOutcome> {
    if cause == parking.cause {
        return Ok(ReleaseOutcome::none(ReleaseState::Stuck(cause)));
    }
    let parking = Parking {
        account: parking.account,
        cause,
    };
    let state = update_cause(pool, parking, role).await;
    let state = state.context("cannot record why an account is parked")?;
    Ok(ReleaseOutcome::none(state))
}

async fn update_cause(pool: &PgPool, parking: Parking, role: Role) -> sqlx::Result<ReleaseState> {
    let mut tx = PoolTransaction::begin(pool).await?;
    let state = match checkpoint::lock_of_in_tx(&mut tx, parking.account, role).await? {
        Err(conflict) => state_of(&conflict),
        Ok(()) if table::update_cause_in_tx(&mut tx, &parking).await? => {
            ReleaseState::Stuck(parking.cause)
        }
        Ok(()) => ReleaseState::Unfinished,
    };
    tx.commit().await?;
    Ok(state)
}
