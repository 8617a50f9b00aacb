//! Projects events of the log again that are applied already: the projection writes their rows anew.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail, ensure};
use linkledger_core::{event_store::log, shard::Position};

use super::snapshot::ShardSnapshot;
use crate::{
    pipeline::decode::BatchEvent,
    read_models::{Creation, DecodedEvent, Rows, redirects::RedirectChanges},
};

/// Projects the events at these positions, in order, under the lock of the shard's checkpoint, appends
/// the changes for redirect caches, and commits.
///
/// For each row that the events change, the events must include the last applied one: otherwise the
/// row goes back to an earlier state.
///
/// # Errors
/// Returns an error if the log lacks an event or an event cannot be read, or if the database
/// fails or refuses a row.
pub(crate) async fn project_and_commit(
    mut snapshot: ShardSnapshot,
    positions: impl IntoIterator<Item = Position>,
    changes: &RedirectChanges,
) -> anyhow::Result<()> {
    let positions: BTreeSet<Position> = positions.into_iter().collect();
    let positions: Vec<Position> = positions.into_iter().collect();
    let target = snapshot.target;
    let events = read(&snapshot, &positions).await?;
    let projected: Vec<_> = events
        .iter()
        .map(|event| (target.projection, target.generation, event))
        .collect();
    let rows = Rows::of(&projected);
    rows.write_in_tx(&mut snapshot.tx, Creation::Put).await?;
    Ok(snapshot.commit(changes).await?)
}

async fn read(
    snapshot: &ShardSnapshot,
    positions: &[Position],
) -> anyhow::Result<Vec<DecodedEvent>> {
    let shard = snapshot.shard;
    let found = log::read_at(&snapshot.log, shard, positions)
        .await
        .context("cannot read the event store")?;
    ensure!(
        found.len() == positions.len(),
        "the event store lacks events of shard {shard}"
    );
    let mut events = Vec::with_capacity(found.len());
    for recorded in found {
        match BatchEvent::decode(recorded) {
            BatchEvent::Decoded(event) => events.push(event),
            BatchEvent::Poison(recorded, poison) => bail!(
                "this release cannot read the event at position {} of shard {shard}: {}",
                recorded.position,
                poison.detail
            ),
        }
    }
    Ok(events)
}
