//! `rebuild --account`: projects the rows of one account again, in the served generations.

use linkledger_core::{databases::Databases, id::AccountId};
use serde::Serialize;

use crate::{
    operations::{
        audit::{self, OperationOutcome, hold},
        figures::counted,
        rebuild::account::{AccountRebuild, event_count, rebuild_account},
    },
    read_models::Projection,
    surfaces::cli::{OperatorArgs, Options},
};

#[derive(Serialize)]
struct RebuiltAccount {
    account_id: AccountId,
    rebuilt: Vec<AccountRebuild>,
}

#[derive(Serialize)]
struct PlannedAccount {
    dry_run: bool,
    account_id: AccountId,
    projections: Vec<&'static str>,
    /// Number of events in the account's own stream.
    events: u64,
}

pub(super) async fn run(
    databases: &Databases,
    account_id: AccountId,
    projections: &[Projection],
    operator: &OperatorArgs,
    options: &Options,
) -> anyhow::Result<()> {
    let events = event_count(&databases.log, account_id).await?;
    if operator.dry_run {
        return print_planned(options, account_id, projections, events);
    }
    let account = account_id.to_string();
    let operation = audit::OperatorCommand {
        name: "rebuild --account",
        projections,
        subject: Some(&account),
        operator: &operator.operator(),
        reason: operator.reason.as_deref(),
    };
    let work = Box::pin(async {
        let mut rebuilt = Vec::with_capacity(projections.len());
        for projection in projections {
            rebuilt.push(rebuild_account(databases, *projection, account_id).await?);
        }
        Ok(rebuilt)
    });
    let rebuilt = hold(&databases.read, &operation, work, |rebuilt, projection| {
        let events = rebuilt
            .iter()
            .filter(|report| report.projection == projection.name())
            .map(|report| report.events);
        let detail = format!("{} projected again", counted(events.sum(), "event"));
        (OperationOutcome::Done, detail)
    })
    .await?;
    let lines = rebuilt.iter().map(|report| {
        let AccountRebuild {
            projection,
            generation,
            events,
        } = report;
        let events = counted(*events, "event");
        format!("Rebuilt `{account_id}` in `{projection}`, generation {generation}, from {events}.")
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let rebuilt = RebuiltAccount {
        account_id,
        rebuilt,
    };
    options.print(&rebuilt, &text)
}

fn print_planned(
    options: &Options,
    account_id: AccountId,
    projections: &[Projection],
    events: u64,
) -> anyhow::Result<()> {
    let planned = PlannedAccount {
        dry_run: true,
        account_id,
        projections: projections.iter().map(|it| it.name()).collect(),
        events,
    };
    let text = format!(
        "Would rebuild `{account_id}` in {}, from {} of the account's own stream, and from the events of \
         its links, which are not counted; nothing was changed.",
        planned.projections.join(", "),
        counted(events, "event")
    );
    options.print(&planned, &text)
}
