//! Commands `relay status`, `relay pause`, `relay resume` and `relay refill`.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use linkledger_core::{
    kafka_config::KafkaConfig,
    operator::parse_text,
    shard::{Position, Shard},
    timestamp,
};
use serde::Serialize;

use super::{AdminCommandOptions, operator::OPERATOR, print};
use crate::relay::{
    pause,
    refill::{self, Refill},
    status::{self, RelayStatus, ShardStatus},
    topic::Topic,
};

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

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
        options: AdminCommandOptions,
    },
    /// Publish again, the waiting events first. Safe to repeat.
    Resume(AdminCommandOptions),
    /// Publish the log again from a position, into an empty topic: after the topic was created anew,
    /// or after a move to another cluster. Publishing is paused meanwhile.
    Refill(Box<RefillOptions>),
}

/// Options of `relay refill`.
#[derive(Debug, Clone, Args)]
pub struct RefillOptions {
    /// Position before the first record of each shard; 0 for the whole log. Must not be beyond the
    /// published position.
    #[arg(long, value_parser = clap::value_parser!(i64).range(0..))]
    pub from: Position,
    /// Only this shard, whose partition must be empty.
    #[arg(long, value_parser = parse_shard)]
    pub shard: Option<Shard>,
    /// Name of a process that has ended without closing its producer, as the refusal shows the name;
    /// can be repeated. If the process still runs, consumers may miss events.
    #[arg(long, value_name = "NAME")]
    pub ended: Vec<String>,
    #[command(flatten)]
    pub kafka: KafkaConfig,
    #[command(flatten)]
    pub options: AdminCommandOptions,
}

pub(super) async fn run(command: RelaySubcommand) -> anyhow::Result<()> {
    match command {
        RelaySubcommand::Status(options) => {
            let status = status::read(&options.pool().await?).await?;
            print(&options, &ShownStatus::of(&status), &text(&status))
        }
        RelaySubcommand::Pause { reason, options } => {
            let pool = options.pool().await?;
            let changed = pause::begin(&pool, OPERATOR, &reason).await?;
            let text = if changed {
                "Nothing is published, from a second from now at the latest. Events wait in the \
                 log until `command-api relay resume`."
            } else {
                "The relay was paused already; the earlier reason stays."
            };
            let paused = true;
            print(&options, &ShownPause { paused, changed }, text)
        }
        RelaySubcommand::Resume(options) => {
            let changed = pause::end(&options.pool().await?, None).await?;
            let text = if changed {
                "The relay publishes again, what has waited first."
            } else {
                "The relay was not paused."
            };
            let paused = false;
            print(&options, &ShownPause { paused, changed }, text)
        }
        RelaySubcommand::Refill(refill) => run_refill(*refill).await,
    }
}

#[derive(Serialize)]
struct ShownPause {
    paused: bool,
    changed: bool,
}

#[derive(Serialize)]
struct ShownRefill {
    from: Position,
    shard: Option<i16>,
    topic: String,
    cluster_id: Option<String>,
    events: i64,
    paused: bool,
}

async fn run_refill(refill: RefillOptions) -> anyhow::Result<()> {
    let request = Refill {
        from: refill.from,
        shard: refill.shard,
        ended: refill.ended,
        by: OPERATOR.to_owned(),
    };
    let pool = refill.options.pool().await?;
    let refilled = refill::refill(&pool, &refill.kafka, &request).await?;
    let shown = ShownRefill {
        from: refill.from,
        shard: refill.shard.map(Shard::number),
        topic: refilled.topic.name.clone(),
        cluster_id: refilled.cluster_id,
        events: refilled.events,
        paused: refilled.is_paused,
    };
    let mut text = format!(
        "{} {} to the topic {}; the first record of each shard is position {}.",
        shown.events,
        if shown.events == 1 {
            "event goes"
        } else {
            "events go"
        },
        shown.topic,
        refill.from + 1
    );
    if let Some(days) = retention_days(&refilled.topic) {
        write!(
            text,
            "\nKafka removes events older than {days} days soon after: consumers that need them \
             read at once, or set retention.ms=-1 first."
        )
        .expect("writing to a string never fails");
    }
    if shown.paused {
        text.push_str("\nThe relay is still paused: `command-api relay resume`.");
    }
    print(&refill.options, &shown, &text)
}

fn retention_days(topic: &Topic) -> Option<i64> {
    let milliseconds: i64 = topic.setting("retention.ms")?.parse().ok()?;
    (milliseconds >= 0).then_some(milliseconds / DAY_MS)
}

