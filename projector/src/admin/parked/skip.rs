//! `parked skip`: an operator decides that an event is left out for good.

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use linkledger_core::{envelope::RecordedEvent, event_store::log, id::AccountId, shard::Position};
use serde::Serialize;
use sqlx::PgPool;

use super::{
    Options, PARKINGS_OF_ACCOUNT_MAX,
    retry::{Retried, retry, text_of},
};
use crate::{
    checkpoint::{self, Lock, Role},
    operation::{self, OperatorArgs, Outcome},
    parking::{Parking, listing, skipped},
    projections::Projection,
};

/// What to leave out.
#[derive(Debug, Args)]
pub struct SkipEvent {
    /// The account (acc_…); give `--reason` too.
    #[arg(requires = "reason")]
    pub account: AccountId,
    /// Only if the account is parked for the event at this place of its shard.
    #[arg(long)]
    pub position: Option<Position>,
    #[command(flatten)]
    pub operator: OperatorArgs,
    #[command(flatten)]
    pub options: Options,
}

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

#[derive(Serialize)]
struct Shown<'a> {
    dry_run: bool,
    account_id: AccountId,
    skipped: &'a Skipped,
    retried: &'a [Retried],
}

pub(super) async fn run(command: SkipEvent) -> anyhow::Result<()> {
    let OperatorArgs {
        reason, dry_run, ..
    } = &command.operator;
    let (account_id, dry_run) = (command.account, *dry_run);
    let reason = reason
        .as_deref()
        .expect("the account on the command line requires it");
    let operator = command.operator.operator();
    let request = Skip {
        account_id,
        position: command.position,
        operator: &operator,
        reason,
    };
    let pool = command.options.pool().await?;
    let (skipped, retried) = if dry_run {
        let (parkings, event) = find(&pool, request).await?;
        (Skipped::of(&parkings, event), Vec::new())
    } else {
        let skipped = skip(&pool, request).await?;
        (skipped, retry(&pool, Some(account_id)).await?)
    };
    let shown = Shown {
        dry_run,
        account_id,
        skipped: &skipped,
        retried: &retried,
    };
    let mut text = skipped.text(account_id, dry_run);
    if !retried.is_empty() {
        text = format!("{text}\n{}", text_of(&retried));
    }
    command.options.print(&shown, &text)?;
    if retried.iter().any(|it| !it.released) {
        bail!(
            "the event is left out, but what waits behind it could not all be applied; see above"
        );
    }
    Ok(())
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
    let command = operation::Command {
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
    operation::record_in_tx(&mut tx, &command, Outcome::Done, &detail)
        .await
        .context("can't record the command")?;
    tx.commit().await.context("can't commit")?;
    Ok(skipped)
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

    fn text(&self, account_id: AccountId, dry_run: bool) -> String {
        let verb = if dry_run { "would be" } else { "is" };
        let (event_type, position) = (&self.event_type, self.position);
        let projections = self.projections.join(", ");
        format!(
            "`{event_type}` at position {position} of {account_id} {verb} left out for good: \
             {projections}"
        )
    }
}
