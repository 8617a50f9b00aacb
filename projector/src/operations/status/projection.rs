//! One projection: its shards, its generations, and how they are judged. Pure.

use linkledger_core::{event_store::log::LogEnd, shard::Position, timestamp};
use serde::Serialize;

use super::{
    checkpoints::StoredCheckpoint, generations::GenerationStatus, verification::LastVerification,
};
use crate::read_models::Projection;

/// How old the oldest event that is not applied may be, in seconds, before a shard counts as
/// catching up: below it, it is keeping up.
const CATCHING_UP_AFTER_S: f64 = 1.0;
/// For how long a projector may be silent, in seconds, before its shards count as unattended. It
/// speaks once a second.
const UNATTENDED_AFTER_S: f64 = 5.0;

/// How a part of a read model is; from the best to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It has every event, or gets it within a moment.
    Live,
    /// Events wait for it, longer than a moment.
    CatchingUp,
    /// An account's events wait, because one of them can't be applied.
    Parked,
    /// An operator lets all events wait.
    Paused,
    /// No projector looks after it.
    Unattended,
    /// The checkpoint is not of this log: of another epoch, or beyond its end.
    Refused,
}

/// One projection: its shards together, and each.
#[derive(Debug, Clone, Serialize)]
pub struct ProjectionStatus {
    /// Whose.
    pub projection: &'static str,
    /// The worst of its shards.
    pub state: State,
    /// The generation that is read.
    pub active_generation: i32,
    /// Events applied in all shards.
    pub position: Position,
    /// Events of the log.
    pub head: Position,
    /// Events that wait.
    pub lag_events: Position,
    /// Age of the oldest of them; 0 if there is none.
    pub lag_seconds: f64,
    /// Events applied in a second, as the projectors have last measured it.
    pub events_per_second: f64,
    /// How many accounts are parked, counted up to 1,000 in a shard.
    pub parked_accounts: u32,
    /// Since when an operator has been letting it wait.
    pub paused_at: Option<String>,
    /// What the last verification has come to, if there was one.
    pub verification: Option<LastVerification>,
    /// Its shards in the generation that is read.
    pub shards: Vec<ShardStatus>,
    /// All its generations.
    pub generations: Vec<GenerationStatus>,
}

/// One projection in one shard, in the generation that is read.
#[derive(Debug, Clone, Serialize)]
pub struct ShardStatus {
    /// Which.
    pub shard: i16,
    /// How it is.
    pub state: State,
    /// The epoch of the log that `position` belongs to.
    pub epoch: i32,
    /// Everything up to it is applied, but for what waits of parked accounts.
    pub position: Position,
    /// The end of the log.
    pub head: Position,
    /// Events that wait.
    pub lag_events: Position,
    /// Age of the oldest of them; 0 if there is none.
    pub lag_seconds: f64,
    /// Events applied in a second, as the projector has last measured it; nothing if it is silent.
    pub events_per_second: Option<f64>,
    /// How many accounts are parked, counted up to 1,000.
    pub parked_accounts: u32,
    /// Since when an operator has been letting it wait.
    pub paused_at: Option<String>,
    /// The projector that looks after the shard, or has done so last.
    pub owner: Option<String>,
    /// Its release.
    pub version: Option<String>,
    /// How long ago it was heard of last.
    pub seen_seconds_ago: Option<f64>,
    /// The last failure that it has told of, perhaps passed long since.
    pub last_error: Option<LastError>,
}

/// Why a projector could not get on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LastError {
    /// How long ago.
    pub seconds_ago: f64,
    /// In words.
    pub text: String,
}

impl State {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::CatchingUp => "catching up",
            Self::Parked => "parked",
            Self::Paused => "paused",
            Self::Unattended => "unattended",
            Self::Refused => "refused",
        }
    }
}

impl ProjectionStatus {
    pub(super) fn of(
        projection: Projection,
        checkpoints: &[StoredCheckpoint],
        ages_s: &[f64],
        end: &LogEnd,
    ) -> Self {
        let own = || {
            let all = checkpoints.iter().zip(ages_s);
            all.filter(|(it, _)| it.projection == projection)
        };
        let shards: Vec<ShardStatus> = own()
            .map(|(it, age_s)| ShardStatus::of(it, *age_s, end))
            .collect();
        Self {
            projection: projection.name(),
            state: shards
                .iter()
                .map(|it| it.state)
                .max()
                .unwrap_or(State::Refused),
            active_generation: own().next().map_or(0, |(it, _)| it.active_generation),
            position: shards.iter().map(|it| it.position).sum(),
            head: end.heads.iter().sum(),
            lag_events: shards.iter().map(|it| it.lag_events).sum(),
            lag_seconds: shards.iter().map(|it| it.lag_seconds).fold(0.0, f64::max),
            events_per_second: shards.iter().filter_map(|it| it.events_per_second).sum(),
            parked_accounts: shards.iter().map(|it| it.parked_accounts).sum(),
            paused_at: shards.iter().find_map(|it| it.paused_at.clone()),
            verification: None,
            generations: Vec::new(),
            shards,
        }
    }
}

impl ShardStatus {
    fn of(checkpoint: &StoredCheckpoint, lag_seconds: f64, end: &LogEnd) -> Self {
        let head = end.heads[checkpoint.shard.index()];
        let tenure = checkpoint.tenure.as_ref();
        let attendant = tenure.filter(|it| it.seen_s < UNATTENDED_AFTER_S);
        let state = if checkpoint.epoch != end.epoch || checkpoint.position > head {
            State::Refused
        } else if attendant.is_none() {
            State::Unattended
        } else if checkpoint.paused_at.is_some() {
            State::Paused
        } else if checkpoint.parked_accounts > 0 {
            State::Parked
        } else if lag_seconds >= CATCHING_UP_AFTER_S {
            State::CatchingUp
        } else {
            State::Live
        };
        Self {
            shard: checkpoint.shard.number(),
            state,
            epoch: checkpoint.epoch,
            position: checkpoint.position,
            head,
            lag_events: (head - checkpoint.position).max(0),
            lag_seconds,
            events_per_second: attendant.map(|it| it.events_per_second),
            parked_accounts: checkpoint.parked_accounts,
            paused_at: checkpoint.paused_at.map(timestamp::format),
            owner: tenure.map(|it| it.owner.clone()),
            version: tenure.map(|it| it.version.clone()),
            seen_seconds_ago: tenure.map(|it| it.seen_s),
            last_error: tenure.and_then(|it| {
                let (text, seconds_ago) = it.last_error.clone()?;
                Some(LastError { seconds_ago, text })
            }),
        }
    }
}
