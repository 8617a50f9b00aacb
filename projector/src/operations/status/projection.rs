//! State of one projection and of its shards. Pure.

use linkledger_core::shard::Position;
use linkledger_event_store::log::LogEnd;
use serde::Serialize;
use utoipa::ToSchema;

use super::{generations::GenerationStatus, operations::PausedBy};
use crate::{operations::verify::outcome::LastVerification, read_models::Projection};

/// Minimum lag of a shard in the state `catching_up`, in seconds.
const CATCHING_UP_AFTER_S: f64 = 1.0;
/// Minimum age of the claim of an unattended shard, in seconds. A projector renews its claims once a second.
const UNATTENDED_AFTER_S: f64 = 5.0;

linkledger_core::named_enum! {
    /// State of a projection, from best to worst.
    #[derive(PartialOrd, Ord, Serialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum ProjectionState {
        /// Every event is applied within a second.
        Live = "live",
        /// The projection lags: an event has waited for more than a second.
        CatchingUp = "catching up",
        /// Events of an account wait, because one of them cannot be applied.
        Parked = "parked",
        /// An operator paused the projection.
        Paused = "paused",
        /// No projector owns the shard.
        Unattended = "unattended",
        /// The checkpoint has another epoch than the log, or is beyond the end of the log, or the next event
        /// cannot be read.
        Refused = "refused",
    }
}

/// State of one projection.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ProjectionStatus {
    /// Name of the projection.
    pub projection: &'static str,
    /// Worst state of the shards.
    pub state: ProjectionState,
    /// Number of the live generation.
    pub active_generation: i32,
    /// Number of applied events in all shards.
    #[schema(value_type = i64)]
    pub position: Position,
    /// Number of events in the log.
    #[schema(value_type = i64)]
    pub head: Position,
    /// Number of waiting events.
    #[schema(value_type = i64)]
    pub lag_events: Position,
    /// Age of the oldest waiting event; 0 if none waits.
    pub lag_seconds: f64,
    /// Events applied per second, between the last renewals.
    pub events_per_second: f64,
    /// Number of parked accounts, counted up to 1,000 in a shard.
    pub parked_accounts: u32,
    /// Start of the pause.
    #[schema(format = DateTime)]
    pub paused_at: Option<String>,
    /// Operator who paused the projection, if the command is among the latest.
    pub paused_by: Option<PausedBy>,
    /// Last verification, if there was one.
    pub verification: Option<LastVerification>,
    /// Time of the last migration of the read tables of an earlier release, if they were not verified
    /// since.
    #[schema(format = DateTime)]
    pub unverified_since: Option<String>,
    /// Shards of the live generation.
    pub shards: Vec<ProjectionShard>,
    /// Every generation of the projection.
    pub generations: Vec<GenerationStatus>,
}

/// State of one projection in one shard, in the live generation.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ProjectionShard {
    /// Number of the shard.
    pub shard: i16,
    /// State of the projection in the shard.
    pub state: ProjectionState,
    /// Epoch of the log that `position` belongs to.
    pub epoch: i32,
    /// Position up to which events are applied, except for events of parked accounts.
    #[schema(value_type = i64)]
    pub position: Position,
    /// End of the log in the shard.
    #[schema(value_type = i64)]
    pub head: Position,
    /// Number of waiting events.
    #[schema(value_type = i64)]
    pub lag_events: Position,
    /// Age of the oldest waiting event; 0 if none waits.
    pub lag_seconds: f64,
    /// Events applied per second, between the last renewals; null without a recent one.
    pub events_per_second: Option<f64>,
    /// Number of parked accounts, counted up to 1,000.
    pub parked_accounts: u32,
    /// Start of the pause.
    #[schema(format = DateTime)]
    pub paused_at: Option<String>,
    /// Present or last owner of the shard, a projector.
    pub owner: Option<String>,
    /// Release of the projector.
    pub version: Option<String>,
    /// Age of the last renewal of the claim.
    pub renewed_seconds_ago: Option<f64>,
    /// Last reported failure; may be over.
    pub last_error: Option<LastError>,
}

/// Failure of a projector.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct LastError {
    /// Age of the failure.
    pub seconds_ago: f64,
    /// Text of the failure.
    pub text: String,
}

impl ProjectionStatus {
    pub(super) fn of(
        projection: Projection,
        active_generation: i32,
        shards: Vec<ProjectionShard>,
        end: &LogEnd,
    ) -> Self {
        Self {
            projection: projection.name(),
            state: shards
                .iter()
                .map(|it| it.state)
                .max()
                .unwrap_or(ProjectionState::Refused),
            active_generation,
            position: shards.iter().map(|it| it.position).sum(),
            head: end.heads.iter().sum(),
            lag_events: shards.iter().map(|it| it.lag_events).sum(),
            lag_seconds: shards.iter().map(|it| it.lag_seconds).fold(0.0, f64::max),
            events_per_second: shards.iter().filter_map(|it| it.events_per_second).sum(),
            parked_accounts: shards.iter().map(|it| it.parked_accounts).sum(),
            paused_at: shards.iter().find_map(|it| it.paused_at.clone()),
            paused_by: None,
            verification: None,
            unverified_since: None,
            generations: Vec::new(),
            shards,
        }
    }
}

impl ProjectionShard {
    /// Returns the shard with the state, by the other fields. `is_next_readable` is true if the first event after
    /// the position can be read.
    pub(super) fn judged(mut self, log_epoch: i32, is_next_readable: bool) -> Self {
        let is_unreadable = self.position < self.head && !is_next_readable;
        let is_attended = self
            .renewed_seconds_ago
            .is_some_and(|it| it < UNATTENDED_AFTER_S);
        let is_foreign = self.epoch != log_epoch || self.position > self.head;
        self.events_per_second = self.events_per_second.filter(|_| is_attended);
        self.state = if is_foreign || is_unreadable {
            ProjectionState::Refused
        } else if !is_attended {
            ProjectionState::Unattended
        } else if self.paused_at.is_some() {
            ProjectionState::Paused
        } else if self.parked_accounts > 0 {
            ProjectionState::Parked
        } else if self.lag_seconds >= CATCHING_UP_AFTER_S {
            ProjectionState::CatchingUp
        } else {
            ProjectionState::Live
        };
        self
    }
}
