//! Finds the event of a refused batch that the database refuses, and parks its account.

use linkledger_core::{
    envelope::RecordedEvent,
    event_store::log,
    shard::{Position, Shard},
};
use sqlx::PgPool;

use super::{Outcome, Run, Target, apply};
use crate::pipeline::{decode::RunEvent, poison::Poison, retry};

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
