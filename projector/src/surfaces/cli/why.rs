//! `why`: explains the rows of a link or an account from its events.

use std::borrow::Cow;

use anyhow::Context as _;
use clap::Args;
use linkledger_core::{event_store::names, link::SubjectName, printable::printable, timestamp};

use super::{
    Options,
    columns::{Layout, Screen, table},
};
use crate::operations::{
    figures::grouped,
    why::{ExplainedEvent, WhyReport, WhyRequest, why},
};

const COLUMNS: &[(&str, Layout)] = &[
    ("VERSION", Layout::Number),
    ("POSITION", Layout::Number),
    ("EVENT", Layout::Text),
    ("TIME", Layout::Text),
    ("BY", Layout::OptionalText),
    ("READ TABLES", Layout::Text),
];
/// Width of the column of projections.
const NAME_WIDTH: usize = 11;

/// Arguments of `why`.
#[derive(Debug, Args)]
pub struct ShowWhy {
    /// Link, by its id (lnk_…), slug or short address; or account (acc_…).
    pub subject: SubjectName,
    /// Number of events to show, newest first.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub limit: u16,
    #[command(flatten)]
    pub options: Options,
}

pub(super) async fn run(command: ShowWhy) -> anyhow::Result<()> {
    let databases = command.options.databases().await?;
    let subject = names::find_subject(&databases.log, &command.subject).await;
    let subject = subject.context("cannot look up the link")?;
    let subject =
        subject.with_context(|| format!("{} does not exist: the log has none", command.subject))?;
    let why = why(&databases, WhyRequest::newest(subject, command.limit)).await?;
    let text = lines(&why, Screen::of_stdout()).join("\n");
    command.options.print(&why, &text)
}

fn lines(why: &WhyReport, screen: Screen) -> Vec<String> {
    let subject = &why.subject;
    let owner = why.account_id.to_string();
    let whose = if *subject == owner {
        String::new()
    } else {
        format!(" of {owner}")
    };
    let events = match (why.events_in_all, why.events.len()) {
        (0, _) => "no event of its own".to_owned(),
        (1, _) => "1 event".to_owned(),
        (all, shown) if usize::try_from(all) == Ok(shown) => format!("{} events", grouped(all)),
        (all, shown) => format!("{} events, the last {shown} shown", grouped(all)),
    };
    let head = grouped(why.head);
    let shard = why.shard;
    let mut lines = screen.wrapped(&format!(
        "{subject}{whose}: {events}; shard {shard} of the log ends at {head}"
    ));
    lines.push(String::new());
    if !why.events.is_empty() {
        lines.extend(table(screen, COLUMNS, why.events.iter().map(row)));
        lines.push(String::new());
    }
    let narrower = screen.indented(NAME_WIDTH);
    for it in &why.projections {
        let mut name = it.projection;
        for line in narrower.wrapped(&printable(&it.why)) {
            lines.push(format!("{name:NAME_WIDTH$}{line}"));
            name = "";
        }
    }
    lines
}

fn row(event: &ExplainedEvent) -> Vec<String> {
    let recorded = &event.recorded;
    let actor = recorded.metadata.actor.as_deref().map(printable);
    vec![
        recorded.version.to_string(),
        grouped(recorded.position),
        recorded.event_type.clone(),
        timestamp::format(recorded.recorded_at),
        actor.map_or_else(|| "-".to_owned(), Cow::into_owned),
        states(event),
    ]
}

/// Returns the state of an event: one word if the state is the same in all projections.
fn states(event: &ExplainedEvent) -> String {
    let mut states: Vec<_> = event.projections.values().collect();
    states.dedup();
    if let [one] = states.as_slice() {
        return one.name().to_owned();
    }
    let each = event.projections.iter();
    let each: Vec<String> = each
        .map(|(projection, state)| format!("{projection} {}", state.name()))
        .collect();
    each.join(", ")
}
