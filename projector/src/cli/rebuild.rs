//! `rebuild` and `rollback`: recreate read models from the log, and choose the served generation.

use std::{collections::BTreeMap, num::NonZeroU32, sync::Arc};

use anyhow::Context as _;
use clap::Args;
use linkledger_event_store::SessionKind;
use linkledger_service::databases::Databases;
use serde::Serialize;
use sqlx::PgPool;

use super::{Options, one_or_all, projection_parser};
use crate::{
    cli::OperatorArgs,
    operations::{
        audit::{self, OperationOutcome, hold},
        number_format::counted,
        rebuild::{
            self, CONNECTIONS_MAX, RebuildReport, RebuildSettings, generation, is_paused, plan,
            rollback,
        },
    },
    progress::ProgressReport,
    read_models::Projection,
};

/// Arguments of `rebuild`.
#[derive(Debug, Args)]
pub struct Rebuild {
    /// The projection.
    #[arg(required_unless_present = "all", value_parser = projection_parser())]
    projection: Option<Projection>,
    /// Every projection.
    #[arg(long, conflicts_with = "projection")]
    all: bool,
    #[command(flatten)]
    rate: Rate,
    /// Build and verify the new generation, but do not serve it; the same command without this
    /// option finishes it later.
    #[arg(long)]
    no_swap: bool,
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    options: Options,
}

/// Rate limit of a rebuild.
#[derive(Debug, Clone, Copy, Args)]
struct Rate {
    /// Maximum number of events to read per second, so that the services stay fast; 0 for no limit.
    #[arg(long, value_name = "EVENTS", default_value_t = 20_000)]
    max_rate: u32,
}

impl Rate {
    fn max(self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.max_rate)
    }
}

/// Arguments of `rollback`.
#[derive(Debug, Args)]
pub struct Rollback {
    /// The projection.
    #[arg(value_parser = projection_parser())]
    projection: Projection,
    #[command(flatten)]
    rate: Rate,
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    options: Options,
}

#[derive(Serialize)]
struct Planned {
    dry_run: bool,
    planned: Vec<PlannedBuild>,
}

/// Plan for one projection.
#[derive(Serialize)]
struct PlannedBuild {
    /// Verb for people.
    #[serde(skip)]
    does: &'static str,
    projection: &'static str,
    generation: i32,
    served: i32,
    /// True if an interrupted rebuild is continued.
    resumes: bool,
    events: u64,
    swaps: bool,
    /// True if the projection is paused. A swap moves a paused projection too.
    is_paused: bool,
}

impl Options {
    pub(super) async fn rebuild_databases(&self) -> anyhow::Result<Databases> {
        self.databases_for_lock(SessionKind::Projector, CONNECTIONS_MAX)
            .await
    }
}

pub(super) async fn run_rebuild(command: Rebuild) -> anyhow::Result<()> {
    let Rebuild {
        operator, options, ..
    } = &command;
    let databases = options.rebuild_databases().await?;
    let projections = one_or_all(command.projection);
    let settings = RebuildSettings {
        max_rate: command.rate.max(),
        swap: !command.no_swap,
    };
    if operator.dry_run {
        let mut planned = Vec::new();
        for projection in projections {
            planned.push(planned_rebuild(&databases, projection, settings).await?);
        }
        return print_planned(options, planned);
    }
    let progress = Arc::new(ProgressReport::shown(options.json));
    let recorded = audit::OperatorCommand {
        name: "rebuild",
        projections: &projections,
        subject: None,
        operator: &operator.operator(),
        reason: operator.reason.as_deref(),
    };
    let work = rebuild::rebuild(&databases, &projections, settings, progress);
    run_recorded(&databases.read, &recorded, options, work).await
}

/// Runs the work as a recorded command, and prints the reports.
async fn run_recorded(
    pool: &PgPool,
    command: &audit::OperatorCommand<'_>,
    options: &Options,
    work: impl Future<Output = anyhow::Result<Vec<RebuildReport>>>,
) -> anyhow::Result<()> {
    let served = served(pool, command.projections).await?;
    let rebuilt = hold(pool, command, Box::pin(work), |rebuilt, projection| {
        outcome(rebuilt, projection)
    });
    let rebuilt = match rebuilt.await {
        Ok(rebuilt) => rebuilt,
        Err(error) => return Err(tell_served(pool, &served, error).await),
    };
    let texts: Vec<_> = rebuilt.iter().map(RebuildReport::to_string).collect();
    options.print(&BTreeMap::from([("rebuilt", rebuilt)]), &texts.join("\n"))
}

