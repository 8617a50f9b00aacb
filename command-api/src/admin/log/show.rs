//! Command `log acc_…|lnk_…`: events of an account or a link, with the actor of each.

use anyhow::{Context as _, bail};
use clap::Args;
use linkledger_core::{
    envelope::RecordedEvent,
    event::Subject,
    id::EntryId,
    link::SubjectName,
    shard::{Position, Shard},
    timestamp,
};
use linkledger_event_store::{
    links,
    log::{self, StreamPart},
    names,
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::admin::{AdminCommandOptions, print};

/// Arguments for showing a stream.
#[derive(Debug, Args)]
// The group tells clap that a stream is to be shown, and no subcommand is given.
#[group(args = ["subject"])]
pub struct ShowLog {
    /// Account (acc_…: the account itself, its keys and credits), or link: its id (lnk_…), slug or short address.
    pub subject: SubjectName,
    /// Number of events to show, counted from the latest.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub limit: u16,
    #[command(flatten)]
    pub options: AdminCommandOptions,
}

/// Event for an operator.
#[derive(Debug, Serialize)]
struct ShownEvent {
    /// Version in the stream.
    version: i64,
    /// Time of the decision.
    recorded_at: String,
    /// Type of the event.
    #[serde(rename = "type")]
    event_type: String,
    /// `operator`, or the API key or admin key of the request.
    actor: Option<String>,
    /// Name of the person behind the actor `operator`.
    operator: Option<String>,
    /// Id of the request.
    request_id: Option<String>,
    /// Shard of the log.
    shard: i16,
    /// Position in the shard.
    position: Position,
    /// Entry of the ledger, of an event of credits: for `credits refund` and `credits revoke`.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<EntryId>,
    /// Payload as stored.
    data: Box<RawValue>,
}

#[derive(Serialize)]
struct ShownLog {
    events: Vec<ShownEvent>,
}

/// Shows the latest events of a stream, the last event first.
pub(super) async fn run(command: ShowLog) -> anyhow::Result<()> {
    let pool = command.options.pool().await?;
    let subject = names::find_subject(&pool, &command.subject).await;
    let subject = subject.context("cannot look up the link")?;
    let subject = subject.with_context(|| format!("there is no {}", command.subject))?;
    let account_id = match subject {
        Subject::Account(account_id) => account_id,
        Subject::Link(link_id) => {
            let owner = links::find_owner(&pool, link_id).await;
            let owner = owner.context("cannot read the owner of the link")?;
            owner.with_context(|| format!("there is no link {link_id}"))?
        }
    };
    let shard = Shard::of(account_id);
    let part = StreamPart::newest(shard, subject, command.limit.into());
    let events = log::read_stream_backwards(&pool, &part).await;
    let events = events.context("cannot read the log")?;
    if events.is_empty() {
        bail!("nothing has happened to {subject}; check the id");
    }
    let events = events.into_iter().map(shown);
    let events = events.collect::<anyhow::Result<Vec<_>>>()?;
    let text = table(&events);
    print(command.options.json, &ShownLog { events }, &text)
}

fn shown(event: RecordedEvent) -> anyhow::Result<ShownEvent> {
    let is_entry = event.event_type.starts_with("Credits");
    Ok(ShownEvent {
        version: event.version,
        recorded_at: timestamp::format(event.recorded_at),
        event_type: event.event_type,
        actor: event.metadata.actor,
        operator: event.metadata.operator,
        request_id: event.metadata.request_id,
        shard: event.shard.number(),
        position: event.position,
        entry: is_entry.then(|| EntryId::from_uuid(event.event_id.uuid())),
        data: RawValue::from_string(event.payload).context("a payload is not JSON")?,
    })
}

fn table(events: &[ShownEvent]) -> String {
    let mut lines = vec![format!(
        "{:>7}  {:<24}  {:<22}  {:<30}  DATA",
        "VERSION", "TIME", "EVENT", "BY"
    )];
    for event in events {
        let by = match (&event.actor, &event.operator) {
            (Some(actor), Some(operator)) => format!("{actor} {operator}"),
            (Some(actor), None) => actor.clone(),
            (None, _) => "-".to_owned(),
        };
        let entry = event.entry.map(|entry| format!("{entry} "));
        let entry = entry.unwrap_or_default();
        lines.push(format!(
            "{:>7}  {:<24}  {:<22}  {by:<30}  {entry}{}",
            event.version, event.recorded_at, event.event_type, event.data
        ));
    }
    lines.join("\n")
}
