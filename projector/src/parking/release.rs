//! Release: what waits of a parked account is applied in order, chunk by chunk.
//!
//! A chunk is one transaction, as a batch is: after a crash the rest still waits. What arrives
//! meanwhile waits behind it, so the account is parked until nothing waits.

use anyhow::{Context as _, ensure};
use linkledger_core::event_store::log;
use sqlx::PgPool;

use super::{Cause, ParkedAccount, Parking, table};
use crate::{
    checkpoint,
    poison::{Poison, RunEvent},
    projections::{DecodedEvent, Projection, Rows, redirects::FoldedSlugs},
    retry,
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
    /// Somebody else goes on with the account.
    const CONTESTED: Self = Self {
        applied: 0,
        state: State::Unfinished,
    };
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
}

/// Applies up to `events_max` of the events that wait, at most up to one that can't be applied.
///
/// # Errors
/// When the database does not answer, or the log lacks an event.
pub async fn release(pool: &PgPool, parking: &Parking, events_max: u16) -> anyhow::Result<Release> {
    let mut events_max = events_max;
    loop {
        let chunk = Chunk::read(pool, parking.account, events_max).await?;
        if let ([], Some(cause)) = (chunk.events.as_slice(), &chunk.poison) {
            return stuck(pool, parking, cause.clone()).await;
        }
        match chunk.apply(pool).await {
            Ok(release) => return Ok(release),
            Err(error) if !retry::is_refusal(&error) => {
                return Err(error).context("can't release an account");
            }
            Err(error) => match chunk.events.as_slice() {
                [] => return Err(error).context("can't end the parking of an account"),
                [event] => {
                    let cause = cause_of(event, Poison::refused(error));
                    return stuck(pool, parking, cause).await;
                }
                // One of them is poison: the earlier half is tried, down to one event.
                events => events_max = u16::try_from(events.len() / 2)?,
            },
        }
    }
}

/// Events that wait next, up to one that can't be read.
struct Chunk {
    account: ParkedAccount,
    events: Vec<DecodedEvent>,
    poison: Option<Cause>,
}

impl Chunk {
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
        let mut chunk = Self {
            account,
            events: Vec::with_capacity(found.len()),
            poison: None,
        };
        for recorded in found {
            match RunEvent::read(recorded) {
                RunEvent::Decoded(event) => chunk.events.push(event),
                RunEvent::Poison(recorded, poison) => {
                    chunk.poison = Some(Cause {
                        position: recorded.position,
                        event_type: recorded.event_type,
                        poison,
                    });
                    break;
                }
            }
        }
        Ok(chunk)
    }

    async fn apply(&self, pool: &PgPool) -> sqlx::Result<Release> {
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
        let last = self.events.last().map_or(0, |it| it.recorded.position);
        let mut tx = pool.begin().await?;
        if !checkpoint::lock_live_in_tx(&mut tx, account).await? {
            tx.rollback().await?;
            return Ok(Release::CONTESTED);
        }
        // A projector remembers that nobody is parked: a crash of Postgres must not change that.
        sqlx::query!("SET LOCAL synchronous_commit = on")
            .execute(&mut *tx)
            .await?;
        let removed = table::remove_events_in_tx(&mut tx, account, last).await?;
        if removed != self.events.len() as u64 {
            tx.rollback().await?;
            return Ok(Release::CONTESTED);
        }
        rows.write_in_tx(&mut tx).await?;
        let state = if table::end_in_tx(&mut tx, account).await? {
            State::Released
        } else {
            State::Unfinished
        };
        rows.redirect_changes().append_in_tx(&mut tx).await?;
        tx.commit().await?;
        Ok(Release {
            applied: self.events.len(),
            state,
        })
    }
}

/// Notes what the account is parked for, if that is something else than before.
async fn stuck(pool: &PgPool, parking: &Parking, cause: Cause) -> anyhow::Result<Release> {
    if cause != parking.cause {
        let parking = Parking {
            account: parking.account,
            cause: cause.clone(),
        };
        let noted = async {
            let mut is_noted = false;
            let mut tx = pool.begin().await?;
            if checkpoint::lock_live_in_tx(&mut tx, parking.account).await? {
                is_noted = table::restate_in_tx(&mut tx, &parking).await?;
            }
            tx.commit().await?;
            Ok::<_, sqlx::Error>(is_noted)
        };
        if !noted.await.context("can't note why an account is parked")? {
            return Ok(Release::CONTESTED);
        }
    }
    Ok(Release {
        applied: 0,
        state: State::Stuck(cause),
    })
}

fn cause_of(event: &DecodedEvent, poison: Poison) -> Cause {
    Cause {
        position: event.recorded.position,
        event_type: event.recorded.event_type.clone(),
        poison,
    }
}
