//! Commands `relay status`, `relay pause`, `relay resume` and `relay republish`.

use clap::{Args, Subcommand};
use linkledger_service::{
    kafka_config::KafkaConfig,
    lifecycle,
    number_format::counted,
    operator::{Operator, parse_text},
};
use serde_json::json;

use super::{AdminCommandOptions, print};
use crate::relay::{
    cursor::STOPPED,
    pause::{self, Pause, Resumption},
    republish::{self, Republish},
    status::{self, RelayStatus},
};

/// Subcommand of `relay`.
#[derive(Debug, Subcommand)]
pub enum RelaySubcommand {
    /// Show the published position of each shard, the lease, and why nothing is published.
    Status(AdminCommandOptions),
    /// Stop publishing in every process within a second, until `relay resume`. Events wait in the
    /// log, and the API is not affected. The pause survives restarts. Safe to repeat.
    Pause {
        /// Reason, which `relay status` shows.
        #[arg(long, value_parser = parse_text)]
        reason: String,
        #[command(flatten)]
        operator: Operator,
        #[command(flatten)]
        options: AdminCommandOptions,
    },
    /// Publish again, the waiting events first. Safe to repeat.
    Resume {
        #[command(flatten)]
        operator: Operator,
        #[command(flatten)]
        options: AdminCommandOptions,
    },
    /// Publish the log again from a position, into an empty topic: after the topic was created anew,
    /// or after a move to another cluster. Publishing is paused meanwhile.
    Republish(Box<RepublishOptions>),
}

/// Options of `relay republish`.
#[derive(Debug, Clone, Args)]
pub struct RepublishOptions {
    #[command(flatten)]
    pub republish: Republish,
    #[command(flatten)]
    pub kafka: KafkaConfig,
    #[command(flatten)]
    pub operator: Operator,
    #[command(flatten)]
    pub options: AdminCommandOptions,
}

pub(super) async fn run(command: RelaySubcommand) -> anyhow::Result<()> {
    match command {
        RelaySubcommand::Status(options) => {
            let status = status::read(&options.pool().await?).await?;
            print(options.json, &status, &text(&status))
        }
        RelaySubcommand::Pause {
            reason,
            operator,
            options,
        } => {
            let pool = options.pool().await?;
            let changed = pause::begin(&pool, &operator.name(), &reason).await?;
            let text = if changed {
                "Nothing is published, from a second from now at the latest. Events wait in the \
                 log until `command-api relay resume`."
            } else {
                "The relay was paused already; the earlier reason stays."
            };
            let shown = json!({ "paused": true, "changed": changed });
            print(options.json, &shown, text)
        }
        RelaySubcommand::Resume { operator, options } => {
            let changed = pause::end(&options.pool().await?, None, &operator.name()).await?;
            let text = if changed {
                "The relay publishes again, what has waited first."
            } else {
                "The relay was not paused."
            };
            let shown = json!({ "paused": false, "changed": changed });
            print(options.json, &shown, text)
        }
        RelaySubcommand::Republish(republish) => run_republish(*republish).await,
    }
}

async fn run_republish(command: RepublishOptions) -> anyhow::Result<()> {
    let pool = command.options.pool().await?;
    let interrupted = lifecycle::interrupted()?;
    let operator = command.operator.name();
    let (kafka, wanted) = (&command.kafka, &command.republish);
    let republished = republish::republish(&pool, kafka, wanted, &operator, interrupted).await?;
    let mut lines = vec![format!(
        "{} {} to the topic {}; the first record of each shard is position {}.",
        counted(republished.events.unsigned_abs(), "event"),
        if republished.events == 1 {
            "goes"
        } else {
            "go"
        },
        republished.topic,
        command.republish.from + 1
    )];
    if let Some(days) = republished.retention_days {
        lines.push(format!(
            "Kafka removes events older than {} soon after: consumers that need them read \
             at once, or set retention.ms=-1 first.",
            counted(days.unsigned_abs(), "day")
        ));
    }
    if republished.paused {
        lines.push("The relay is still paused: `command-api relay resume`.".to_owned());
    }
    print(command.options.json, &republished, &lines.join("\n"))
}

fn text(status: &RelayStatus) -> String {
    let mut lines = headline(status);
    lines.push(format!(
        "\n{:>5}  {:>12}  {:>12}  {:>10}  {:>10}  {:<16}  OWNER",
        "SHARD", "POSITION", "HEAD", "BACKLOG", "OLDEST", "LEASE"
    ));
    for shard in &status.shards {
        let age = |seconds: f64| format!("{seconds:.1} s");
        lines.push(format!(
            "{:>5}  {:>12}  {:>12}  {:>10}  {:>10}  {:<16}  {}",
            shard.shard,
            shard.position,
            shard.head,
            shard.backlog_events,
            shard.oldest_age_seconds.map_or("-".to_owned(), age),
            shard.lease_seconds.map_or("none".to_owned(), age),
            shard.owner.as_deref().unwrap_or("-")
        ));
    }
    lines.join("\n")
}

/// Returns the lines above the table: pause, refusals, backlog.
fn headline(status: &RelayStatus) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(Pause { since, by, reason }) = &status.paused {
        lines.push(format!("Paused since {since} by {by}: {reason}"));
    }
    if let Some(Resumption { at, by }) = &status.resumed {
        lines.push(format!("Resumed at {at} by {by}."));
    }
    let shards = status.shards.iter();
    let refusals = shards.filter_map(|shard| Some((shard.refusal.as_ref()?, shard)));
    let mut refusals: Vec<_> = refusals.collect();
    // A refusal of the whole topic is stored for each shard; a stopped shard has a reason of its own.
    refusals.dedup_by(|(next, _), (refusal, _)| next == refusal && !next.starts_with(STOPPED));
    for (refusal, shard) in refusals {
        let since = shard.refused_since.as_deref().unwrap_or("-");
        lines.push(match refusal.strip_prefix(STOPPED) {
            Some(reason) => {
                let is_retried = shard.lease_seconds.is_some() && status.paused.is_none();
                stopped(shard.shard, since, is_retried, reason)
            }
            None => format!("Refused since {since}: {refusal}"),
        });
    }
    let oldest = status
        .shards
        .iter()
        .filter_map(|shard| shard.oldest_age_seconds)
        .fold(0.0, f64::max);
    lines.push(match status.backlog_events {
        0 => "No event waits.".to_owned(),
        1 => format!("1 event waits, for {oldest:.1} s."),
        events => format!("{events} events wait, the oldest for {oldest:.1} s."),
    });
    lines
}

/// Returns the line of a stopped shard. Without a lease, or during a pause, no process retries the shard.
fn stopped(shard: i16, since: &str, is_retried: bool, reason: &str) -> String {
    let retried = if is_retried {
        ", and retried after at most 5 s"
    } else {
        ""
    };
    format!("Shard {shard} is stopped since {since}{retried}: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopped_shard_is_said_to_be_retried_with_lease() {
        assert_eq!(
            stopped(3, "noon", true, "the log is damaged"),
            "Shard 3 is stopped since noon, and retried after at most 5 s: the log is damaged"
        );
        assert_eq!(
            stopped(3, "noon", false, "the log is damaged"),
            "Shard 3 is stopped since noon: the log is damaged"
        );
    }
}
