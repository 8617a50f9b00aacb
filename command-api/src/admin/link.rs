//! `link disable`, `link enable`.

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use linkledger_core::{
    clock::Clock,
    envelope::NewEvent,
    id::{AccountId, LinkId},
    link::{DisabledBy, ExistingLink, LinkName},
};
use linkledger_event_store::{links, names};
use linkledger_service::operator::parse_text;
use serde::Serialize;
use sqlx::PgPool;

use super::{
    WithOptions,
    operator::{self, Decision},
    print,
};

/// Commands on links.
#[derive(Debug, Subcommand)]
pub enum LinkSubcommand {
    /// Take a link out of service: the short address answers 410 Gone. The owner can still read the
    /// link. Safe to repeat.
    Disable(WithOptions<LinkSubject>),
    /// Put a disabled link back into service. Safe to repeat.
    Enable(WithOptions<LinkSubject>),
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

/// State of a link after a command.
#[derive(Debug, Clone, Serialize)]
pub struct ChangedLink {
    /// Link id.
    pub link_id: LinkId,
    /// Owner of the link.
    pub account_id: AccountId,
    /// Slug, in the case chosen at the creation.
    pub slug: String,
    /// Role that the link is disabled by; null if the link is in service.
    pub disabled_by: Option<DisabledBy>,
    /// True if the command has changed the link; false if the link was in this state before.
    pub changed: bool,
}

pub(super) async fn run(command: LinkSubcommand, clock: &dyn Clock) -> anyhow::Result<()> {
    let (WithOptions { request, options }, in_service) = match command {
        LinkSubcommand::Disable(command) => (command, false),
        LinkSubcommand::Enable(command) => (command, true),
    };
    let link = change(&options.pool().await?, clock, &request, in_service).await?;
    let state = match link.disabled_by {
        Some(DisabledBy::Operator) => "disabled",
        Some(DisabledBy::Owner) => "disabled by its owner",
        None => "in service",
    };
    let before = if link.changed { "" } else { " (unchanged)" };
    let text = format!(
        "Link {} (slug {}) is {state}{before}.",
        link.link_id, link.slug
    );
    print(options.json, &link, &text)
}

/// Puts a link back into service, or takes the link out of service.
///
/// # Errors
/// Returns an error if the link does not exist, or the database fails.
pub async fn change(
    pool: &PgPool,
    clock: &dyn Clock,
    subject: &LinkSubject,
    in_service: bool,
) -> anyhow::Result<ChangedLink> {
    let name = &subject.link;
    let link_id = names::find_link(pool, name).await;
    let link_id = link_id.context("cannot look up the link")?;
    let link_id = link_id.with_context(|| format!("there is no link {name}"))?;
    let owner = links::find_owner(pool, link_id).await;
    let Some(account_id) = owner.context("cannot look up the link")? else {
        bail!("there is no link {link_id}");
    };
    let mut decision = operator::begin(pool, clock, account_id).await?;
    let mut links = links::load_in_tx(&mut decision.tx, &[(account_id, link_id)]).await?;
    let Some(settled) = links.remove(&(account_id, link_id)) else {
        bail!("there is no link {link_id}");
    };
    let link = settled.link;
    let decided = if in_service {
        link.decide_enable(&subject.reason)
    } else {
        link.decide_disable(&subject.reason)
    };
    let Some(event) = decided.with_context(|| format!("link {link_id} is deleted"))? else {
        return Ok(ChangedLink::of(&link, false));
    };
    let link = link.apply(&event);
    let event = NewEvent::of_link(
        decision.event_id(),
        decision.now,
        event,
        &link,
        Decision::metadata(),
    );
    let credits = decision.credits;
    decision.append(event, credits, "retry the command").await?;
    Ok(ChangedLink::of(&link, true))
}

impl ChangedLink {
    fn of(link: &ExistingLink, changed: bool) -> Self {
        Self {
            link_id: link.link_id,
            account_id: link.account_id,
            slug: link.state.slug.clone(),
            disabled_by: link.state.disabled_by(),
            changed,
        }
    }
}
