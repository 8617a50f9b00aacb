//! Events that can't be applied. They are never skipped: what comes before them is applied, then
//! the projector ends with an error that names the event.

use linkledger_core::envelope::RecordedEvent;
use sqlx::PgPool;

use crate::{
    apply::{Run, apply},
    progress::Progress,
    projections::DecodedEvent,
    retry,
};

/// Reads the payloads of a shard's events, up to the first one that can't be read.
pub fn decode(
    progress: Progress,
    events: Vec<RecordedEvent>,
) -> (Option<Run>, Option<anyhow::Error>) {
    let mut decoded = Vec::with_capacity(events.len());
    let mut poison = None;
    for recorded in events {
        match recorded.decode() {
            Ok(event) => decoded.push(DecodedEvent { recorded, event }),
            Err(error) => {
                poison = Some(named(error, &recorded));
                break;
            }
        }
    }
    let run = (!decoded.is_empty()).then_some(Run {
        progress,
        events: decoded,
    });
    (run, poison)
}

/// Finds the event that the database refuses, in runs that it has refused as a whole: halves
/// what is refused until one event stands alone. What comes before it is applied.
pub async fn find(pool: &PgPool, runs: Vec<Run>, refusal: sqlx::Error) -> anyhow::Error {
    let mut pending = runs;
    while let Some(run) = pending.pop() {
        match apply(pool, std::slice::from_ref(&run)).await {
            // Or lost: then it is somebody else's to apply.
            Ok(_) => {}
            Err(error) if !retry::is_refusal(&error) => return error.into(),
            Err(error) => {
                if let [event] = run.events.as_slice() {
                    return named(error, &event.recorded);
                }
                let (earlier, later) = run.halves();
                pending.extend([later, earlier]);
            }
        }
    }
    anyhow::Error::new(refusal).context("events are refused together, but not one by one")
}

fn named(
    error: impl std::error::Error + Send + Sync + 'static,
    event: &RecordedEvent,
) -> anyhow::Error {
    let (event_type, position, shard) = (&event.event_type, event.position, event.shard);
    anyhow::Error::new(error).context(format!(
        "can't apply the event `{event_type}` at position {position} of shard {shard}"
    ))
}
