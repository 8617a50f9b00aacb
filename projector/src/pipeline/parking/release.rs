//! Release: what waits of a parked account is applied in order, chunk by chunk.
//!
//! A chunk is one transaction, as a batch is: after a crash the rest still waits. What arrives
//! meanwhile waits behind it, so the account is parked until nothing waits.

use anyhow::{Context as _, ensure};
use linkledger_core::{envelope::RecordedEvent, event_store::log, shard::Position};
use sqlx::PgPool;

use super::{Cause, ParkedAccount, Parking, table};
use crate::{
    pipeline::{
        checkpoint::{self, Lock, Role},
        decode::RunEvent,
        poison::Poison,
        retry,
    },
    read_models::{
        Creation, DecodedEvent, Projection, Rows, redirects::FoldedSlugs, skipped::Skipped,
    },
};

/// Most events of one transaction, so that the checkpoint is held far below a second.
pub const CHUNK_EVENTS_MAX: u16 = 1_000;

/// What has come of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// How many events were applied.
    pub applied: usize,
    /// How the account is afterwards.
    pub state: State,
}

impl Release {
    /// Nothing was applied.
    fn none(state: State) -> Self {
        Self { applied: 0, state }
    }
}

/// How an account is after an attempt to release it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Nothing waits, whoever has applied it.
    Released,
    /// More events wait, or somebody else is releasing it: the next attempt goes on.
    Unfinished,
    /// The first event that waits can't be applied.
    Stuck(Cause),
    /// An operator has paused the projection: nothing is applied to it.
    Paused,
}

/// Applies up to `events_max` of the events that wait in what is served, at most up to one that
/// can't be applied.
///
/// # Errors
/// When the database does not answer, or the log lacks an event.
pub async fn release(pool: &PgPool, parking: &Parking, events_max: u16) -> anyhow::Result<Release> {
    release_as(pool, parking, Role::Live, events_max).await
}

/// The same in a generation of that role.
///
/// # Errors
/// As [`release`].
pub async fn release_as(
    pool: &PgPool,
    parking: &Parking,
    role: Role,
    events_max: u16,
) -> anyhow::Result<Release> {
    let mut events_max = events_max;
    loop {
        let chunk = Chunk::read(pool, parking.account, events_max).await?;
        if let ([], Some(cause)) = (chunk.events.as_slice(), &chunk.poison) {
            return stuck(pool, parking, role, cause.clone()).await;
        }
        match chunk.apply(pool, role).await {
            Ok(Applied::Not(state)) => return Ok(Release::none(state)),
            // What was left out waits no longer.
            Ok(Applied::All(State::Unfinished)) if chunk.is_left_out() => {}
            Ok(Applied::All(state)) => {
                let applied = chunk.events.len();
                return Ok(Release { applied, state });
            }
            Err(error) if !retry::is_refusal(&error) => {
                return Err(error).context("can't release an account");
            }
            Err(error) => match chunk.events.as_slice() {
                [] => return Err(error).context("can't end the parking of an account"),
                [event] => {
                    let cause = cause_of(event, Poison::refused(error));
                    return stuck(pool, parking, role, cause).await;
                }
                // One of them is poison: the earlier half is tried, down to one event.
                events => events_max = u16::try_from(events.len() / 2)?,
            },
        }
    }
}

/// Events that wait next: up to one that can't be read, or one that is left out; or those that are
/// left out, if they come first.
struct Chunk {
    account: ParkedAccount,
    /// Of what waits no longer, once the chunk is applied.
    positions: Vec<Position>,
    /// Those of them that are applied: all, or none.
    events: Vec<DecodedEvent>,
    /// What comes first and can't be read.
    poison: Option<Cause>,
}

/// What has come of a chunk, and how the account is afterwards.
enum Applied {
    All(State),
    Not(State),
}

impl Chunk {
    /// Whether it has nothing to apply, and takes what waits further all the same.
    fn is_left_out(&self) -> bool {
        self.events.is_empty() && !self.positions.is_empty()
    }

    async fn read(pool: &PgPool, account: ParkedAccount, limit: u16) -> anyhow::Result<Self> {
        let positions = table::waiting(pool, account, limit.into())
            .await
            .context("can't read what waits of a parked account")?;
        let found = log::read_at(pool, account.shard, &positions)
            .await
            .context("can't read the event store")?;
        ensure!(
            found.len() == positions.len(),
            "the event store lacks events of shard {} that wait to be applied",
            account.shard
        );
        let stretch = match (positions.first(), positions.last()) {
            (Some(first), Some(last)) => vec![(account.shard, *first..=*last)],
            _ => Vec::new(),
        };
        let skipped = Skipped::within(pool, &stretch)
            .await
            .context("can't read which events are left out")?;
        Ok(Self::of(account, found, &skipped))
    }

