//! Projects events of the log again that are applied already: the projection writes their rows anew.

use anyhow::{Context as _, bail, ensure};
use linkledger_core::{event_store::log, shard::Position};

use super::snapshot::ShardSnapshot;
use crate::{
    pipeline::decode::BatchEvent,
    read_models::{Creation, Projection, Rows, redirects::FoldedSlugs, redirects::RedirectChanges},
};

/// Projects the events at these positions, in order, under the lock of the shard's checkpoint. Returns
/// the redirect changes, to be appended at the end of the transaction.
///
/// For each row that the events change, the events must include the one that creates the row and all
/// later applied ones: otherwise the row goes back to an earlier state.
///
/// # Errors
/// Returns an error if the log lacks an event or an event cannot be read, or if the database does not
/// answer or refuses a row.
pub(crate) async fn project_in_tx(
    snapshot: &mut ShardSnapshot,
    positions: &[Position],
) -> anyhow::Result<RedirectChanges> {
    if positions.is_empty() {
        return Ok(RedirectChanges::default());
    }
    let found = log::read_at(&mut *snapshot.tx, snapshot.shard, positions)
        .await
        .context("cannot read the event store")?;
    ensure!(
        found.len() == positions.len(),
        "the event store lacks events of shard {}",
        snapshot.shard
    );
    let mut events = Vec::with_capacity(found.len());
    for recorded in found {
        match BatchEvent::decode(recorded) {
            BatchEvent::Decoded(event) => events.push(event),
            BatchEvent::Poison(recorded, poison) => bail!(
                "this release cannot read the event at position {} of shard {}: {}",
                recorded.position,
                snapshot.shard,
                poison.detail
            ),
        }
    }
    let target = snapshot.target;
    let needs_slugs = target.projection == Projection::Redirects;
    let slugs = FoldedSlugs::read(&mut *snapshot.tx, events.iter().filter(|_| needs_slugs)).await?;
    let mut rows = Rows::new(&slugs);
    for event in &events {
        rows.project(target.projection, target.generation, event);
    }
    rows.write_in_tx(&mut snapshot.tx, Creation::Put).await?;
    Ok(rows.into_redirect_changes_of_all_rows())
}