#[derive(Serialize)]
struct ShownStatus {
    paused: Option<ShownPauseDetail>,
    backlog_events: i64,
    producers: Vec<String>,
    shards: Vec<ShownShard>,
}

#[derive(Serialize)]
struct ShownPauseDetail {
    since: String,
    by: String,
    reason: String,
}

#[derive(Serialize)]
struct ShownShard {
    shard: i16,
    position: Position,
    head: Position,
    backlog_events: i64,
    oldest_age_seconds: Option<f64>,
    owner: Option<String>,
    lease_seconds: Option<f64>,
    refusal: Option<String>,
    refused_since: Option<String>,
    cluster_id: Option<String>,
    record_offset: Option<i64>,
    refilled_at: Option<String>,
    refilled_by: Option<String>,
    refilled_from: Option<Position>,
}

impl ShownStatus {
    fn of(status: &RelayStatus) -> Self {
        let pause = status.pause.as_ref();
        let mut producers: Vec<_> = status
            .producers
            .iter()
            .map(|producer| producer.owner.clone())
            .collect();
        producers.dedup();
        Self {
            paused: pause.map(|pause| ShownPauseDetail {
                since: timestamp::format(pause.at),
                by: pause.by.clone(),
                reason: pause.reason.clone(),
            }),
            backlog_events: status.backlog(),
            producers,
            shards: status.shards.iter().map(ShownShard::of).collect(),
        }
    }
}

impl ShownShard {
    fn of(shard: &ShardStatus) -> Self {
        let (refusal, refused_at) = shard.refusal.clone().unzip();
        let refilled = shard.refilled.clone();
        Self {
            shard: shard.shard.number(),
            position: shard.position,
            head: shard.head,
            backlog_events: (shard.head - shard.position).max(0),
            oldest_age_seconds: shard.oldest_age_s,
            owner: shard.owner.clone(),
            lease_seconds: shard.lease_s,
            refusal,
            refused_since: refused_at.map(timestamp::format),
            cluster_id: shard.cluster_id.clone(),
            record_offset: shard.record_offset,
            refilled_at: refilled.as_ref().map(|(at, ..)| timestamp::format(*at)),
            refilled_by: refilled.as_ref().map(|(_, by, _)| by.clone()),
            refilled_from: refilled.map(|(.., from)| from),
        }
    }
}

fn text(status: &RelayStatus) -> String {
    let mut text = headline(status);
    write!(
        text,
        "\n\n{:>5}  {:>12}  {:>12}  {:>10}  {:>10}  {:<16}  OWNER",
        "SHARD", "POSITION", "HEAD", "BACKLOG", "OLDEST", "LEASE"
    )
    .expect("writing to a string never fails");
    for shard in &status.shards {
        let age = |seconds: f64| format!("{seconds:.1} s");
        write!(
            text,
            "\n{:>5}  {:>12}  {:>12}  {:>10}  {:>10}  {:<16}  {}",
            shard.shard,
            shard.position,
            shard.head,
            (shard.head - shard.position).max(0),
            shard.oldest_age_s.map_or("-".to_owned(), age),
            shard.lease_s.map_or("none".to_owned(), age),
            shard.owner.as_deref().unwrap_or("-")
        )
        .expect("writing to a string never fails");
    }
    text
}

/// Returns the lines above the table: pause, refusals, backlog.
fn headline(status: &RelayStatus) -> String {
    let mut lines = Vec::new();
    if let Some(pause) = &status.pause {
        lines.push(format!(
            "Paused since {} by {}: {}",
            timestamp::format(pause.at),
            pause.by,
            pause.reason
        ));
    }
    let mut refusals: Vec<_> = status
        .shards
        .iter()
        .filter_map(|shard| shard.refusal.as_ref())
        .collect();
    refusals.dedup_by_key(|(refusal, _)| refusal);
    for (refusal, since) in refusals {
        lines.push(format!(
            "Refused since {}: {refusal}",
            timestamp::format(*since)
        ));
    }
    let oldest = status.shards.iter().filter_map(|shard| shard.oldest_age_s);
    let oldest = oldest.fold(0.0, f64::max);
    lines.push(match status.backlog() {
        0 => "No event waits.".to_owned(),
        1 => format!("1 event waits, for {oldest:.1} s."),
        events => format!("{events} events wait, the oldest for {oldest:.1} s."),
    });
    lines.join("\n")
}

fn parse_shard(text: &str) -> Result<Shard, String> {
    let shard = text.parse().ok().and_then(Shard::new);
    shard.ok_or_else(|| "give the number of a shard, from 0 to 15".to_owned())
}
