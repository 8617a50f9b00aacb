//! `parked show`: shows the waiting and the skipped events of an account.

use std::collections::BTreeMap;

use anyhow::Context as _;
use clap::Args;
use linkledger_core::{
    id::{AccountId, EventId},
    printable::printable,
    shard::{Position, Shard},
    timestamp,
};
use linkledger_event_store::log;
use linkledger_service::databases::Databases;
use serde::Serialize;

use crate::{
    cli::Options,
    cli::columns::{Layout, Screen, table},
    operations::number_format::counted,
    operations::parked::{PARKINGS_OF_ACCOUNT_MAX, list},
    pipeline::parking::{
        skipped::{self, ListedSkip},
        table::waiting,
    },
};

/// Arguments of `parked show`.
#[derive(Debug, Args)]
pub struct Show {
    /// Account (acc_…).
    pub account: AccountId,
    /// Number of waiting events to show, and of skipped events.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub limit: u16,
    #[command(flatten)]
    pub options: Options,
}

#[derive(Debug, Serialize)]
struct Shown {
    account_id: AccountId,
    /// Number of waiting events, counted in each projection.
    waiting_total: i64,
    waiting: Vec<WaitingEvent>,
    skipped: Vec<ListedSkip>,
}

/// Waiting event.
#[derive(Debug, Serialize)]
struct WaitingEvent {
    shard: i16,
    position: Position,
    event_id: EventId,
    event_type: String,
    recorded_at: String,
    #[serde(flatten)]
    wait: Wait,
}

/// Projections that wait for an event.
#[derive(Debug, Default, Serialize)]
struct Wait {
    projections: Vec<&'static str>,
    /// Reason for which the account is parked, on the first event; other events wait behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

pub(super) async fn run(command: Show) -> anyhow::Result<()> {
    let databases = command.options.databases().await?;
    let shown = show(&databases, command.account, command.limit).await?;
    let text = shown.text();
    command.options.print(&shown, &text)
}

async fn show(databases: &Databases, account_id: AccountId, limit: u16) -> anyhow::Result<Shown> {
    let pool = &databases.read;
    let parked = list(pool, Some(account_id), PARKINGS_OF_ACCOUNT_MAX).await?;
    let mut waits = BTreeMap::<Position, Wait>::new();
    for listed in &parked {
        let (account, cause) = (listed.parking.account, &listed.parking.cause);
        let positions = waiting(pool, account, limit.into())
            .await
            .context("cannot read the waiting events of a parked account")?;
        for position in positions {
            let wait = waits.entry(position).or_default();
            wait.projections.push(account.projection.name());
            if position == cause.position {
                wait.why = Some(cause.poison.detail.clone());
            }
        }
    }
    let positions: Vec<Position> = waits.keys().copied().take(limit.into()).collect();
    let events = log::read_at(&databases.log, Shard::of(account_id), &positions)
        .await
        .context("cannot read the event store")?;
    let skipped = skipped::list(pool, account_id, limit.into())
        .await
        .context("cannot read the skipped events")?;
    let waiting = events.into_iter().map(|event| WaitingEvent {
        shard: event.shard.number(),
        position: event.position,
        event_id: event.event_id,
        event_type: event.event_type,
        recorded_at: timestamp::format(event.recorded_at),
        wait: waits.remove(&event.position).unwrap_or_default(),
    });
    Ok(Shown {
        account_id,
        waiting_total: parked.iter().map(|it| it.waiting).sum(),
        waiting: waiting.collect(),
        skipped,
    })
}

impl Shown {
    fn text(&self) -> String {
        let (account_id, screen) = (self.account_id, Screen::of_stdout());
        let mut lines = match self.waiting.first() {
            None => vec![format!("{account_id} is not parked.")],
            Some(event) => {
                let shard = event.shard;
                let events = counted(self.waiting.len() as u64, "event");
                let more = if self.is_cut() { ", and more" } else { "" };
                let head =
                    format!("{account_id} is parked in shard {shard}; waiting: {events}{more}");
                let mut lines = vec![head];
                lines.extend(self.waiting_lines(screen));
                lines
            }
        };
        if !self.skipped.is_empty() {
            lines.push("Left out for good:".to_owned());
            lines.extend(self.skipped_lines(screen));
        }
        lines.join("\n")
    }

    /// Returns true if more events wait than are shown.
    fn is_cut(&self) -> bool {
        let shown: usize = self
            .waiting
            .iter()
            .map(|it| it.wait.projections.len())
            .sum();
        i64::try_from(shown).is_ok_and(|shown| shown < self.waiting_total)
    }

    fn waiting_lines(&self, screen: Screen) -> Vec<String> {
        let columns = [
            ("POSITION", Layout::Number),
            ("RECORDED", Layout::Text),
            ("TYPE", Layout::Text),
            ("PROJECTIONS", Layout::OptionalText),
            ("WHY", Layout::Text),
        ];
        let rows = self.waiting.iter().map(|it| {
            let why = it.wait.why.as_deref().unwrap_or("waits behind");
            vec![
                it.position.to_string(),
                it.recorded_at.clone(),
                it.event_type.clone(),
                it.wait.projections.join(","),
                why.to_owned(),
            ]
        });
        table(screen, &columns, rows)
    }

    fn skipped_lines(&self, screen: Screen) -> Vec<String> {
        let columns = [
            ("POSITION", Layout::Number),
            ("TYPE", Layout::Text),
            ("PROJECTION", Layout::Text),
            ("SINCE", Layout::OptionalText),
            ("OPERATOR", Layout::OptionalText),
            ("REASON", Layout::Text),
        ];
        let rows = self.skipped.iter().map(|it| {
            vec![
                it.position.to_string(),
                it.event_type.clone(),
                it.projection.clone(),
                timestamp::format(it.skipped_at),
                it.operator.clone(),
                printable(&it.reason).into_owned(),
            ]
        });
        table(screen, &columns, rows)
    }
}
