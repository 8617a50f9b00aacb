//! Isolates the poison event of a batch that the database has refused, and parks its account.

use std::sync::Arc;

use linkledger_core::{envelope::RecordedEvent, projection::Projection};
use linkledger_event_store::transaction::PoolTransaction;
use sqlx::PgPool;

use super::{ShardBatch, apply, log_parked};
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
pub async fn isolate(pool: &PgPool, batches: &[ShardBatch], role: Role) -> anyhow::Result<()> {
    for projection in Projection::ALL {
        for batch in batches {
            let mut batch = batch.clone();
            batch.checkpoints.retain(|it| it.0 == projection);
            if batch.checkpoints.is_empty() {
                continue;
            }
            match isolate_batch(pool, batch, role).await {
                Ok(()) => {}
                Err(error) if role == Role::Live && is_table_fault(&error) => {
                    pause(pool, projection, &error).await?;
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
async fn isolate_batch(pool: &PgPool, batch: ShardBatch, role: Role) -> anyhow::Result<()> {
    let mut parked = batch.parked.clone();
    let mut pending = vec![batch];
    while let Some(mut part) = pending.pop() {
        part.parked.clone_from(&parked);
        match apply(pool, std::slice::from_ref(&part), role).await {
            Ok(Ok(newly_parked)) => {
                log_parked(&newly_parked);
                parked.extend(newly_parked.iter().map(|parking| parking.account));
            }
            // Another session has changed the shard: the next cycle reads the checkpoints again.
            Ok(Err(_conflict)) => return Ok(()),
            Err(error) if !retry::is_refusal(&error) => return Err(error.into()),
            Err(error) if part.events.len() == 1 => match part.last() {
                BatchEvent::Decoded(event) => {
                    let poison = Poison::refused(error);
                    let event = BatchEvent::Poison(event.recorded.clone(), poison);
                    part.events = vec![Arc::new(event)];
                    pending.push(part);
                }
                BatchEvent::Poison(recorded, _) => return Err(unparkable(error, recorded)),
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
