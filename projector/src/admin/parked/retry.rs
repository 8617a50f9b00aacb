//! `parked retry`: another attempt to apply what waits.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use clap::Args;
use linkledger_core::{failure, id::AccountId, shard::Shard};
use serde::Serialize;
use sqlx::PgPool;
use tokio::time;

use super::{Options, PARKINGS_OF_ACCOUNT_MAX};
use crate::{
    operation::{self, OperatorArgs, Outcome},
    parking::{
        ParkedAccount, Parking,
        listing::{self, ListedParking},
        release::{CHUNK_EVENTS_MAX, State, release},
    },
    rebuild::generation,
    retry::Backoff,
};

/// Most chunks of one account, so that the command ends however fast new events come.
const CHUNKS_MAX: u32 = 10_000;
/// Most attempts in a row that somebody else is in the way of.
const CONTESTED_MAX: u32 = 6;
/// Most accounts that a dry run looks at.
const DRY_RUN_MAX: i64 = 10_000;

/// Whom to release.
#[derive(Debug, Args)]
pub struct Retry {
    /// The account (acc_…).
    #[arg(required_unless_present = "all")]
    pub account: Option<AccountId>,
    /// Every account that is parked.
    #[arg(long, conflicts_with = "account")]
    pub all: bool,
    #[command(flatten)]
    pub operator: OperatorArgs,
    #[command(flatten)]
    pub options: Options,
}

