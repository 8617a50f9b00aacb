//! `link disable|enable|show`.

use anyhow::Context as _;
use clap::{Args, Subcommand};
use linkledger_core::{
    clock::Clock,
    event::Subject,
    link::{DisabledBy, ExistingLink, LinkName},
    shard::Shard,
    timestamp,
};
use linkledger_event_store::log::{self, StreamPart};
use linkledger_http::admin_views::LinkView;
use linkledger_service::operator::parse_text;

use super::{disable, enable, find, short_base};
use crate::admin::{AdminCommandOptions, Keyed, print, print_done};

/// Commands on links.
#[derive(Debug, Subcommand)]
pub enum LinkSubcommand {
    /// Take a link out of service: the short address answers 410 Gone. The owner can still read the
    /// link. Safe to repeat.
    Disable(Keyed<LinkSubject>),
    /// Put a disabled link back into service. Safe to repeat.
    Enable(Keyed<LinkSubject>),
    /// Show a link with its account, according to the log.
    Show {
        /// Id (lnk_…), slug or short address of the link.
        link: LinkName,
        #[command(flatten)]
        options: AdminCommandOptions,
    },
}

/// Link to change, and the reason.
#[derive(Debug, Clone, Args)]
pub struct LinkSubject {
    /// Id (lnk_…), slug or short address of the link.
    #[arg(long)]
    pub link: LinkName,
    /// Reason, recorded in the event log.
    #[arg(long, value_parser = parse_text)]
    pub reason: String,
}

/// Runs a command on links.
pub(in crate::admin) async fn run(
    command: LinkSubcommand,
    clock: &dyn Clock,
) -> anyhow::Result<()> {
    match command {
        LinkSubcommand::Disable(command) => run_change(command, clock, false).await,
        LinkSubcommand::Enable(command) => run_change(command, clock, true).await,
        LinkSubcommand::Show { link, options } => show(&link, &options).await,
    }
}

async fn run_change(
    command: Keyed<LinkSubject>,
    clock: &dyn Clock,
    in_service: bool,
) -> anyhow::Result<()> {
    let pool = command.options().pool().await?;
    let request = command.request(&pool, clock);
    let LinkSubject { link, reason } = command.arguments();
    let changed = if in_service {
        enable(&request, link, reason).await?
    } else {
        disable(&request, link, reason).await?
    };
    let link = &changed.value;
    let service = match link.disabled_by() {
        Some(DisabledBy::Operator) => "disabled",
        Some(DisabledBy::Owner) => "disabled by its owner",
        None => "in service",
    };
    let note = changed.note();
    let (id, short_url) = (link.id(), link.short_url());
    let text = format!("Link {id} ({short_url}) is {service}{note}.");
    print_done(command.options(), &request, &changed, &text)
}

async fn show(name: &LinkName, options: &AdminCommandOptions) -> anyhow::Result<()> {
    let pool = options.pool().await?;
    let (account_id, link_id) = find(&pool, name).await?;
    let newest = StreamPart::newest(Shard::of(account_id), Subject::Link(link_id), 1);
    let newest = log::read_stream_backwards(&pool, &newest).await;
    let newest = newest.context("cannot read the events of the link")?.pop();
    let newest = newest.context("the log lacks the events of the link")?;
    let link = newest.link_after().context("cannot read the link")?;
    let short_base = short_base(&pool, account_id, link_id).await?;
    let shown = LinkView::of(&link, &short_base);
    print(options.json, &shown, &text(&link))
}

impl LinkSubcommand {
    /// Returns the options of the command.
    pub(in crate::admin) const fn options(&self) -> &AdminCommandOptions {
        match self {
            Self::Disable(command) | Self::Enable(command) => command.options(),
            Self::Show { options, .. } => options,
        }
    }
}

fn text(link: &ExistingLink) -> String {
    let state = &link.state;
    let service = match (state.deleted, state.disabled_by()) {
        (true, _) => "deleted",
        (false, Some(DisabledBy::Operator)) => "disabled by an operator",
        (false, Some(DisabledBy::Owner)) => "disabled by its owner",
        (false, None) => "in service",
    };
    [
        ("Link", link.link_id.to_string()),
        ("Account", link.account_id.to_string()),
        ("Slug", state.slug.clone()),
        ("State", service.to_owned()),
        ("Leads to", state.destination_url.as_str().to_owned()),
        ("Created", timestamp::format(state.created_at)),
    ]
    .map(|(label, value)| format!("{label:<8} {value}"))
    .join("\n")
}
