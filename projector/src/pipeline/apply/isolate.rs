//! Isolates the poison event of a batch that the database has refused, and parks its account.

use linkledger_core::{
    databases::Databases,
    envelope::{Metadata, RecordedEvent},
    event_store::{errors::is_of_stored_data, log, transaction::PoolTransaction},
    projection::Projection,
    shard::{Position, Shard},
};
use sqlx::PgPool;

use super::{ApplyTarget, ShardBatch, apply};
use crate::pipeline::{
    checkpoint::{Role, pause},
    decode::BatchEvent,
    poison::Poison,
    retry,
};

/// Returns true if the log holds exactly these events of a shard. The topic is not trusted: no
/// account is parked for an event that only the topic has.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn is_in_log(
    log: &PgPool,
    shard: Shard,
    events: &[&RecordedEvent],
) -> sqlx::Result<bool> {
    if events.is_empty() {
        return Ok(true);
    }
    let positions: Vec<Position> = events.iter().map(|event| event.position).collect();
    let stored = log::read_at(log, shard, &positions).await?;
    let is_same = |(event, stored): (&&RecordedEvent, &RecordedEvent)| {
        // A record has no more of the metadata than these two.
        let published = Metadata {
            traceparent: stored.metadata.traceparent.clone(),
            link: stored.metadata.link.clone(),
            ..Metadata::default()
        };
        **event
            == RecordedEvent {
                metadata: published,
                ..stored.clone()
            }
    };
    Ok(stored.len() == events.len() && events.iter().zip(&stored).all(is_same))
}

/// Applies batches that the database has refused as a whole, one projection and one shard at a
/// time. A refused part is split in half and retried, down to the one event that the database
/// refuses: the account of that event is parked. A live projection whose table is at fault is paused,
/// and delays no other projection.
///
/// # Errors
/// Returns an error if the database fails, or refuses to park the account or to pause the projection.
pub async fn isolate(
    databases: &Databases,
    batches: &[ShardBatch],
    target: ApplyTarget<'_>,
) -> anyhow::Result<()> {
    for projection in target.projections {
        let target = ApplyTarget {
            projections: &[*projection],
            ..target
        };
        for batch in batches {
            match isolate_batch(databases, batch.clone(), target).await {
                Ok(()) => {}
                Err(error) if target.role == Role::Live && is_table_fault(&error) => {
                    pause(&databases.read, *projection, &error).await?;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn is_table_fault(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(retry::is_table_fault)
}

async fn pause(pool: &PgPool, projection: Projection, cause: &anyhow::Error) -> anyhow::Result<()> {
    let mut tx = PoolTransaction::begin(pool).await?;
    pause::lock_in_tx(&mut tx, &[projection]).await?;
    pause::set_in_tx(&mut tx, &[projection], true).await?;
    tx.commit().await?;
    tracing::error!(
        error = format!("{cause:#}"),
        %projection,
        "a table of the projection cannot be written: the projection is paused; mend the table, then \
         run `projector resume {projection}`"
    );
    Ok(())
}

/// Isolates the poison events of one batch. Each iteration applies a part, splits a part, or marks
/// one event as poison, so the loop ends.
async fn isolate_batch(
    databases: &Databases,
    batch: ShardBatch,
    target: ApplyTarget<'_>,
) -> anyhow::Result<()> {
    let mut parked = batch.parked.clone();
    let mut pending = vec![batch];
    while let Some(mut part) = pending.pop() {
        part.parked.clone_from(&parked);
        match apply(&databases.read, std::slice::from_ref(&part), target).await {
            Ok(Ok(summary)) => {
                summary.report();
                parked.extend(summary.parked.iter().map(|parking| parking.account));
            }
            // Another session has changed the shard: the next cycle reads the checkpoints again.
            Ok(Err(_conflict)) => return Ok(()),
            Err(error) if !retry::is_refusal(&error) => return Err(error.into()),
            Err(error) if part.events.len() == 1 => match part.events.pop() {
                Some(BatchEvent::Decoded(event)) => {
                    let shard = event.recorded.shard;
                    match is_in_log(&databases.log, shard, &[&event.recorded]).await {
                        Ok(true) => {}
                        // The next cycle reads the event from the log, or refuses the shard.
                        Ok(false) => return Ok(()),
                        Err(error) if is_of_stored_data(&error) => return Ok(()),
                        Err(error) => return Err(error.into()),
                    }
                    let poison = Poison::refused(error);
                    part.events.push(BatchEvent::Poison(event.recorded, poison));
                    pending.push(part);
                }
                Some(BatchEvent::Poison(recorded, _)) => return Err(unparkable(error, &recorded)),
                None => unreachable!("the part has one event"),
            },
            Err(_) => {
                let (earlier, later) = part.split_in_half();
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
