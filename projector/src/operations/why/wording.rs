//! Parts of the explanations: rows, lag, and reasons for a missing comparison. Pure.

use linkledger_core::{envelope::RecordedEvent, timestamp};

use super::{ShownRow, snapshot::SubjectCheckpoint, stream::SubjectStream};
use crate::{
    operations::figures::grouped,
    read_models::{
        description::WhyRows,
        links::lookup::{LINKS_COUNTED_MAX, LinkRow},
        redirects::lookup::RedirectRow,
    },
};

/// Description of the rows of a read model that has no [`WhyRows`].
pub(super) const NOT_SHOWN: &str = "has rows that are not shown here";

/// Describes a row of a read table.
pub(super) fn in_words(row: &ShownRow) -> String {
    match row {
        ShownRow::Link(row) => format!(
            "shows {} under {} (version {}{})",
            row.destination_url,
            row.slug,
            row.version,
            details_in_words(row)
        ),
        ShownRow::Redirect(row) => format!(
            "leads from {} to {} ({}{})",
            row.slug_folded,
            row.destination_url,
            row.state,
            expiry_in_words(row)
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

/// Describes the expiry of a redirect; empty if the link never expires.
pub(super) fn expiry_in_words(row: &RedirectRow) -> String {
    match (row.expires_at, &row.expired_url) {
        (None, _) => String::new(),
        (Some(at), None) => format!(", until {at}, then 410"),
        (Some(at), Some(url)) => format!(", until {at}, then 302 to {url}"),
    }
}

/// Describes the details of a link; empty if the link has none.
fn details_in_words(row: &LinkRow) -> String {
    let tags = row.tags.as_ref().map(|tags| tags.as_slice().join(", "));
    let expires_at = row.expires_at.map(|at| at.to_string());
    let details = [
        ("title", &row.title),
        ("external id", &row.external_id),
        ("tags", &tags),
        ("expires at", &expires_at),
        ("expired URL", &row.expired_url),
    ];
    let set = details
        .into_iter()
        .filter_map(|(name, value)| value.as_ref().map(|value| format!(", {name} `{value}`")));
    set.collect()
}

/// Returns `LinkDeleted at position 7 (version 4, 2026-…)`, for example.
pub(super) fn named(event: &RecordedEvent) -> String {
    format!(
        "{} at position {} (version {}, {})",
        event.event_type,
        event.position,
        event.version,
        timestamp::format(event.recorded_at)
    )
}

/// Returns the reason for which the row is not compared with the log, if any.
pub(super) fn unjudged(
    stream: &SubjectStream<'_>,
    checkpoint: &SubjectCheckpoint,
) -> Option<String> {
    if checkpoint.epoch != stream.log_epoch {
        return Some(format!(
            "was made from log epoch {}, and the log is of epoch {}: `projector rebuild {}`",
            checkpoint.epoch, stream.log_epoch, checkpoint.projection
        ));
    }
    if checkpoint.rows() == WhyRows::None {
        let projection = checkpoint.projection;
        return Some(format!("`projector verify {projection}` compares them"));
    }
    checkpoint.has_skipped.then(|| {
        format!(
            "an operator skipped events of the account: `projector verify {}` compares the rest",
            checkpoint.projection
        )
    })
}

/// Returns the reason for which the newest event is not applied; empty if the event is applied.
pub(super) fn behind(stream: &SubjectStream<'_>, checkpoint: &SubjectCheckpoint) -> String {
    let Some(last) = stream
        .last()
        .filter(|it| it.position > checkpoint.applied_up_to())
    else {
        return String::new();
    };
    let last = named(last);
    if let Some(parked) = &checkpoint.parked {
        return format!(
            "; {last} waits, because the account has been parked since {} for {} at position {}: \
             {} (`projector parked list`)",
            parked.parked_at, parked.event_type, parked.position, parked.detail
        );
    }
    let position = checkpoint.position;
    match checkpoint.paused_at {
        Some(at) => format!(
            "; {last} is not applied, because the projection has been paused at position \
             {position} since {}: `projector resume {}`",
            timestamp::format(at),
            checkpoint.projection
        ),
        None => format!(
            "; {last} is not applied yet, the checkpoint is at {position}: `projector status` says \
             how fast it moves"
        ),
    }
}
