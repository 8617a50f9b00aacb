//! `drop`: drops a generation that is not served, with its tables.

use anyhow::{Context as _, bail};
use clap::Args;
use serde::Serialize;
use sqlx::PgPool;

use super::{Options, projection_parser};
use crate::{
    cli::OperatorArgs,
    operations::{
        audit::{self, OperationOutcome, hold},
        rebuild::generation::{self, GenerationPhase, KEPT_FOR},
    },
    read_models::Projection,
};

/// Arguments of `drop`.
#[derive(Debug, Args)]
pub struct DropGeneration {
    /// Projection.
    #[arg(value_parser = projection_parser())]
    projection: Projection,
    /// Number of the generation.
    generation: i32,
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    options: Options,
}

#[derive(Serialize)]
struct Dropped {
    dry_run: bool,
    projection: &'static str,
    generation: i32,
}

pub(super) async fn run(command: DropGeneration) -> anyhow::Result<()> {
    let DropGeneration {
        projection,
        generation,
        operator,
        options,
    } = &command;
    let pool = options.rebuild_databases().await?.read;
    let dropped = Dropped {
        dry_run: operator.dry_run,
        projection: projection.name(),
        generation: *generation,
    };
    let subject = format!("generation {generation}");
    let what = format!("{subject} of `{projection}`");
    ensure_droppable(&pool, *projection, *generation).await?;
    if operator.dry_run {
        return options.print(
            &dropped,
            &format!("Would drop {what}; nothing was changed."),
        );
    }
    let text = format!("Dropped {what}.");
    hold(
        &pool,
        &audit::OperatorCommand {
            name: "drop",
            projections: &[*projection],
            subject: Some(&subject),
            operator: &operator.operator(),
            reason: operator.reason.as_deref(),
        },
        generation::drop_all(&pool, *projection, *generation),
        |(), _| (OperationOutcome::Done, text.clone()),
    )
    .await?;
    options.print(&dropped, &text)
}

/// Explains a refusal. The SQL function of the migrations refuses by itself whatever must never be
/// dropped.
async fn ensure_droppable(
    pool: &PgPool,
    projection: Projection,
    number: i32,
) -> anyhow::Result<()> {
    let known = generation::list(pool, projection)
        .await
        .context("cannot read the generations")?;
    let Some(found) = known.iter().find(|it| it.number == number) else {
        let numbers: Vec<_> = known.iter().map(|it| it.number.to_string()).collect();
        bail!(
            "`{projection}` has no generation {number}; it has {}",
            numbers.join(", ")
        );
    };
    if found.phase == GenerationPhase::Active {
        bail!("generation {number} of `{projection}` is served; only others can be dropped");
    }
    let rested = found.rested_for();
    if let Some(rested) = rested.filter(|it| *it < KEPT_FOR) {
        bail!(
            "generation {number} of `{projection}` was served until {} s ago, and a query may \
             still read it: try again in {} s",
            rested.as_secs(),
            KEPT_FOR.saturating_sub(rested).as_secs() + 1
        );
    }
    Ok(())
}
