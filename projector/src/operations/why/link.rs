//! Comparison of a link's rows with the log.

use anyhow::Context as _;
use linkledger_core::{
    credits::CreditsEvent,
    envelope::RecordedEvent,
    event::Event,
    event_store::log,
    id::{EntryId, LinkId},
    link::{LinkCreated, LinkEvent, LinkState},
    shard::Shard,
};
use sqlx::PgPool;
use time::Date;

use super::{
    DestinationState, ProjectionWhy, ShownRow, Stretch,
    destination::{on_day, state_after},
    snapshot::SubjectCheckpoint,
    stream::SubjectStream,
    wording::{NOT_SHOWN, behind, expiry_in_words, in_words, named, unjudged},
};
use crate::read_models::{
    credits::lookup::EntryRow,
    description::WhyRows,
    links::lookup::LinkRow,
    redirects::{lookup::RedirectRow, projection::state_name},
};

/// Link, as the log has it.
#[derive(Debug)]
pub struct LinkRecord {
    /// Id of the link.
    pub link_id: LinkId,
    /// First event of the link.
    pub creation: RecordedEvent,
    /// Decoded creation; `None` if this release cannot read the event.
    pub created: Option<LinkCreated>,
    /// Charge for the link.
    pub(super) charge: Option<RecordedEvent>,
    /// Destination after the newest event.
    pub destination: DestinationState,
    /// Destinations on the requested day, from morning to night.
    pub day: Option<Vec<Stretch>>,
}

impl LinkRecord {
    pub(super) async fn read(
        pool: &PgPool,
        shard: Shard,
        link_id: LinkId,
        newest: Option<&RecordedEvent>,
        on: Option<Date>,
    ) -> anyhow::Result<Self> {
        let beginnings = log::link_beginnings(pool, &[(shard, link_id)]).await;
        let beginning = beginnings.context("cannot read the log")?.pop();
        let creation =
            beginning.with_context(|| format!("the log lacks version 1 of {link_id}"))?;
        let next = log::read_at(pool, shard, &[creation.position + 1]).await;
        let charge = next.context("cannot read the log")?.pop();
        let created = match creation.decode() {
            Ok(Event::Link(LinkEvent::Created(created))) => Some(created),
            _ => None,
        };
        Ok(Self {
            link_id,
            created,
            charge: charge.filter(|it| it.event_type == "CreditsCharged"),
            destination: DestinationState::after(newest.unwrap_or(&creation)),
            day: match on {
                Some(date) => Some(on_day(pool, shard, link_id, date).await?),
                None => None,
            },
            creation,
        })
    }

    pub(super) fn slug_folded(&self) -> Option<String> {
        let slug = self.created.as_ref().map(|it| &it.slug);
        slug.map(|slug| slug.to_ascii_lowercase())
    }

    /// Returns the row of `links` that the log wants after an event.
    fn wanted_link((event, state): &Applied) -> Option<LinkRow> {
        (!state.deleted).then(|| LinkRow::wanted(state, event.version))
    }

    /// Returns the row of `redirects` that the log wants after an event.
    fn wanted_redirect(&self, (event, state): &Applied, account_is_stopped: bool) -> RedirectRow {
        RedirectRow {
            slug_folded: state.slug_folded(),
            link_id: self.link_id,
            account_id: event.account_id,
            destination_url: state.destination_url.clone(),
            state: state_name(state).to_owned(),
            expires_at: state.details.expires_at,
            expired_url: state.details.expired_url.clone(),
            account_is_stopped,
        }
    }

    /// Returns the row of `credit_entries` that the log wants at the checkpoint.
    fn wanted_entry(&self, checkpoint: &SubjectCheckpoint) -> Option<EntryRow> {
        let charge = self.charge.as_ref();
        let event = charge.filter(|it| it.position <= checkpoint.applied_up_to())?;
        match event.decode() {
            Ok(Event::Credits(CreditsEvent::Charged(charged))) => Some(EntryRow {
                entry_id: EntryId::from_uuid(event.event_id.uuid()),
                kind: "charge".to_owned(),
                amount: -charged.amount,
                balance_after: charged.balance_after,
                version: event.version,
            }),
            _ => None,
        }
    }

