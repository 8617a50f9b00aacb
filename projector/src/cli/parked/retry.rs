//! `parked retry`: retries the waiting events of parked accounts.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use clap::Args;
use linkledger_core::id::AccountId;
use linkledger_service::failure;
use serde::Serialize;
use sqlx::PgPool;

use crate::{
    cli::{OperatorArgs, Options},
    operations::{
        audit::{self, OperationOutcome},
        number_format::counted,
        parked::{RetriedAccount, list, retry},
    },
};

/// Maximum number of accounts in a dry run.
const DRY_RUN_MAX: i64 = 10_000;

/// Arguments of `parked retry`.
#[derive(Debug, Args)]
pub struct Retry {
    /// Account whose waiting events are applied again: acc_….
    #[arg(required_unless_present = "all")]
    pub account: Option<AccountId>,
    /// Every parked account.
    #[arg(long, conflicts_with = "account")]
    pub all: bool,
    #[command(flatten)]
    pub operator: OperatorArgs,
    #[command(flatten)]
    pub options: Options,
}

#[derive(Serialize)]
struct Preview {
    dry_run: bool,
    accounts: usize,
    waiting: i64,
}

pub(super) async fn run(command: Retry) -> anyhow::Result<()> {
    let databases = command.options.databases().await?;
    if command.operator.dry_run {
        return dry_run(&databases.read, &command).await;
    }
    let result = retry(&databases, command.account).await;
    let recorded = record(&databases.read, &command, &result).await;
    let retried = result?;
    recorded.context("the retry is done, but cannot be recorded")?;
    let stuck = stuck(&retried);
    let text = text_of(&retried);
    let retried = BTreeMap::from([("retried", retried)]);
    command.options.print(&retried, &text)?;
    if stuck > 0 {
        bail!(
            "not every account could be released; the accounts that are still parked are listed above"
        );
    }
    Ok(())
}

async fn dry_run(pool: &PgPool, command: &Retry) -> anyhow::Result<()> {
    let parked = list(pool, command.account, DRY_RUN_MAX).await?;
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
            "would retry {}: {}, counted in each projection",
            counted(accounts as u64, "account"),
            counted(waiting.unsigned_abs(), "waiting event")
        ),
    };
    command.options.print(&shown, &text)
}

/// Records the outcome after the many transactions of the retry.
async fn record(
    pool: &PgPool,
    command: &Retry,
    result: &anyhow::Result<Vec<RetriedAccount>>,
) -> sqlx::Result<()> {
    let (outcome, detail) = match result {
        Ok(retried) if retried.is_empty() => return Ok(()),
        Ok(retried) => {
            let applied: usize = retried.iter().map(|it| it.applied).sum();
            let (all, stuck) = (retried.len(), stuck(retried));
            let applied = counted(applied as u64, "event");
            let detail = format!("{applied} applied; {stuck} of {all} parked still");
            let outcome = if stuck == 0 {
                OperationOutcome::Done
            } else {
                OperationOutcome::Failed
            };
            (outcome, detail)
        }
        Err(error) => (OperationOutcome::Failed, failure::text(error)),
    };
    let account_id = command.account.map(|it| it.to_string());
    let operator = command.operator.operator();
    let recorded = audit::OperatorCommand {
        name: "parked retry",
        projections: &[],
        subject: account_id.as_deref(),
        operator: &operator,
        reason: command.operator.reason.as_deref(),
    };
    let mut session = pool.acquire().await?;
    audit::record_in_tx(&mut session, &recorded, outcome, &detail).await
}

fn stuck(retried: &[RetriedAccount]) -> usize {
    retried.iter().filter(|it| !it.released).count()
}

pub(super) fn text_of(retried: &[RetriedAccount]) -> String {
    if retried.is_empty() {
        return "Nothing is parked.".to_owned();
    }
    let lines = retried.iter().map(|account| {
        let (account_id, projection, applied) =
            (account.account_id, account.projection, account.applied);
        let outcome = match &account.detail {
            None => "released".to_owned(),
            Some(detail) => format!("still parked: {detail}"),
        };
        format!("{account_id}  {projection:<10}  {applied} applied, {outcome}")
    });
    lines.collect::<Vec<_>>().join("\n")
}
