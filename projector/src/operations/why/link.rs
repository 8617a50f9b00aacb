//! What the read tables should show of a link, and why they do or don't.

use anyhow::Context as _;
use linkledger_core::{
    credits::CreditsEvent,
    envelope::RecordedEvent,
    event::Event,
    event_store::log,
    id::{EntryId, LinkId},
    link::{ExistingLink, LinkCreated, LinkEvent, LinkState},
    shard::Shard,
    timestamp,
};
use sqlx::PgPool;

use super::{
    EntryRow, LinkRow, ProjectionWhy, RedirectRow, Shows,
    moment::{Moment, Standing},
    rows::LINKS_COUNTED_MAX,
    stream::Stream,
    wording::{behind, named, unjudged},
};
use crate::{
    operations::figures::grouped,
    read_models::{Projection, redirects},
};

/// What is known of a link from its first moment on.
#[derive(Debug)]
pub(super) struct Creation {
    pub(super) link_id: LinkId,
    event: RecordedEvent,
    /// Nothing if this release can't read it.
    created: Option<LinkCreated>,
    /// What it cost.
    pub(super) charge: Option<RecordedEvent>,
}

impl Creation {
    pub(super) async fn read(pool: &PgPool, shard: Shard, link_id: LinkId) -> anyhow::Result<Self> {
        let beginnings = log::link_beginnings(pool, &[(shard, link_id)]).await;
        let beginning = beginnings.context("can't read the log")?.pop();
        let event = beginning.with_context(|| format!("the log lacks version 1 of {link_id}"))?;
        let next = log::read_at(pool, shard, &[event.position + 1]).await;
        let charge = next.context("can't read the log")?.pop();
        let created = match event.decode() {
            Ok(Event::Link(LinkEvent::Created(created))) => Some(created),
            _ => None,
        };
        Ok(Self {
            link_id,
            event,
            created,
            charge: charge.filter(|it| it.event_type == "CreditsCharged"),
        })
    }

    pub(super) fn slug_folded(&self) -> Option<String> {
        self.created.as_ref().map(|it| redirects::fold(&it.slug))
    }
}

/// The last of its events that a projection has applied, and the link after it.
struct Applied {
    event: RecordedEvent,
    state: LinkState,
}

pub(super) async fn explain(
    stream: &Stream<'_>,
    creation: &Creation,
    moment: &Moment,
    standing: &Standing,
) -> anyhow::Result<ProjectionWhy> {
    let last = stream.last_up_to(standing.applied_up_to()).await?;
    let applied = last.as_ref().and_then(|event| applied(creation, event));
    let is_unreadable = last.is_some() && (applied.is_none() || creation.created.is_none());
    let (shows, wanted, sentence) = match standing.projection {
        Projection::Credits => charge(creation, moment, standing),
        Projection::Links => link(creation, moment, applied.as_ref()),
        Projection::Redirects => redirect(creation, moment, applied.as_ref()),
    };
    let is_charge = standing.projection == Projection::Credits;
    // The charge stands right after the creation, and nothing changes it.
    let behind = if is_charge && shows.is_some() {
        String::new()
    } else {
        behind(stream, standing)
    };
    let unjudged = if is_unreadable {
        Some("this release can't read what it is to be".to_owned())
    } else {
        unjudged(stream, standing)
    };
    if let Some(unjudged) = unjudged {
        let why = format!("{sentence}{behind}; {unjudged}");
        return Ok(ProjectionWhy::new(standing, shows, None, why));
    }
    let agrees = shows == wanted;
    let why = if agrees {
        format!("{sentence}{behind}")
    } else {
        let wanted = match wanted {
            Some(row) => format!("the log says that it {}", in_words(&row)),
            None => "the log wants no row".to_owned(),
        };
        format!(
            "{sentence}, but {wanted}{behind}; run `projector verify {}`",
            standing.projection
        )
    };
    Ok(ProjectionWhy::new(standing, shows, Some(agrees), why))
}

fn applied(creation: &Creation, event: &RecordedEvent) -> Option<Applied> {
    let state = if event.version == 1 {
        ExistingLink::new(creation.created.clone()?).state
    } else {
        event.metadata.link.clone()?
    };
    let event = event.clone();
    Some(Applied { event, state })
}

/// What is shown, what should be, and the first in words.
type Told = (Option<Shows>, Option<Shows>, String);

