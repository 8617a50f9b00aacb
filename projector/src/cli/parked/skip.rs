//! `parked skip`: skips an event for good.

use anyhow::bail;
use clap::Args;
use linkledger_core::{id::AccountId, shard::Position};
use serde::Serialize;

use super::retry;
use crate::{
    cli::{OperatorArgs, Options},
    operations::parked::{self, RetriedAccount, SkipRequest, SkippedEvent, preview, skip},
};

/// Arguments of `parked skip`.
#[derive(Debug, Args)]
pub struct SkipEvent {
    /// Account (acc_…); give `--reason` too.
    #[arg(requires = "reason")]
    pub account: AccountId,
    /// Skip only if the account is parked for the event at this position of its shard.
    #[arg(long)]
    pub position: Option<Position>,
    #[command(flatten)]
    pub operator: OperatorArgs,
    #[command(flatten)]
    pub options: Options,
}

#[derive(Serialize)]
struct Shown<'a> {
    dry_run: bool,
    account_id: AccountId,
    skipped: &'a SkippedEvent,
    retried: &'a [RetriedAccount],
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
    let request = SkipRequest {
        account_id,
        position: command.position,
        operator: &operator,
        reason,
    };
    let databases = command.options.databases().await?;
    let (skipped, retried) = if dry_run {
        (preview(&databases, request).await?, Vec::new())
    } else {
        let skipped = skip(&databases, request).await?;
        (skipped, parked::retry(&databases, Some(account_id)).await?)
    };
    let shown = Shown {
        dry_run,
        account_id,
        skipped: &skipped,
        retried: &retried,
    };
    let mut text = text_of(&skipped, account_id, dry_run);
    if !retried.is_empty() {
        text = format!("{text}\n{}", retry::text_of(&retried));
    }
    command.options.print(&shown, &text)?;
    if retried.iter().any(|it| !it.released) {
        bail!("the event is skipped, but not all events behind it could be applied; see above");
    }
    Ok(())
}

fn text_of(skipped: &SkippedEvent, account_id: AccountId, dry_run: bool) -> String {
    let verb = if dry_run { "would be" } else { "is" };
    let (event_type, position) = (&skipped.event_type, skipped.position);
    let projections = skipped.projections.join(", ");
    format!(
        "`{event_type}` at position {position} of {account_id} {verb} skipped for good: \
         {projections}"
    )
}
