//! Commands `log epoch show` and `log epoch raise`.

use clap::{Args, Subcommand};
use linkledger_core::{shard::Position, timestamp};
use linkledger_service::{number_format::counted, operator::Operator};

use crate::{
    admin::{LogAndReadOptions, print},
    epoch::{self, Epochs, Raise, Raised},
};

#[derive(Debug, Subcommand)]
pub(super) enum EpochSubcommand {
    /// Show the epoch, its raises, and the cursors and read tables of another epoch.
    Show(LogAndReadOptions),
    /// Give the log another epoch, after a restore or a failover to a lagging standby that has lost
    /// events: later events get the sequences of the lost events, and consumers would drop them as
    /// repetitions.
    ///
    /// Nothing is published until the log is published again into an empty topic (`relay republish`),
    /// and consumers begin anew. The read tables stay stale until they are rebuilt
    /// (`projector rebuild --all`). docs/backup.md has the whole procedure.
    Raise(RaiseOptions),
}

#[derive(Debug, Args)]
pub(super) struct RaiseOptions {
    #[command(flatten)]
    raise: Raise,
    #[command(flatten)]
    operator: Operator,
    #[command(flatten)]
    options: LogAndReadOptions,
}

pub(super) async fn run(command: EpochSubcommand) -> anyhow::Result<()> {
    match command {
        EpochSubcommand::Show(options) => {
            let epochs = epoch::read(&options.pools().await?).await?;
            print(options.json, &epochs, &text(&epochs))
        }
        EpochSubcommand::Raise(command) => {
            let databases = command.options.pools().await?;
            let raised = epoch::raise(&databases, command.raise, command.operator.name()).await?;
            print(command.options.json, &raised, &raised_text(&raised))
        }
    }
}

fn raised_text(raised: &Raised) -> String {
    let (epoch, former_epoch) = (raised.epoch, raised.former_epoch);
    let events = events_of(&raised.heads);
    if !raised.raised {
        return format!(
            "The log of {events} would be of epoch {epoch}; it is of {former_epoch}. Nothing \
             was changed."
        );
    }
    format!(
        "The log of {events} is of epoch {epoch}; it was of {former_epoch}.\n\
         Nothing is published until it is filled into an empty topic: delete the topic, then\n  \
         command-api topic create\n  \
         command-api relay republish --from 0\n\
         The read tables are read as they are, and follow the log again after\n  \
         projector rebuild --all"
    )
}

/// Returns the number of events up to the heads of all shards.
fn events_of(heads: &[Position]) -> String {
    let events: Position = heads.iter().sum();
    counted(events.unsigned_abs(), "event")
}

fn text(epochs: &Epochs) -> String {
    let mut lines = vec![format!("The log is of epoch {}.", epochs.epoch)];
    lines.extend(epochs.raises.iter().map(|raise| {
        format!(
            "{}  raised from {} to {} by {}, with {}: {}",
            timestamp::format(raise.raised_at),
            raise.former_epoch,
            raise.epoch,
            raise.raised_by,
            events_of(&raise.heads),
            raise.reason
        )
    }));
    lines.extend_from_slice(&epochs.remedies);
    lines.join("\n")
}