/// Returns the served generation of each projection.
async fn served(
    pool: &PgPool,
    projections: &[Projection],
) -> anyhow::Result<Vec<(Projection, i32)>> {
    let mut served = Vec::with_capacity(projections.len());
    for projection in projections {
        let active = generation::active(pool, *projection)
            .await
            .context("cannot read which generation is served")?;
        served.push((*projection, active));
    }
    Ok(served)
}

/// Adds to the error which generations were swapped already: the same command would rebuild those
/// projections once more.
async fn tell_served(
    pool: &PgPool,
    before: &[(Projection, i32)],
    error: anyhow::Error,
) -> anyhow::Error {
    let projections: Vec<_> = before.iter().map(|(projection, _)| *projection).collect();
    let Ok(now) = served(pool, &projections).await else {
        return error;
    };
    let done = now.iter().zip(before).filter(|(now, before)| now != before);
    let done: Vec<_> = done
        .map(|((projection, number), _)| format!("generation {number} of `{projection}`"))
        .collect();
    if done.is_empty() {
        return error;
    }
    error.context(format!(
        "served already: {}; run the command again for others only",
        done.join(", ")
    ))
}

async fn planned_rebuild(
    databases: &Databases,
    projection: Projection,
    settings: RebuildSettings,
) -> anyhow::Result<PlannedBuild> {
    let plan = plan::plan(databases, projection).await?;
    Ok(PlannedBuild {
        does: if plan.is_begun { "continue" } else { "build" },
        projection: projection.name(),
        generation: plan.build.generation,
        served: plan.build.live,
        resumes: plan.is_begun,
        events: plan.events,
        swaps: settings.swap,
        is_paused: is_paused(&databases.read, projection).await?,
    })
}

pub(super) async fn run_rollback(command: Rollback) -> anyhow::Result<()> {
    let Rollback {
        projection,
        rate,
        operator,
        options,
    } = &command;
    let databases = options.rebuild_databases().await?;
    if operator.dry_run {
        let build = rollback::plan(&databases, *projection).await?;
        let planned = PlannedBuild {
            does: "go back to",
            projection: projection.name(),
            generation: build.generation,
            served: build.live,
            resumes: true,
            events: plan::events_to_head(&databases, build).await?,
            swaps: true,
            is_paused: is_paused(&databases.read, *projection).await?,
        };
        return print_planned(options, vec![planned]);
    }
    let progress = Arc::new(ProgressReport::shown(options.json));
    let recorded = audit::OperatorCommand {
        name: "rollback",
        projections: &[*projection],
        subject: None,
        operator: &operator.operator(),
        reason: operator.reason.as_deref(),
    };
    let work = async {
        let rebuilt = rollback::rollback(&databases, *projection, rate.max(), progress).await?;
        Ok(vec![rebuilt])
    };
    run_recorded(&databases.read, &recorded, options, work).await
}

fn print_planned(options: &Options, planned: Vec<PlannedBuild>) -> anyhow::Result<()> {
    let lines = planned.iter().map(|it| {
        let PlannedBuild {
            does,
            projection,
            generation,
            served,
            events,
            swaps,
            is_paused,
            ..
        } = it;
        let events = counted(*events, "event");
        let then = if *swaps {
            format!("and serve it in place of generation {served}")
        } else {
            format!("and keep serving generation {served}")
        };
        let moves = if *is_paused && *swaps {
            " It is paused: what is read would move to the head of the log all the same."
        } else {
            ""
        };
        format!(
            "Would {does} generation {generation} of `{projection}`: read {events}, verify \
             it, {then}; nothing was changed.{moves}"
        )
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let planned = Planned {
        dry_run: true,
        planned,
    };
    options.print(&planned, &text)
}

/// Returns the outcome for one projection, for the record.
fn outcome(rebuilt: &[RebuildReport], projection: Projection) -> (OperationOutcome, String) {
    let mut reports = rebuilt.iter();
    let report = reports.find(|it| it.projection == projection.name());
    let text = report.map_or_else(String::new, RebuildReport::to_string);
    (OperationOutcome::Done, text)
}
