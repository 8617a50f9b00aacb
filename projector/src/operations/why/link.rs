//! Comparison of a link's rows with the log.

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
    EntryRow, LinkRow, ProjectionWhy, RedirectRow, ShownRow,
    rows::LINKS_COUNTED_MAX,
    snapshot::{RowsSnapshot, SubjectCheckpoint},
    stream::Stream,
    wording::{behind, named, unjudged},
};
use crate::{
    operations::figures::grouped,
    read_models::{Projection, redirects},
};

/// Creation of a link.
#[derive(Debug)]
pub(super) struct Creation {
    pub(super) link_id: LinkId,
    event: RecordedEvent,
    /// Decoded creation; `None` if this release cannot read the event.
    created: Option<LinkCreated>,
    /// Charge for the link.
    pub(super) charge: Option<RecordedEvent>,
}

impl Creation {
    pub(super) async fn read(pool: &PgPool, shard: Shard, link_id: LinkId) -> anyhow::Result<Self> {
        let beginnings = log::link_beginnings(pool, &[(shard, link_id)]).await;
        let beginning = beginnings.context("cannot read the log")?.pop();
        let event = beginning.with_context(|| format!("the log lacks version 1 of {link_id}"))?;
        let next = log::read_at(pool, shard, &[event.position + 1]).await;
        let charge = next.context("cannot read the log")?.pop();
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

/// Last applied event of a link, and state of the link after the event.
struct Applied {
    event: RecordedEvent,
    state: LinkState,
}

pub(super) async fn explain(
    stream: &Stream<'_>,
    creation: &Creation,
    snapshot: &RowsSnapshot,
    checkpoint: &SubjectCheckpoint,
) -> anyhow::Result<ProjectionWhy> {
    let last = stream.last_up_to(checkpoint.applied_up_to()).await?;
    let applied = last.as_ref().and_then(|event| applied(creation, event));
    let is_unreadable = last.is_some() && (applied.is_none() || creation.created.is_none());
    let (shows, wanted, sentence) = match checkpoint.projection {
        Projection::Credits => charge(creation, snapshot, checkpoint),
        Projection::Links => link(creation, snapshot, applied.as_ref()),
        Projection::Redirects => redirect(creation, snapshot, applied.as_ref()),
    };
    let is_charge = checkpoint.projection == Projection::Credits;
    // The charge follows right after the creation and never changes.
    let behind = if is_charge && shows.is_some() {
        String::new()
    } else {
        behind(stream, checkpoint)
    };
    let unjudged = if is_unreadable {
        Some("this release cannot read the event that decides the row".to_owned())
    } else {
        unjudged(stream, checkpoint)
    };
    if let Some(unjudged) = unjudged {
        let why = format!("{sentence}{behind}; {unjudged}");
        return Ok(ProjectionWhy::new(checkpoint, shows, None, why));
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
            checkpoint.projection
        )
    };
    Ok(ProjectionWhy::new(checkpoint, shows, Some(agrees), why))
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

/// Row, row that the log wants, and sentence about the row.
type RowAndSentence = (Option<ShownRow>, Option<ShownRow>, String);

fn link(creation: &Creation, snapshot: &RowsSnapshot, applied: Option<&Applied>) -> RowAndSentence {
    let wanted = applied.filter(|it| !it.state.deleted).and_then(|applied| {
        Some(LinkRow {
            slug: creation.created.as_ref()?.slug.clone(),
            destination_url: applied.state.destination_url.clone(),
            version: applied.event.version,
            created_at: timestamp::format(creation.event.recorded_at),
        })
    });
    let shows = snapshot.link.clone();
    let sentence = match (&shows, applied) {
        (Some(row), Some(applied)) if Some(row) == wanted.as_ref() => {
            format!(
                "shows {} as of {}",
                row.destination_url,
                named(&applied.event)
            )
        }
        (Some(row), _) => in_words(&ShownRow::Link(row.clone())),
        (None, Some(applied)) if applied.state.deleted => {
            format!("does not show it because of {}", named(&applied.event))
        }
        (None, _) => "does not show it".to_owned(),
    };
    (
        shows.map(ShownRow::Link),
        wanted.map(ShownRow::Link),
        sentence,
    )
}

fn redirect(
    creation: &Creation,
    snapshot: &RowsSnapshot,
    applied: Option<&Applied>,
) -> RowAndSentence {
    let wanted = applied.and_then(|applied| {
        let created = creation.created.as_ref()?;
        let state = match &applied.state {
            LinkState { deleted: true, .. } => "deleted",
            LinkState { disabled: true, .. } => "disabled",
            LinkState { .. } => "active",
        };
        Some(RedirectRow {
            slug_folded: redirects::fold(&created.slug),
            link_id: creation.link_id,
            account_id: created.account_id,
            destination_url: applied.state.destination_url.clone(),
            state: state.to_owned(),
            account_is_stopped: snapshot.is_stopped,
        })
    });
    let shows = snapshot.redirect.clone();
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
        (Some(row), _) => in_words(&ShownRow::Redirect(row.clone())),
        (None, _) => "has no row for it".to_owned(),
    };
    (
        shows.map(ShownRow::Redirect),
        wanted.map(ShownRow::Redirect),
        sentence,
    )
}

fn charge(
    creation: &Creation,
    snapshot: &RowsSnapshot,
    checkpoint: &SubjectCheckpoint,
) -> RowAndSentence {
    let charge = creation.charge.as_ref();
    let applied = charge.filter(|it| it.position <= checkpoint.applied_up_to());
    let wanted = applied.and_then(|event| match event.decode() {
        Ok(Event::Credits(CreditsEvent::Charged(charged))) => Some(EntryRow {
            entry_id: EntryId::from_uuid(event.event_id.uuid()),
            kind: "charge".to_owned(),
            amount: -charged.amount,
            balance_after: charged.balance_after,
            version: event.version,
        }),
        _ => None,
    });
    let shows = snapshot.entry.clone();
    let sentence = match &shows {
        Some(row) => in_words(&ShownRow::Entry(row.clone())),
        None => "shows no charge for it".to_owned(),
    };
    (
        shows.map(ShownRow::Entry),
        wanted.map(ShownRow::Entry),
        sentence,
    )
}

pub(super) fn in_words(row: &ShownRow) -> String {
    match row {
        ShownRow::Link(row) => format!(
            "shows {} under {} (version {})",
            row.destination_url, row.slug, row.version
        ),
        ShownRow::Redirect(row) => format!(
            "leads from {} to {} ({})",
            row.slug_folded, row.destination_url, row.state
        ),
        ShownRow::Entry(row) => format!(
            "shows a {} of {}, which left {} (version {} of the account, {})",
            row.kind,
            grouped(row.amount),
            grouped(row.balance_after),
            row.version,
            row.entry_id
        ),
        ShownRow::Balance(row) => {
            format!(
                "shows a balance of {} (version {})",
                row.balance, row.version
            )
        }
        ShownRow::Stopped {
            redirects_stopped: true,
        } => "410 for all its links, because they are stopped".to_owned(),
        ShownRow::Stopped {
            redirects_stopped: false,
        } => "follows its links".to_owned(),
        ShownRow::Links { links: 1 } => "shows 1 link".to_owned(),
        ShownRow::Links { links } if *links >= LINKS_COUNTED_MAX => {
            format!("shows {} links or more", grouped(*links))
        }
        ShownRow::Links { links } => format!("shows {links} links"),
    }
}
