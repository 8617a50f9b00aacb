//! Skipping of an event for good.

use anyhow::{Context as _, bail, ensure};
use linkledger_core::{envelope::RecordedEvent, id::AccountId, shard::Position};
use linkledger_event_store::{log, transaction::PoolTransaction};
use linkledger_service::databases::Databases;
use serde::Serialize;

use super::{PARKINGS_OF_ACCOUNT_MAX, list};
use crate::{
    operations::audit::{self, OperationOutcome},
    pipeline::{
        apply::ApplyConflict,
        checkpoint::{self, Role},
        parking::{Parking, skipped},
    },
    read_models::Projection,
};

/// Request to skip an event.
#[derive(Debug, Clone, Copy)]
pub struct SkipRequest<'a> {
    /// Account of the event.
    pub account_id: AccountId,
    /// Position of the event; `None` for the first poison event.
    pub position: Option<Position>,
    /// Name of the operator.
    pub operator: &'a str,
    /// Reason given by the operator.
    pub reason: &'a str,
}

/// Skipped event.
#[derive(Debug, Serialize)]
pub struct SkippedEvent {
    /// Position of the event in the shard.
    pub position: Position,
    /// Stored type of the event.
    pub event_type: String,
    /// Projections without the event.
    pub projections: Vec<&'static str>,
}

/// Skips the poison event of a parked account, in each projection with a parking for the event.
/// The next retry applies the later events.
///
/// # Errors
/// Returns an error if the account is not parked (for the event), one of the projections is
/// paused, or the database fails.
pub async fn skip(databases: &Databases, request: SkipRequest<'_>) -> anyhow::Result<SkippedEvent> {
    let (mut parkings, event) = find(databases, request).await?;
    // Every writer locks checkpoints in the same order.
    parkings.sort_by_key(|it| it.account);
    let mut tx = PoolTransaction::begin(&databases.read)
        .await
        .context("cannot begin")?;
    for parking in &parkings {
        let projection = parking.account.projection;
        let lock = checkpoint::lock_of_in_tx(&mut tx, parking.account, Role::Live).await;
        let is_noted = match lock.context("cannot lock the checkpoint; run the command again")? {
            Ok(()) => {
                let (operator, reason) = (request.operator, request.reason);
                skipped::insert_in_tx(&mut tx, parking, event.event_id, operator, reason)
                    .await
                    .context("cannot record that the event is skipped")?
            }
            Err(ApplyConflict::CheckpointMoved(_) | ApplyConflict::AccountReleased) => false,
            Err(ApplyConflict::ProjectionPaused) => {
                bail!("`{projection}` is paused; run `projector resume {projection}` first")
            }
        };
        ensure!(
            is_noted,
            "the account has changed in between, and nothing was skipped: check it again \
             (`projector parked show {}`)",
            request.account_id
        );
    }
    let skipped = SkippedEvent::of(&parkings, event);
    let projections: Vec<Projection> = parkings.iter().map(|it| it.account.projection).collect();
    let command = audit::OperatorCommand {
        name: "parked skip",
        projections: &projections,
        subject: Some(&request.account_id.to_string()),
        operator: request.operator,
        reason: Some(request.reason),
    };
    let detail = format!(
        "`{}` at position {} is skipped",
        skipped.event_type, skipped.position
    );
    audit::record_in_tx(&mut tx, &command, OperationOutcome::Done, &detail)
        .await
        .context("cannot record the command")?;
    tx.commit().await.context("cannot commit")?;
    Ok(skipped)
}

/// Returns the event to be skipped by [`skip`], without a change.
///
/// # Errors
/// Returns an error if the account is not parked (for the event), or the database fails.
pub async fn preview(
    databases: &Databases,
    request: SkipRequest<'_>,
) -> anyhow::Result<SkippedEvent> {
    let (parkings, event) = find(databases, request).await?;
    Ok(SkippedEvent::of(&parkings, event))
}

/// Returns the event, and its parkings.
async fn find(
    databases: &Databases,
    request: SkipRequest<'_>,
) -> anyhow::Result<(Vec<Parking>, RecordedEvent)> {
    let account_id = request.account_id;
    let parked = list(&databases.read, Some(account_id), PARKINGS_OF_ACCOUNT_MAX).await?;
    let mut parkings: Vec<Parking> = parked.into_iter().map(|it| it.parking).collect();
    let Some(first) = parkings.iter().map(|it| it.cause.position).min() else {
        bail!("`{account_id}` is not parked; `projector parked list` shows the parked accounts");
    };
    let position = request.position.unwrap_or(first);
    parkings.retain(|it| it.cause.position == position);
    let Some(parking) = parkings.first() else {
        bail!("`{account_id}` is parked for the event at position {first}, not {position}");
    };
    let shard = parking.account.shard;
    let events = log::read_at(&databases.log, shard, &[position]).await;
    let mut events = events.context("cannot read the event store")?;
    let event = events
        .pop()
        .with_context(|| format!("the event store lacks position {position} of shard {shard}"))?;
    Ok((parkings, event))
}

impl SkippedEvent {
    fn of(parkings: &[Parking], event: RecordedEvent) -> Self {
        let projections = parkings.iter().map(|it| it.account.projection.name());
        Self {
            position: event.position,
            event_type: event.event_type,
            projections: projections.collect(),
        }
    }
}