    /// Returns the row that the log wants.
    fn wanted(
        &self,
        checkpoint: &SubjectCheckpoint,
        applied: Option<&Applied>,
    ) -> Option<ShownRow> {
        match checkpoint.rows() {
            WhyRows::None => None,
            WhyRows::Credits => self.wanted_entry(checkpoint).map(ShownRow::Entry),
            WhyRows::Links => Self::wanted_link(applied?).map(ShownRow::Link),
            WhyRows::Redirects => {
                // Copies the flag from the row: the report of the account compares the flag.
                let account_is_stopped = matches!(
                    &checkpoint.shows,
                    Some(ShownRow::Redirect(row)) if row.account_is_stopped
                );
                let row = self.wanted_redirect(applied?, account_is_stopped);
                Some(ShownRow::Redirect(row))
            }
        }
    }
}

/// Last applied event of a link, and state of the link after the event.
type Applied = (RecordedEvent, LinkState);

pub(super) async fn explain(
    stream: &SubjectStream<'_>,
    link: &LinkRecord,
    checkpoint: &SubjectCheckpoint,
) -> anyhow::Result<ProjectionWhy> {
    let last = stream.last_up_to(checkpoint.applied_up_to()).await?;
    let is_applied = last.is_some();
    let applied = last.and_then(|event| state_after(&event).map(|state| (event, state)));
    let is_unreadable = is_applied && applied.is_none();
    let wanted = link.wanted(checkpoint, applied.as_ref());
    let agrees = checkpoint.shows == wanted;
    let sentence = sentence(checkpoint, agrees, applied.as_ref());
    let behind = match &checkpoint.shows {
        // The charge follows right after the creation and never changes.
        Some(ShownRow::Entry(_)) => String::new(),
        _ => behind(stream, checkpoint),
    };
    let unjudged = if is_unreadable {
        Some("this release cannot read the event that decides the row".to_owned())
    } else {
        unjudged(stream, checkpoint)
    };
    let (agrees, why) = match (unjudged, wanted) {
        (Some(unjudged), _) => (None, format!("{sentence}{behind}; {unjudged}")),
        (None, _) if agrees => (Some(true), format!("{sentence}{behind}")),
        (None, wanted) => {
            let wanted = match wanted {
                Some(row) => format!("the log says that it {}", in_words(&row)),
                None => "according to the log there is no row".to_owned(),
            };
            let projection = checkpoint.projection;
            let why =
                format!("{sentence}, but {wanted}{behind}; run `projector verify {projection}`");
            (Some(false), why)
        }
    };
    Ok(ProjectionWhy::new(checkpoint, agrees, why))
}

/// Describes the row; `agrees` is true if the log wants the row as it is.
fn sentence(checkpoint: &SubjectCheckpoint, agrees: bool, applied: Option<&Applied>) -> String {
    let event = applied.map(|(event, _)| named(event)).unwrap_or_default();
    match &checkpoint.shows {
        Some(ShownRow::Redirect(row)) if row.account_is_stopped => format!(
            "410, because links of {} are stopped (`account suspend --stop-redirects`)",
            row.account_id
        ),
        Some(ShownRow::Redirect(row)) if agrees => match row.state.as_str() {
            "active" => format!(
                "302 to {} as of {event}{}",
                row.destination_url,
                expiry_in_words(row)
            ),
            state => format!("410, because it is {state} as of {event}"),
        },
        Some(ShownRow::Link(row)) if agrees => {
            format!("shows {} as of {event}", row.destination_url)
        }
        Some(row) => in_words(row),
        None => match checkpoint.rows() {
            WhyRows::None => NOT_SHOWN.to_owned(),
            WhyRows::Links if applied.is_some_and(|(_, state)| state.deleted) => {
                format!("does not show it because of {event}")
            }
            WhyRows::Links => "does not show it".to_owned(),
            WhyRows::Redirects => "has no row for it".to_owned(),
            WhyRows::Credits => "shows no charge for it".to_owned(),
        },
    }
}
