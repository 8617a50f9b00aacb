//! Isolates the poison event of a batch that the database has refused, and parks its account.

use linkledger_core::{
    envelope::RecordedEvent, event_store::transaction::PoolTransaction, projection::Projection,
};
use sqlx::PgPool;

use super::{ApplyTarget, ShardBatch, apply};
use crate::pipeline::{
    checkpoint::{Role, pause},
    decode::BatchEvent,
    poison::Poison,
    retry,
};

/// Applies batches that the database has refused as a whole, one projection and one shard at a
/// time. A refused part is split in half and retried, down to the one event that the database
/// refuses: the account of that event is parked. A live projection whose table is at fault is paused,
/// and delays no other projection.
///
/// # Errors
/// Returns an error if the database fails, or refuses to park the account or to pause the projection.
pub async fn isolate(
    pool: &PgPool,
    batches: &[ShardBatch],
    target: ApplyTarget<'_>,
) -> anyhow::Result<()> {
    for projection in target.projections {
        let target = ApplyTarget {
            projections: &[*projection],
            ..target
        };
        for batch in batches {
            match isolate_batch(pool, batch.clone(), target).await {
                Ok(()) => {}
                Err(error) if target.role == Role::Live && is_table_fault(&error) => {
                    pause(pool, *projection, &error).await?;
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
    pool: &PgPool,
    batch: ShardBatch,
    target: ApplyTarget<'_>,
) -> anyhow::Result<()> {
    let mut parked = batch.parked.clone();
    let mut pending = vec![batch];
    while let Some(mut part) = pending.pop() {
        part.parked.clone_from(&parked);
        match apply(pool, std::slice::from_ref(&part), target).await {
            Ok(Ok(summary)) => {
                summary.report();
                parked.extend(summary.parked.iter().map(|parking| parking.account));
            }
            // Another session has changed the shard: the next cycle reads the checkpoints again.
            Ok(Err(_conflict)) => return Ok(()),
            Err(error) if !retry::is_refusal(&error) => return Err(error.into()),
            Err(error) if part.events.len() == 1 => match part.events.pop() {
                Some(BatchEvent::Decoded(event)) => {
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
