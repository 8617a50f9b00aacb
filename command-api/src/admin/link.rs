//! `link disable`, `link enable`.

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use linkledger_core::{
    clock::Clock,
    envelope::NewEvent,
    event_store::links,
    id::{AccountId, LinkId},
    link::{ChangeLinkError, ExistingLink, LinkEvent, Slug},
    operator::parse_text,
};
use serde::Serialize;
use sqlx::PgPool;

use super::{
    Options,
    operator::{self, Decision},
    print,
};

/// What may be done with links.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Take a link out of service: its short address answers 410 Gone. Its owner still sees it.
    /// Safe to repeat.
    Disable {
        #[command(flatten)]
        subject: Subject,
        #[command(flatten)]
        options: Options,
    },
    /// Put a disabled link back into service. Safe to repeat.
    Enable {
        #[command(flatten)]
        subject: Subject,
        #[command(flatten)]
        options: Options,
    },
}

/// Which link, and why.
#[derive(Debug, Clone, Args)]
pub struct Subject {
    #[command(flatten)]
    pub link: LinkName,
    /// Why; it stands in the log.
    #[arg(long, value_parser = parse_text)]
    pub reason: String,
}

/// A link, by one of its names.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub struct LinkName {
    /// The link: lnk_….
    #[arg(long)]
    pub link: Option<LinkId>,
    /// Its slug: the last part of its short address, in any case.
    #[arg(long, value_parser = parse_slug)]
    pub slug: Option<Slug>,
}

/// A link as it is after the command.
#[derive(Debug, Clone, Serialize)]
pub struct ChangedLink {
    /// The link.
    pub link_id: LinkId,
    /// Its owner.
    pub account_id: AccountId,
    /// As given.
    pub slug: String,
    /// Whether it is out of service.
    pub disabled: bool,
    /// Whether the command has changed it; otherwise it was so before.
    pub changed: bool,
}

pub(super) async fn run(command: Command, clock: &dyn Clock) -> anyhow::Result<()> {
    let (link, options) = match command {
        Command::Disable { subject, options } => {
            let pool = options.pool().await?;
            (disable(&pool, clock, &subject).await?, options)
        }
        Command::Enable { subject, options } => {
            let pool = options.pool().await?;
            (enable(&pool, clock, &subject).await?, options)
        }
    };
    let state = if link.disabled {
        "disabled"
    } else {
        "in service"
    };
    let before = if link.changed {
        ""
    } else {
        " (it was so before)"
    };
    let text = format!(
        "Link {} (slug {}) is {state}{before}.",
        link.link_id, link.slug
    );
    print(&options, &link, &text)
}

/// Takes a link out of service.
///
/// # Errors
/// When there is no such link, or the database does not answer.
pub async fn disable(
    pool: &PgPool,
    clock: &dyn Clock,
    subject: &Subject,
) -> anyhow::Result<ChangedLink> {
    change(pool, clock, &subject.link, |link| {
        Ok(link
            .decide_disable(&subject.reason)?
            .map(LinkEvent::Disabled))
    })
    .await
}

/// Puts a link back into service.
///
/// # Errors
/// When there is no such link, or the database does not answer.
pub async fn enable(
    pool: &PgPool,
    clock: &dyn Clock,
    subject: &Subject,
) -> anyhow::Result<ChangedLink> {
    change(pool, clock, &subject.link, |link| {
        Ok(link.decide_enable(&subject.reason)?.map(LinkEvent::Enabled))
    })
    .await
}

async fn change(
    pool: &PgPool,
    clock: &dyn Clock,
    name: &LinkName,
    decide: impl FnOnce(&ExistingLink) -> Result<Option<LinkEvent>, ChangeLinkError>,
) -> anyhow::Result<ChangedLink> {
    let link_id = find(pool, name).await?;
    let owner = links::find_owner(pool, link_id).await;
    let Some(account_id) = owner.context("can't look the link up")? else {
        bail!("there is no link {link_id}");
    };
    let mut decision = operator::begin(pool, clock, account_id).await?;
    let mut found = links::load_in_tx(&mut decision.tx, &[(account_id, link_id)]).await?;
    let Some(settled) = found.remove(&(account_id, link_id)) else {
        bail!("there is no link {link_id}");
    };
    let link = settled.link;
    let Some(event) = decide(&link).with_context(|| format!("link {link_id} is deleted"))? else {
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
    decision
        .append(event, credits, "repeat the command")
        .await?;
    Ok(ChangedLink::of(&link, true))
}

async fn find(pool: &PgPool, name: &LinkName) -> anyhow::Result<LinkId> {
    match (name.link, &name.slug) {
        (Some(link_id), _) => Ok(link_id),
        (None, Some(slug)) => {
            let found = links::find_by_slug(pool, slug).await;
            let found = found.context("can't look the slug up")?;
            found.with_context(|| format!("no link has the slug {slug}"))
        }
        (None, None) => bail!("name the link: --link or --slug"),
    }
}

impl ChangedLink {
    fn of(link: &ExistingLink, changed: bool) -> Self {
        Self {
            link_id: link.created.link_id,
            account_id: link.created.account_id,
            slug: link.created.slug.clone(),
            disabled: link.state.disabled,
            changed,
        }
    }
}

fn parse_slug(text: &str) -> Result<Slug, String> {
    Slug::parse_stored(text).map_err(|code| code.detail().to_owned())
}