/// What has come of an attempt, of one account in one projection.
#[derive(Debug, Serialize)]
pub struct Retried {
    /// Whose events waited.
    pub account_id: AccountId,
    /// In which read model.
    pub projection: &'static str,
    /// Whether the account is parked no longer.
    pub released: bool,
    /// How many events were applied.
    pub applied: usize,
    /// Why the account is parked still.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

#[derive(Serialize)]
struct AllRetried {
    retried: Vec<Retried>,
}

#[derive(Serialize)]
struct Preview {
    dry_run: bool,
    accounts: usize,
    waiting: i64,
}

pub(super) async fn run(command: Retry) -> anyhow::Result<()> {
    let pool = command.options.pool().await?;
    if command.operator.dry_run {
        return dry_run(&pool, &command).await;
    }
    let result = retry(&pool, command.account).await;
    let recorded = record(&pool, &command, &result).await;
    let retried = result?;
    recorded.context("it is done, but can't be recorded")?;
    let stuck = stuck(&retried);
    let text = text_of(&retried);
    command.options.print(&AllRetried { retried }, &text)?;
    if stuck > 0 {
        bail!("not everything could be released; what is parked still is listed above");
    }
    Ok(())
}

async fn dry_run(pool: &PgPool, command: &Retry) -> anyhow::Result<()> {
    let parked = listing::list(pool, command.account, DRY_RUN_MAX).await;
    let parked = parked.context("can't read who is parked")?;
    let accounts = parked.iter().map(|it| it.parking.account.account_id);
    let shown = Preview {
        dry_run: true,
        accounts: accounts.collect::<BTreeSet<_>>().len(),
        waiting: parked.iter().map(|it| it.waiting).sum(),
    };
    let (accounts, waiting) = (shown.accounts, shown.waiting);
    let text = match accounts {
        0 => "Nothing is parked.".to_owned(),
        _ => format!(
            "would try to apply what waits of {accounts} accounts: {waiting} events, counted in \
             each projection"
        ),
    };
    command.options.print(&shown, &text)
}

/// Many transactions have passed: what has come of them is recorded behind them.
async fn record(
    pool: &PgPool,
    command: &Retry,
    result: &anyhow::Result<Vec<Retried>>,
) -> sqlx::Result<()> {
    let (outcome, detail) = match result {
        Ok(retried) if retried.is_empty() => return Ok(()),
        Ok(retried) => {
            let applied: usize = retried.iter().map(|it| it.applied).sum();
            let (all, stuck) = (retried.len(), stuck(retried));
            let detail = format!("{applied} events applied; {stuck} of {all} are parked still");
            let outcome = if stuck == 0 {
                Outcome::Done
            } else {
                Outcome::Failed
            };
            (outcome, detail)
        }
        Err(error) => (Outcome::Failed, failure::text(error)),
    };
    let account_id = command.account.map(|it| it.to_string());
    let operator = command.operator.operator();
    let recorded = operation::Command {
        name: "parked retry",
        projections: &[],
        subject: account_id.as_deref(),
        operator: &operator,
        reason: command.operator.reason.as_deref(),
    };
    let mut tx = pool.begin().await?;
    operation::record_in_tx(&mut tx, &recorded, outcome, &detail).await?;
    tx.commit().await
}

fn stuck(retried: &[Retried]) -> usize {
    retried.iter().filter(|it| !it.released).count()
}

/// Releases what can be released: of one account, or of all.
///
/// # Errors
/// When the database does not answer, or the log lacks an event.
pub async fn retry(pool: &PgPool, account_id: Option<AccountId>) -> anyhow::Result<Vec<Retried>> {
    let mut retried = Vec::new();
    if account_id.is_some() {
        let parked = listing::list(pool, account_id, PARKINGS_OF_ACCOUNT_MAX).await;
        for ListedParking { parking, .. } in parked.context("can't read who is parked")? {
            retried.push(retry_one(pool, &parking).await?);
        }
        return Ok(retried);
    }
    for shard in Shard::all() {
        let mut after = None;
        while let Some(parking) = listing::next_after(pool, shard, after)
            .await
            .context("can't read who is parked")?
        {
            retried.push(retry_one(pool, &parking).await?);
            after = Some(parking.account);
        }
    }
    Ok(retried)
}

async fn retry_one(pool: &PgPool, parking: &Parking) -> anyhow::Result<Retried> {
    let mut retried = Retried {
        account_id: parking.account.account_id,
        projection: parking.account.projection.name(),
        released: false,
        applied: 0,
        detail: Some("more events have come than were applied; run the command again".to_owned()),
    };
    let mut contested = 0;
    let mut backoff = Backoff::default();
    for _ in 0..CHUNKS_MAX {
        let attempt = release(pool, parking, CHUNK_EVENTS_MAX).await?;
        retried.applied += attempt.applied;
        match attempt.state {
            State::Unfinished if attempt.applied > 0 => {
                contested = 0;
                backoff.reset();
            }
            State::Unfinished => {
                contested += 1;
                let detail = if !is_served(pool, parking.account).await? {
                    "another generation is served meanwhile; run the command again"
                } else if contested == CONTESTED_MAX {
                    "somebody else is releasing it; run the command again"
                } else {
                    time::sleep(backoff.next_delay()).await;
                    continue;
                };
                retried.detail = Some(detail.to_owned());
                break;
            }
            State::Released => {
                retried.released = true;
                retried.detail = None;
                break;
            }
            State::Stuck(cause) => {
                retried.detail = Some(cause.poison.detail);
                break;
            }
            State::Paused => {
                let projection = retried.projection;
                retried.detail = Some(format!(
                    "`{projection}` is paused; run `projector resume {projection}` first"
                ));
                break;
            }
        }
    }
    Ok(retried)
}

/// Whether what is parked there is parked in what is read.
async fn is_served(pool: &PgPool, account: ParkedAccount) -> anyhow::Result<bool> {
    Ok(generation::active(pool, account.projection).await? == account.generation)
}

pub(super) fn text_of(retried: &[Retried]) -> String {
    if retried.is_empty() {
        return "Nothing is parked.".to_owned();
    }
    let lines = retried.iter().map(|it| {
        let (account_id, projection, applied) = (it.account_id, it.projection, it.applied);
        let outcome = match &it.detail {
            None => "released".to_owned(),
            Some(detail) => format!("still parked: {detail}"),
        };
        format!("{account_id}  {projection:<10}  {applied} applied, {outcome}")
    });
    lines.collect::<Vec<_>>().join("\n")
}
