//! Commands `log epoch show` and `log epoch raise`.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use linkledger_core::{
    operator::{Operator, parse_text},
    shard::Position,
    timestamp,
};
use serde::Serialize;

use crate::{
    admin::{AdminCommandOptions, print},
    epoch::{self, Epochs, Raise, Raised},
};

#[derive(Debug, Subcommand)]
pub(super) enum EpochSubcommand {
    /// Show the epoch, its raises, and the cursors and read tables of another epoch.
    Show(AdminCommandOptions),
    /// Give the log another epoch, after a restore or a failover to a lagging standby that has lost
    /// events: later events get the sequences of the lost events, and consumers would drop them as
    /// repetitions.
    ///
    /// Nothing is published until the log is published again into an empty topic (`relay refill`),
    /// and consumers begin anew. The read tables stay stale until they are rebuilt
    /// (`projector rebuild --all`). docs/backup.md has the whole procedure.
    Raise(RaiseOptions),
}

#[derive(Debug, Args)]
pub(super) struct RaiseOptions {
    /// Reason, for the history.
    #[arg(long, value_parser = parse_text)]
    reason: String,
    /// Epoch that was published already but is missing in the restored database: the new epoch is
    /// higher. Only needed for an epoch that neither the database nor the relay knows.
    #[arg(long, value_name = "EPOCH", default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..i64::from(i32::MAX)))]
    above: i32,
    /// Show the result, and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    operator: Operator,
    #[command(flatten)]
    options: AdminCommandOptions,
}

#[derive(Serialize)]
struct ShownEpochs {
    epoch: i32,
    raises: Vec<ShownRaise>,
    published: Vec<ShownPublished>,
    projected: Vec<ShownProjected>,
    remedies: Vec<String>,
}

#[derive(Serialize)]
struct ShownRaise {
    epoch: i32,
    former_epoch: i32,
    at: String,
    by: String,
    reason: String,
    heads: Vec<Position>,
}

#[derive(Serialize)]
struct ShownPublished {
    epoch: i32,
    shards: i64,
}

#[derive(Serialize)]
struct ShownProjected {
    projection: String,
    epoch: i32,
    shards: i64,
}

#[derive(Serialize)]
struct ShownRaised {
    epoch: i32,
    former_epoch: i32,
    raised: bool,
    by: String,
    reason: String,
    heads: Vec<Position>,
}

pub(super) async fn run(command: EpochSubcommand) -> anyhow::Result<()> {
    match command {
        EpochSubcommand::Show(options) => {
            let epochs = epoch::read(&options.pool().await?).await?;
            print(&options, &ShownEpochs::of(&epochs), &text(&epochs))
        }
        EpochSubcommand::Raise(raise) => run_raise(raise).await,
    }
}

async fn run_raise(asked: RaiseOptions) -> anyhow::Result<()> {
    let raise = Raise {
        above: asked.above,
        by: asked.operator.name(),
        reason: asked.reason,
        is_dry_run: asked.dry_run,
    };
    let raised = epoch::raise(&asked.options.pool().await?, &raise).await?;
    let text = raised_text(&raised, &raise);
    let shown = ShownRaised {
        epoch: raised.epoch,
        former_epoch: raised.former_epoch,
        raised: !raise.is_dry_run,
        by: raise.by,
        reason: raise.reason,
        heads: raised.heads.to_vec(),
    };
    print(&asked.options, &shown, &text)
}

fn raised_text(raised: &Raised, raise: &Raise) -> String {
    let Raised {
        former_epoch,
        epoch,
        heads,
    } = raised;
    let events: Position = heads.iter().sum();
    if raise.is_dry_run {
        return format!(
            "The log of {events} events would be of epoch {epoch}; it is of {former_epoch}. Nothing \
             was changed."
        );
    }
    format!(
        "The log of {events} events is of epoch {epoch}; it was of {former_epoch}.\n\
         Nothing is published until it is filled into an empty topic: delete the topic, then\n  \
         command-api topic create\n  \
         command-api relay refill --from 0\n\
         The read tables are read as they are, and follow the log again after\n  \
         projector rebuild --all"
    )
}

fn text(epochs: &Epochs) -> String {
    let mut text = format!("The log is of epoch {}.", epochs.epoch);
    for raise in &epochs.raises {
        write!(
            text,
            "\n{}  raised from {} to {} by {}, with {} events: {}",
            timestamp::format(raise.at),
            raise.former_epoch,
            raise.epoch,
            raise.by,
            raise.heads.iter().sum::<Position>(),
            raise.reason
        )
        .expect("writing to a string never fails");
    }
    for remedy in epochs.remedies() {
        text.push('\n');
        text.push_str(&remedy);
    }
    text
}

impl ShownEpochs {
    fn of(epochs: &Epochs) -> Self {
        let raises = epochs.raises.iter().map(|raise| ShownRaise {
            epoch: raise.epoch,
            former_epoch: raise.former_epoch,
            at: timestamp::format(raise.at),
            by: raise.by.clone(),
            reason: raise.reason.clone(),
            heads: raise.heads.clone(),
        });
        let published = epochs.published.iter();
        let projected = epochs.projected.iter().cloned();
        Self {
            epoch: epochs.epoch,
            raises: raises.collect(),
            published: published
                .map(|&(epoch, shards)| ShownPublished { epoch, shards })
                .collect(),
            projected: projected
                .map(|(projection, epoch, shards)| ShownProjected {
                    projection,
                    epoch,
                    shards,
                })
                .collect(),
            remedies: epochs.remedies(),
        }
    }
}
