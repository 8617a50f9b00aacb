//! An operator decides that an event is left out for good.

use anyhow::{Context as _, bail, ensure};
use linkledger_core::{envelope::RecordedEvent, event_store::log, id::AccountId, shard::Position};
use serde::Serialize;
use sqlx::PgPool;

use super::PARKINGS_OF_ACCOUNT_MAX;
use crate::{
    operations::audit::{self, Outcome},
    pipeline::{
        checkpoint::{self, Lock, Role},
        parking::{Parking, listing, skipped},
    },
    read_models::Projection,
};

/// What is left out, of whom.
#[derive(Debug, Clone, Copy)]
pub struct Skip<'a> {
    /// Whose event.
    pub account_id: AccountId,
    /// Its place; the first one that the account is parked for, if that does not matter.
    pub position: Option<Position>,
    /// Who says so.
    pub operator: &'a str,
    /// Why.
    pub reason: &'a str,
}

/// An event that is left out.
#[derive(Debug, Serialize)]
pub struct Skipped {
    /// Its place in the shard.
    pub position: Position,
    /// The stored type name.
    pub event_type: String,
    /// The projections that leave it out.
    pub projections: Vec<&'static str>,
}

/// Notes that the event which an account is parked for is left out, in each projection that is
/// parked for it. What waits behind it is applied by the next attempt to release the account.
///
/// # Errors
/// When the account is not parked (for that event), one of the projections is paused, or the
/// database does not answer.
pub async fn skip(pool: &PgPool, request: Skip<'_>) -> anyhow::Result<Skipped> {
    let (mut parkings, event) = find(pool, request).await?;
    // Checkpoints are locked in this order everywhere.
    parkings.sort_by_key(|it| it.account);
    let mut tx = pool.begin().await.context("can't begin")?;
    for parking in &parkings {
        let projection = parking.account.projection;
        let lock = checkpoint::lock_of_in_tx(&mut tx, parking.account, Role::Live).await;
        let is_noted = match lock.context("can't lock the checkpoint; run the command again")? {
            Lock::Held => {
                let (operator, reason) = (request.operator, request.reason);
                skipped::insert_in_tx(&mut tx, parking, event.event_id, operator, reason)
                    .await
                    .context("can't note that the event is left out")?
            }
            Lock::Lost(_) => false,
            Lock::Paused => {
                bail!("`{projection}` is paused; run `projector resume {projection}` first")
            }
        };
        ensure!(
            is_noted,
            "the account has got on meanwhile, nothing was changed: look at it again \
             (`projector parked show {}`)",
            request.account_id
        );
    }
    let skipped = Skipped::of(&parkings, event);
    let projections: Vec<Projection> = parkings.iter().map(|it| it.account.projection).collect();
    let command = audit::Command {
        name: "parked skip",
        projections: &projections,
        subject: Some(&request.account_id.to_string()),
        operator: request.operator,
        reason: Some(request.reason),
    };
    let detail = format!(
        "`{}` at position {} is left out",
        skipped.event_type, skipped.position
    );
    audit::record_in_tx(&mut tx, &command, Outcome::Done, &detail)
        .await
        .context("can't record the command")?;
    tx.commit().await.context("can't commit")?;
    Ok(skipped)
}

/// Returns what [`skip`] would leave out, and changes nothing.
///
/// # Errors
/// When the account is not parked (for that event), or the database does not answer.
pub async fn preview(pool: &PgPool, request: Skip<'_>) -> anyhow::Result<Skipped> {
    let (parkings, event) = find(pool, request).await?;
    Ok(Skipped::of(&parkings, event))
}

/// Where the account is parked for the event, and the event.
async fn find(pool: &PgPool, request: Skip<'_>) -> anyhow::Result<(Vec<Parking>, RecordedEvent)> {
    let account_id = request.account_id;
    let parked = listing::list(pool, Some(account_id), PARKINGS_OF_ACCOUNT_MAX).await;
    let parked = parked.context("can't read who is parked")?;
    let parkings: Vec<Parking> = parked.into_iter().map(|it| it.parking).collect();
    let Some(first) = parkings.iter().map(|it| it.cause.position).min() else {
        bail!("`{account_id}` is not parked; `projector parked list` shows who is");
    };
    let position = request.position.unwrap_or(first);
    let parkings = parkings
        .into_iter()
        .filter(|it| it.cause.position == position);
    let parkings: Vec<Parking> = parkings.collect();
    let Some(parking) = parkings.first() else {
        bail!("`{account_id}` is parked for the event at position {first}, not {position}");
    };
    let shard = parking.account.shard;
    let events = log::read_at(pool, shard, &[position]).await;
    let mut events = events.context("can't read the event store")?;
    let event = events
        .pop()
        .with_context(|| format!("the event store lacks position {position} of shard {shard}"))?;
    Ok((parkings, event))
}

impl Skipped {
    fn of(parkings: &[Parking], event: RecordedEvent) -> Self {
        let projections = parkings.iter().map(|it| it.account.projection.name());
        Self {
            position: event.position,
            event_type: event.event_type,
            projections: projections.collect(),
        }
    }
}
