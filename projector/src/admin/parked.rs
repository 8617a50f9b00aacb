//! `parked`: who is parked and why, and another attempt to apply what waits.

use std::fmt::Write as _;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use linkledger_core::{
    id::AccountId,
    shard::{Position, Shard},
    timestamp,
};
use serde::Serialize;
use sqlx::PgPool;
use tokio::time;

use super::Options;
use crate::{
    parking::{
        Parking,
        listing::{self, ListedParking},
        release::{CHUNK_EVENTS_MAX, State, release},
    },
    retry::Backoff,
};

/// Most chunks of one account, so that the command ends however fast new events come.
const CHUNKS_MAX: u32 = 10_000;
/// Most attempts in a row that somebody else is in the way of.
const CONTESTED_MAX: u32 = 6;
/// Most read models that one account can be parked in.
const PARKINGS_OF_ACCOUNT_MAX: i64 = 100;

/// What an operator may ask for.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List parked accounts: since when, for which event and why, and how many events wait.
    List(List),
    /// Apply what waits, in order, up to an event that can't be applied still.
    Retry(Retry),
}

/// How much of the list to show.
#[derive(Debug, Args)]
pub struct List {
    /// How many rows to show: one for each account and projection.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub limit: u16,
    #[command(flatten)]
    pub options: Options,
}

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
    pub options: Options,
}

/// A parked account as an operator sees it.
#[derive(Debug, Serialize)]
struct ShownParking {
    account_id: AccountId,
    projection: &'static str,
    parked_at: String,
    shard: i16,
    position: Position,
    event_type: String,
    reason: &'static str,
    detail: String,
    waiting: i64,
}

#[derive(Serialize)]
struct ShownParkings {
    parked: Vec<ShownParking>,
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

pub(super) async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::List(list) => {
            let pool = list.options.pool().await?;
            let parked = listing::list(&pool, None, list.limit.into())
                .await
                .context("can't read who is parked")?;
            let parked: Vec<_> = parked.into_iter().map(ShownParking::from).collect();
            let text = table_of(&parked);
            list.options.print(&ShownParkings { parked }, &text)
        }
        Command::Retry(command) => {
            let pool = command.options.pool().await?;
            let retried = retry(&pool, command.account).await?;
            let stuck = retried.iter().filter(|it| !it.released).count();
            let text = text_of(&retried);
            command.options.print(&AllRetried { retried }, &text)?;
            if stuck > 0 {
                bail!("not everything could be released; what is parked still is listed above");
            }
            Ok(())
        }
    }
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
                if contested == CONTESTED_MAX {
                    let detail = "somebody else is releasing it; run the command again";
                    retried.detail = Some(detail.to_owned());
                    break;
                }
                time::sleep(backoff.next_delay()).await;
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
        }
    }
    Ok(retried)
}

impl From<ListedParking> for ShownParking {
    fn from(listed: ListedParking) -> Self {
        let Parking { account, cause } = listed.parking;
        Self {
            account_id: account.account_id,
            projection: account.projection.name(),
            parked_at: timestamp::format(listed.parked_at),
            shard: account.shard.number(),
            position: cause.position,
            event_type: cause.event_type,
            reason: cause.poison.reason.name(),
            detail: cause.poison.detail,
            waiting: listed.waiting,
        }
    }
}

fn table_of(parked: &[ShownParking]) -> String {
    if parked.is_empty() {
        return "No account is parked.".to_owned();
    }
    let mut text = format!(
        "{:<30}  {:<10}  {:<24}  {:>7}  {:>5}  {:>10}  WHY",
        "ACCOUNT", "PROJECTION", "SINCE", "WAITING", "SHARD", "POSITION"
    );
    for it in parked {
        write!(
            text,
            "\n{:<30}  {:<10}  {:<24}  {:>7}  {:>5}  {:>10}  {}: {}",
            it.account_id.to_string(),
            it.projection,
            it.parked_at,
            it.waiting,
            it.shard,
            it.position,
            it.event_type,
            it.detail
        )
        .expect("writing to a string never fails");
    }
    text
}

fn text_of(retried: &[Retried]) -> String {
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
