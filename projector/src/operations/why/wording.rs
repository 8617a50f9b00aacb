//! Parts of every explanation: lag, and reasons for a missing comparison. Pure.

use linkledger_core::{envelope::RecordedEvent, timestamp};

use super::{snapshot::SubjectCheckpoint, stream::Stream};

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
pub(super) fn unjudged(stream: &Stream<'_>, checkpoint: &SubjectCheckpoint) -> Option<String> {
    if checkpoint.epoch != stream.log_epoch {
        return Some(format!(
            "was made from log epoch {}, and the log is of epoch {}: `projector rebuild {}`",
            checkpoint.epoch, stream.log_epoch, checkpoint.projection
        ));
    }
    checkpoint.has_skipped.then(|| {
        format!(
            "an operator skipped events of the account: `projector verify {}` compares the rest",
            checkpoint.projection
        )
    })
}

/// Returns the reason for which the newest event is not applied; empty if the event is applied.
pub(super) fn behind(stream: &Stream<'_>, checkpoint: &SubjectCheckpoint) -> String {
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
