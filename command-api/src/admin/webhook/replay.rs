//! Sends the messages about earlier events again.

use linkledger_core::{
    envelope::RecordedEvent,
    id::{AccountId, EventId, WebhookId},
    shard::{Position, Shard},
};
use linkledger_event_store::{
    log::{
        self,
        feed::{self, FeedPlace},
    },
    webhooks::{
        cursors::{self, ShardPlace},
        rows::StoredWebhook,
    },
};
use linkledger_http::webhook_views::WebhookView;
use sqlx::PgPool;
use time::OffsetDateTime;

use super::{
    WebhookOwner,
    rows::{find, get},
};
use crate::admin::{
    author::Request,
    error::{AdminError, AdminRefusal, AdminResult},
    operator,
};

/// Start of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayStart {
    /// The first event that was recorded at this instant or later.
    From(OffsetDateTime),
    /// The event after this one; of operators, also the events of other shards that were recorded since.
    After(EventId),
}

/// Events of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayRange {
    /// Start of the range.
    pub start: ReplayStart,
    /// Instant before which the events were recorded; `None` for all events up to now.
    pub to: Option<OffsetDateTime>,
}

/// Sends the messages about the events of the range again, beside those about later events.
///
/// # Errors
/// Returns an error if the owner has no such webhook, if there is no event to start after, if the webhook is disabled,
/// if a replay is running, or if the database fails.
pub async fn replay(
    request: &Request<'_>,
    owner: WebhookOwner,
    webhook_id: WebhookId,
    range: ReplayRange,
) -> AdminResult<WebhookView> {
    let stored = find(request, owner, webhook_id).await?;
    let places = places(request.pool, owner, range).await;
    let places = places.map_err(AdminError::of_statement("find the events of the replay"))?;
    let places = places.ok_or(AdminRefusal::EventUnknown)?;

    let account_id = stored.webhook.account_id;
    let mut decision = operator::begin(request, account_id).await?;
    // A disabled webhook would keep the replay, and refuse each further one, until somebody enables it.
    if !get(&mut decision, owner, webhook_id).await?.enabled {
        return Err(AdminRefusal::WebhookDisabled(webhook_id).into());
    }
    let has_events = !places.is_empty();
    if has_events {
        let started = cursors::start_replay_in_tx(&mut decision.tx, webhook_id, &places).await;
        let started = started.map_err(AdminError::of_statement("start the replay"))?;
        if !started {
            return Err(AdminRefusal::ReplayInProgress(webhook_id).into());
        }
    }
    decision.commit().await?;
    let replays = stored.replays || has_events;
    Ok(StoredWebhook { replays, ..stored }.into())
}

/// Returns the start and the end of the replay in each shard that has events of it; `None` if there is no event to
/// start after.
async fn places(
    pool: &PgPool,
    owner: WebhookOwner,
    range: ReplayRange,
) -> sqlx::Result<Option<Vec<(ShardPlace, Position)>>> {
    let (starts, ends) = match owner {
        WebhookOwner::Account(account_id) => {
            let start = start_of_account(pool, account_id, range.start).await?;
            let end = end_of_account(pool, account_id, range.to).await?;
            (start.map(|start| vec![start]), vec![end])
        }
        WebhookOwner::Operators => {
            let starts = starts_of_all(pool, range.start).await?;
            (starts, ends_of_all(pool, range.to).await?)
        }
    };
    let has_events = |(start, end): &(ShardPlace, Position)| start.place.position < *end;
    let places = starts.map(|starts| starts.into_iter().zip(ends));
    Ok(places.map(|places| places.filter(has_events).collect()))
}

/// Returns the start of a replay of the account's events; `None` if the account has no event to start after.
async fn start_of_account(
    pool: &PgPool,
    account_id: AccountId,
    start: ReplayStart,
) -> sqlx::Result<Option<ShardPlace>> {
    let place = match start {
        ReplayStart::From(instant) => feed::place_at(pool, account_id, instant).await?,
        ReplayStart::After(event_id) => {
            let event = log::find_event(pool, event_id).await?;
            let event = event.filter(|event| event.account_id == account_id);
            let Some(RecordedEvent { position, .. }) = event else {
                return Ok(None);
            };
            feed::place_after(pool, account_id, position).await?
        }
    };
    let shard = Shard::of(account_id);
    Ok(Some(ShardPlace { shard, place }))
}

async fn end_of_account(
    pool: &PgPool,
    account_id: AccountId,
    to: Option<OffsetDateTime>,
) -> sqlx::Result<Position> {
    let place = match to {
        Some(instant) => feed::place_at(pool, account_id, instant).await?,
        None => feed::end_place(pool, account_id).await?,
    };
    Ok(place.position)
}

/// Returns the starts of a replay of all shards, in their order; `None` if there is no event to start after.
async fn starts_of_all(pool: &PgPool, start: ReplayStart) -> sqlx::Result<Option<Vec<ShardPlace>>> {
    let positions = match start {
        ReplayStart::From(instant) => feed::positions_at(pool, instant).await?,
        ReplayStart::After(event_id) => {
            let Some(event) = log::find_event(pool, event_id).await? else {
                return Ok(None);
            };
            let mut positions = feed::positions_at(pool, event.recorded_at).await?;
            positions[event.shard.index()] = event.position;
            positions
        }
    };
    let place_of = |shard: Shard| ShardPlace {
        shard,
        place: FeedPlace {
            position: positions[shard.index()],
            version: 0,
        },
    };
    Ok(Some(Shard::all().map(place_of).collect()))
}

/// Returns the ends of a replay of all shards, in their order.
async fn ends_of_all(pool: &PgPool, to: Option<OffsetDateTime>) -> sqlx::Result<Vec<Position>> {
    let positions = match to {
        Some(instant) => feed::positions_at(pool, instant).await?,
        None => log::heads(pool).await?,
    };
    Ok(Shard::all().map(|shard| positions[shard.index()]).collect())
}