    fn of(account: ParkedAccount, found: Vec<RecordedEvent>, skipped: &Skipped) -> Self {
        let mut chunk = Self {
            account,
            positions: Vec::with_capacity(found.len()),
            events: Vec::with_capacity(found.len()),
            poison: None,
        };
        for recorded in found {
            let position = recorded.position;
            if skipped.contains(account.projection, &recorded) {
                if !chunk.events.is_empty() {
                    break;
                }
                chunk.positions.push(position);
                continue;
            }
            if chunk.positions.len() > chunk.events.len() {
                break;
            }
            match RunEvent::read(recorded) {
                RunEvent::Decoded(event) => {
                    chunk.positions.push(position);
                    chunk.events.push(event);
                }
                RunEvent::Poison(recorded, poison) => {
                    chunk.poison = Some(Cause {
                        position,
                        event_type: recorded.event_type,
                        poison,
                    });
                    break;
                }
            }
        }
        chunk
    }

    async fn apply(&self, pool: &PgPool, role: Role) -> sqlx::Result<Applied> {
        let account = self.account;
        let redirect_news = self
            .events
            .iter()
            .filter(|_| account.projection == Projection::Redirects);
        let slugs = FoldedSlugs::read(pool, redirect_news).await?;
        let mut rows = Rows::new(&slugs);
        for event in &self.events {
            rows.project(account.projection, account.generation, event);
        }
        let last = self.positions.last().copied().unwrap_or(0);
        let mut tx = pool.begin().await?;
        if let Some(state) = obstacle(&checkpoint::lock_of_in_tx(&mut tx, account, role).await?) {
            tx.rollback().await?;
            return Ok(Applied::Not(state));
        }
        // A projector remembers that nobody is parked: a crash of Postgres must not change that.
        sqlx::query!("SET LOCAL synchronous_commit = on")
            .execute(&mut *tx)
            .await?;
        let removed = table::remove_events_in_tx(&mut tx, account, last).await?;
        if removed != self.positions.len() as u64 {
            tx.rollback().await?;
            return Ok(Applied::Not(State::Unfinished));
        }
        rows.write_in_tx(&mut tx, Creation::Put).await?;
        let state = if table::end_in_tx(&mut tx, account).await? {
            State::Released
        } else {
            State::Unfinished
        };
        match role {
            Role::Live => rows.redirect_changes().append_in_tx(&mut tx).await?,
            // Nobody reads what they are of.
            Role::Building | Role::Standby => {}
        }
        tx.commit().await?;
        Ok(Applied::All(state))
    }
}

/// Why nothing may be applied: the account is somebody else's, or nobody's for the time being.
fn obstacle(lock: &Lock) -> Option<State> {
    match lock {
        Lock::Held => None,
        Lock::Lost(_) => Some(State::Unfinished),
        Lock::Paused => Some(State::Paused),
    }
}

/// Notes what the account is parked for, if that is something else than before.
async fn stuck(
    pool: &PgPool,
    parking: &Parking,
    role: Role,
    cause: Cause,
) -> anyhow::Result<Release> {
    if cause == parking.cause {
        return Ok(Release::none(State::Stuck(cause)));
    }
    let parking = Parking {
        account: parking.account,
        cause,
    };
    let state = restate(pool, parking, role).await;
    let state = state.context("can't note why an account is parked")?;
    Ok(Release::none(state))
}

async fn restate(pool: &PgPool, parking: Parking, role: Role) -> sqlx::Result<State> {
    let mut tx = pool.begin().await?;
    let lock = checkpoint::lock_of_in_tx(&mut tx, parking.account, role).await?;
    let state = match obstacle(&lock) {
        Some(state) => state,
        None if table::restate_in_tx(&mut tx, &parking).await? => State::Stuck(parking.cause),
        None => State::Unfinished,
    };
    tx.commit().await?;
    Ok(state)
}

fn cause_of(event: &DecodedEvent, poison: Poison) -> Cause {
    Cause {
        position: event.recorded.position,
        event_type: event.recorded.event_type.clone(),
        poison,
    }
}