fn link(creation: &Creation, moment: &Moment, applied: Option<&Applied>) -> Told {
    let wanted = applied.filter(|it| !it.state.deleted).and_then(|it| {
        Some(LinkRow {
            slug: creation.created.as_ref()?.slug.clone(),
            destination_url: it.state.destination_url.clone(),
            version: it.event.version,
            created_at: timestamp::format(creation.event.recorded_at),
        })
    });
    let shows = moment.link.clone();
    let sentence = match (&shows, applied) {
        (Some(row), Some(applied)) if Some(row) == wanted.as_ref() => {
            format!(
                "shows {} as of {}",
                row.destination_url,
                named(&applied.event)
            )
        }
        (Some(row), _) => in_words(&Shows::Link(row.clone())),
        (None, Some(applied)) if applied.state.deleted => {
            format!("does not show it because of {}", named(&applied.event))
        }
        (None, _) => "does not show it".to_owned(),
    };
    (shows.map(Shows::Link), wanted.map(Shows::Link), sentence)
}

fn redirect(creation: &Creation, moment: &Moment, applied: Option<&Applied>) -> Told {
    let wanted = applied.and_then(|it| {
        let created = creation.created.as_ref()?;
        let state = match &it.state {
            LinkState { deleted: true, .. } => "deleted",
            LinkState { disabled: true, .. } => "disabled",
            LinkState { .. } => "active",
        };
        Some(RedirectRow {
            slug_folded: redirects::fold(&created.slug),
            link_id: creation.link_id,
            account_id: created.account_id,
            destination_url: it.state.destination_url.clone(),
            state: state.to_owned(),
            account_is_stopped: moment.is_stopped,
        })
    });
    let shows = moment.redirect.clone();
    let sentence = match (&shows, applied) {
        (Some(row), _) if row.account_is_stopped => format!(
            "410, because links of {} are stopped (`account suspend --stop-redirects`)",
            row.account_id
        ),
        (Some(row), Some(applied)) if Some(row) == wanted.as_ref() => {
            let event = named(&applied.event);
            match row.state.as_str() {
                "active" => format!("302 to {} as of {event}", row.destination_url),
                state => format!("410, because it is {state} as of {event}"),
            }
        }
        (Some(row), _) => in_words(&Shows::Redirect(row.clone())),
        (None, _) => "has no row for it".to_owned(),
    };
    (
        shows.map(Shows::Redirect),
        wanted.map(Shows::Redirect),
        sentence,
    )
}

fn charge(creation: &Creation, moment: &Moment, standing: &Standing) -> Told {
    let charge = creation.charge.as_ref();
    let applied = charge.filter(|it| it.position <= standing.applied_up_to());
    let wanted = applied.and_then(|it| match it.decode() {
        Ok(Event::Credits(CreditsEvent::Charged(charged))) => Some(EntryRow {
            entry_id: EntryId::from_uuid(it.event_id.uuid()),
            kind: "charge".to_owned(),
            amount: -charged.amount,
            balance_after: charged.balance_after,
            version: it.version,
        }),
        _ => None,
    });
    let shows = moment.entry.clone();
    let sentence = match &shows {
        Some(row) => in_words(&Shows::Entry(row.clone())),
        None => "shows no charge for it".to_owned(),
    };
    (shows.map(Shows::Entry), wanted.map(Shows::Entry), sentence)
}

pub(super) fn in_words(row: &Shows) -> String {
    match row {
        Shows::Link(row) => format!(
            "shows {} under {} (version {})",
            row.destination_url, row.slug, row.version
        ),
        Shows::Redirect(row) => format!(
            "leads from {} to {} ({})",
            row.slug_folded, row.destination_url, row.state
        ),
        Shows::Entry(row) => format!(
            "shows a {} of {}, which left {} (version {} of the account, {})",
            row.kind,
            grouped(row.amount),
            grouped(row.balance_after),
            row.version,
            row.entry_id
        ),
        Shows::Balance(row) => {
            format!(
                "shows a balance of {} (version {})",
                row.balance, row.version
            )
        }
        Shows::Stopped {
            redirects_stopped: true,
        } => "410 for all its links, because they are stopped".to_owned(),
        Shows::Stopped {
            redirects_stopped: false,
        } => "follows its links".to_owned(),
        Shows::Links { links: 1 } => "shows 1 link".to_owned(),
        Shows::Links { links } if *links >= LINKS_COUNTED_MAX => {
            format!("shows {} links or more", grouped(*links))
        }
        Shows::Links { links } => format!("shows {links} links"),
    }
}
