//! What has an effect on every sentence: what waits, and what is not judged. Pure.

use linkledger_core::{envelope::RecordedEvent, timestamp};

use super::{moment::Standing, stream::Stream};

/// `LinkDeleted at position 7 (version 4, 2026-…)`
pub(super) fn named(event: &RecordedEvent) -> String {
    format!(
        "{} at position {} (version {}, {})",
        event.event_type,
        event.position,
        event.version,
        timestamp::format(event.recorded_at)
    )
}

/// Why the sentence is not judged, if it is not.
pub(super) fn unjudged(stream: &Stream<'_>, standing: &Standing) -> Option<String> {
    if standing.epoch != stream.log_epoch {
        return Some(format!(
            "was made from log epoch {}, and the log is of epoch {}: `projector rebuild {}`",
            standing.epoch, stream.log_epoch, standing.projection
        ));
    }
    standing.has_skipped.then(|| {
        format!(
            "an operator has left out events of the account: `projector verify {}` compares the rest",
            standing.projection
        )
    })
}

/// Why it does not show the newest event; empty if it does.
pub(super) fn behind(stream: &Stream<'_>, standing: &Standing) -> String {
    let Some(last) = stream
        .last()
        .filter(|it| it.position > standing.applied_up_to())
    else {
        return String::new();
    };
    let last = named(last);
    if let Some(parked) = &standing.parked {
        return format!(
            "; {last} waits, because the account has been parked since {} for {} at position {}: \
             {} (`projector parked list`)",
            parked.parked_at, parked.event_type, parked.position, parked.detail
        );
    }
    let position = standing.position;
    match standing.paused_at {
        Some(at) => format!(
            "; {last} is not applied, because the projection has been paused at position \
             {position} since {}: `projector resume {}`",
            timestamp::format(at),
            standing.projection
        ),
        None => format!(
            "; {last} is not applied yet, the checkpoint is at {position}: `projector status` says \
             how fast it moves"
        ),
    }
}
