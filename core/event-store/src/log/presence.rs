//! Compares events that another system holds with the log.

use sqlx::PgPool;
use uuid::Uuid;

use crate::errors::is_of_stored_data;
use linkledger_core::{
    envelope::RecordedEvent,
    id::EventId,
    shard::{Position, Shard},
};

/// Maximal number of places that one statement looks up, so that the statement takes a few
/// milliseconds.
const PLACES_MAX: usize = 2_000;

/// An event at a position of the log, as seen by another system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventPlace {
    /// Shard of the event.
    pub shard: Shard,
    /// Position of the event.
    pub position: Position,
    /// Id of the event.
    pub event_id: EventId,
}

impl EventPlace {
    /// Returns the place of a recorded event.
    pub fn of(event: &RecordedEvent) -> Self {
        Self {
            shard: event.shard,
            position: event.position,
            event_id: event.event_id,
        }
    }
}

/// Result of a comparison of places with the log.
#[derive(Debug, Default)]
pub struct Presence {
    /// First place where the log has another event, or none: the system that saw the event there has read
    /// another log, which lost the event since.
    pub first_absent: Option<EventPlace>,
    /// Places whose event cannot be read, because the log is damaged.
    pub unreadable: Vec<(EventPlace, sqlx::Error)>,
}

/// Compares the places with the log.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn compare(pool: &PgPool, places: &[EventPlace]) -> sqlx::Result<Presence> {
    let mut presence = Presence::default();
    match first_absent(pool, places).await {
        Err(error) if is_of_stored_data(&error) => {}
        absent => {
            presence.first_absent = absent?;
            return Ok(presence);
        }
    }
    for place in places {
        match first_absent(pool, &[*place]).await {
            Err(error) if is_of_stored_data(&error) => presence.unreadable.push((*place, error)),
            absent => presence.first_absent = presence.first_absent.or(absent?),
        }
    }
    Ok(presence)
}

async fn first_absent(pool: &PgPool, places: &[EventPlace]) -> sqlx::Result<Option<EventPlace>> {
    for places in places.chunks(PLACES_MAX) {
        let shards: Vec<i16> = places.iter().map(|place| place.shard.number()).collect();
        let positions: Vec<i64> = places.iter().map(|place| place.position).collect();
        let event_ids: Vec<Uuid> = places.iter().map(|place| place.event_id.uuid()).collect();
        let absent = sqlx::query_scalar!(
            r#"
            SELECT place.nth AS "nth!"
            FROM unnest($1::smallint[], $2::bigint[], $3::uuid[]) WITH ORDINALITY
                AS place (shard, position, event_id, nth)
            -- Not a plain join: planned while there are no events, that would read whole shards.
            LEFT JOIN LATERAL (
                SELECT e.event_id FROM event_store.events AS e
                WHERE e.shard = place.shard AND e.position = place.position
                LIMIT 1
            ) AS present ON true
            WHERE present.event_id IS DISTINCT FROM place.event_id
            ORDER BY place.nth
            LIMIT 1
            "#,
            &shards,
            &positions,
            &event_ids
        )
        .fetch_optional(pool)
        .await?;
        if let Some(nth) = absent {
            let index = usize::try_from(nth - 1).expect("an ordinality begins with 1");
            return Ok(places.get(index).copied());
        }
    }
    Ok(None)
}
