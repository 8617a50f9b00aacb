//! Events that can't be applied: why, and which of many it is. None is skipped: its account is
//! parked (see [`crate::parking`]), and the others go on.

use linkledger_core::{
    envelope::RecordedEvent,
    event::DecodeError,
    event_store::log,
    shard::{Position, Shard},
};
use sqlx::PgPool;

use crate::{
    apply::{Outcome, Run, Target, apply},
    projections::DecodedEvent,
    retry,
};

/// Most characters of a reason in words.
const DETAIL_LENGTH_MAX: usize = 500;

/// What is wrong with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Of a type or a version that a later release has brought.
    UnknownEvent,
    /// Not of the form that its type and version promise.
    MalformedPayload,
    /// The database does not take the rows that it leads to.
    RefusedRow,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::UnknownEvent, Self::MalformedPayload, Self::RefusedRow];

    /// The name in SQL, logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownEvent => "unknown_event",
            Self::MalformedPayload => "malformed_payload",
            Self::RefusedRow => "refused_row",
        }
    }

    /// The reason of that name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// Why an event can't be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Poison {
    /// For programs.
    pub reason: Reason,
    /// The same in words. May quote the event: for operators, not for logs.
    pub detail: String,
}

impl Poison {
    fn unreadable(error: DecodeError) -> Self {
        let reason = match &error {
            DecodeError::Unknown { .. } => Reason::UnknownEvent,
            DecodeError::Payload { .. } => Reason::MalformedPayload,
        };
        let detail = in_words(error);
        Self { reason, detail }
    }

    /// The database has refused it.
    pub fn refused(error: sqlx::Error) -> Self {
        Self {
            reason: Reason::RefusedRow,
            detail: in_words(error),
        }
    }
}

/// One line, which the database takes whatever the event contains.
fn in_words(error: impl std::error::Error + Send + Sync + 'static) -> String {
    let text = format!("{:#}", anyhow::Error::new(error));
    let printable = text.chars().filter(|character| !character.is_control());
    printable.take(DETAIL_LENGTH_MAX).collect()
}

/// An event after the attempt to read its payload.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// It can be applied, as far as this process can tell.
    Decoded(DecodedEvent),
    /// It can't be applied.
    Poison(RecordedEvent, Poison),
}

impl RunEvent {
    /// Reads the payload.
    pub fn read(recorded: RecordedEvent) -> Self {
        match recorded.decode() {
            Ok(event) => Self::Decoded(DecodedEvent { recorded, event }),
            Err(error) => Self::Poison(recorded, Poison::unreadable(error)),
        }
    }

    /// The event, if it can't be applied.
    pub fn unreadable(&self) -> Option<&RecordedEvent> {
        match self {
            Self::Decoded(_) => None,
            Self::Poison(recorded, _) => Some(recorded),
        }
    }

    /// Its place and its circumstances.
    pub fn recorded(&self) -> &RecordedEvent {
        match self {
            Self::Decoded(event) => &event.recorded,
            Self::Poison(recorded, _) => recorded,
        }
    }
}

/// Whether the log says the same as these events of a shard, which are in its order. What was
/// delivered is not the truth: nobody is parked for what only the topic says.
///
/// # Errors
/// When the database does not answer.
pub async fn is_in_log(
    pool: &PgPool,
    shard: Shard,
    events: &[&RecordedEvent],
) -> sqlx::Result<bool> {
    let positions: Vec<Position> = events.iter().map(|event| event.position).collect();
    let stored = log::read_at(pool, shard, &positions).await?;
    let same = |(event, stored): (&&RecordedEvent, &RecordedEvent)| {
        event.position == stored.position
            && event.account_id == stored.account_id
            && event.event_type == stored.event_type
            && event.schema_version == stored.schema_version
            && event.payload == stored.payload
    };
    Ok(stored.len() == events.len() && events.iter().zip(&stored).all(same))
}

/// Applies runs that the database has refused as a whole, projection by projection: halves what is
/// refused until an event stands alone, and parks its account there. The checkpoints know
/// afterwards what was applied, also after an error.
///
/// # Errors
/// When the database does not answer, or refuses to park.
pub async fn isolate(pool: &PgPool, runs: &[Run], target: Target<'_>) -> anyhow::Result<()> {
    for projection in target.projections {
        let target = Target {
            projections: &[*projection],
            ..target
        };
        for run in runs {
            isolate_in(pool, run.clone(), target).await?;
        }
    }
    Ok(())
}

/// Each turn applies a run, makes it shorter, or finds one more of its events to be poison.
async fn isolate_in(pool: &PgPool, run: Run, target: Target<'_>) -> anyhow::Result<()> {
    let mut parked = run.parked.clone();
    let mut pending = vec![run];
    while let Some(mut run) = pending.pop() {
        run.parked.clone_from(&parked);
        match apply(pool, std::slice::from_ref(&run), target).await {
            Ok(Outcome::Applied(effect)) => {
                effect.report();
                parked.extend(effect.parked.iter().map(|parking| parking.account));
            }
            // Somebody else has the shard, has released an account of it, or has paused it.
            Ok(Outcome::Lost(_) | Outcome::Released | Outcome::Paused) => return Ok(()),
            Err(error) if !retry::is_refusal(&error) => return Err(error.into()),
            Err(error) if run.events.len() == 1 => match run.events.pop() {
                Some(RunEvent::Decoded(event)) => {
                    let shard = event.recorded.shard;
                    if !is_in_log(pool, shard, &[&event.recorded]).await? {
                        // The caller reads what is.
                        return Ok(());
                    }
                    let poison = Poison::refused(error);
                    run.events.push(RunEvent::Poison(event.recorded, poison));
                    pending.push(run);
                }
                Some(RunEvent::Poison(recorded, _)) => return Err(unparkable(error, &recorded)),
                None => unreachable!("it has one event"),
            },
            Err(_) => {
                let (earlier, later) = run.halves();
                pending.extend([later, earlier]);
            }
        }
    }
    Ok(())
}

fn unparkable(error: sqlx::Error, event: &RecordedEvent) -> anyhow::Error {
    let (event_type, position, shard) = (&event.event_type, event.position, event.shard);
    anyhow::Error::new(error).context(format!(
        "can neither apply nor park the event `{event_type}` at position {position} of shard {shard}"
    ))
}
