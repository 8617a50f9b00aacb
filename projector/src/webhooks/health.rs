//! Health of a receiver, and the records of messages, after attempts. No I/O.

use std::time::Duration;

use linkledger_core::{
    clock::random_bytes,
    id::EventId,
    shard::{Position, Shard},
    webhook::{AttemptOutcome, DeliveryState, Illness, failing_since, is_unreachable, retry_delay},
};
use linkledger_event_store::webhooks::{
    deliveries::{DeliveryRecord, StoredDelivery},
    rows::WebhookHealth,
};
use time::OffsetDateTime;

use super::{attempt::Attempt, page::Message};

/// Hours without a success after which operators get a notice, the most first.
const NOTICE_HOURS: [i16; 2] = [24, 1];
/// Difference of clocks that is no reason to doubt a stored time.
const CLOCK_DIFFERENCE_MAX: Duration = Duration::from_mins(1);
/// Age of the stored time of the last success at which a later one is stored, if nothing else changes.
const SUCCESS_STORED_AFTER: Duration = Duration::from_secs(10);
/// Delay of a delivery whose receiver was ill before the attempt, and still is.
const DELAY_WHILE_ILL: Duration = Duration::from_hours(1);

/// Results of the attempts of a page.
#[derive(Debug, Default)]
pub(super) struct PageReport {
    /// The last attempt, or the first one that shows that the receiver is ill.
    pub(super) decisive: Option<Attempt>,
    /// Time of the last accepted message.
    pub(super) accepted_at: Option<OffsetDateTime>,
    /// True if the receiver is ill.
    pub(super) is_ill: bool,
    /// Delay that an ill receiver asks for.
    pub(super) retry_after: Option<Duration>,
    /// True if the receiver wants no more messages.
    pub(super) is_gone: bool,
}

impl PageReport {
    /// Records that the receiver is ill; of several answers, the longest delay counts.
    pub(super) fn fall_ill(&mut self, retry_after: Option<Duration>) {
        self.is_ill = true;
        self.retry_after = self.retry_after.max(retry_after);
    }

    /// Keeps an attempt, unless an earlier one shows more.
    pub(super) fn note(&mut self, attempt: Attempt, is_finished: bool) {
        let is_bad = |it: &Attempt| {
            matches!(
                it.outcome,
                AttemptOutcome::Ill { .. } | AttemptOutcome::Gone
            )
        };
        if !is_finished || !self.decisive.as_ref().is_some_and(is_bad) {
            self.decisive = Some(attempt);
        }
    }
}

/// Returns a number from 0 to 1, by which delays vary.
pub(super) fn jitter() -> f64 {
    let [byte] = random_bytes();
    f64::from(byte) / f64::from(u8::MAX)
}

/// Returns the illness of a receiver; `None` if the receiver is healthy.
fn illness_of(health: &WebhookHealth) -> Option<Illness> {
    let since = health.ill_since?;
    Some(Illness {
        since,
        probes: u32::try_from(health.probes).unwrap_or_default(),
        next_probe_at: health.next_probe_at.unwrap_or(since),
    })
}

/// Returns the health with this illness, or without one.
fn with_illness(health: WebhookHealth, illness: Option<Illness>) -> WebhookHealth {
    WebhookHealth {
        ill_since: illness.map(|illness| illness.since),
        probes: illness.map_or(0, |it| i32::try_from(it.probes).unwrap_or(i32::MAX)),
        next_probe_at: illness.map(|illness| illness.next_probe_at),
        ..health
    }
}

/// Returns the time up to which an ill receiver gets no message of a page; `None` if there is no such time. A last
/// attempt in the future tells that the clock was ahead, so that the plan for the next one is void.
pub(super) fn waits_until(health: &WebhookHealth, now: OffsetDateTime) -> Option<OffsetDateTime> {
    let last = health.last_attempt_at;
    let was_ahead = last.is_some_and(|last| last > now + CLOCK_DIFFERENCE_MAX);
    let until = illness_of(health)?.next_probe_at;
    (until > now && !was_ahead).then_some(until)
}

/// Returns true if the webhook is to be disabled: nothing was accepted for too long.
pub(super) fn is_given_up(health: &WebhookHealth, now: OffsetDateTime) -> bool {
    let since = health.failing_since;
    since.is_some_and(|since| is_unreachable(since, now))
}

/// Returns the hours of the notice that operators are to get: nothing was accepted for so long, and they do not know.
pub(super) fn due_notice(health: &WebhookHealth, now: OffsetDateTime) -> Option<i16> {
    let failing = now - health.failing_since?;
    let is_passed = |hours: &i16| failing >= time::Duration::hours((*hours).into());
    let hours = NOTICE_HOURS.into_iter().find(is_passed)?;
    (hours > health.notified_hours).then_some(hours)
}

/// Returns the health after the attempts of a page; `None` if none was made. Any answer that does not show an illness
/// ends it; only an accepted message ends the time without a success.
pub(super) fn health_after(
    before: &WebhookHealth,
    report: &PageReport,
    now: OffsetDateTime,
    jitter: f64,
) -> Option<WebhookHealth> {
    let decisive = report.decisive.as_ref()?;
    let retry_after = report.retry_after;
    let illness = report.is_ill.then(|| match illness_of(before) {
        Some(illness) => illness.after_failed_probe(now, retry_after, jitter),
        None => Illness::begin(now, retry_after, jitter),
    });
    let failing_since = match report.accepted_at {
        Some(_) => None,
        None => Some(failing_since(
            before.failing_since,
            before.last_attempt_at,
            now,
        )),
    };
    let health = WebhookHealth {
        failing_since,
        last_success_at: report.accepted_at.or(before.last_success_at),
        last_attempt_at: Some(decisive.at),
        last_status: decisive.stored_status(),
        last_error: decisive.error.clone(),
        ..*before
    };
    Some(with_illness(health, illness))
}

/// Returns the health after a delivery with a schedule of its own was accepted: such a delivery never makes a receiver
/// ill, and ends an illness.
pub(super) fn recovered(before: &WebhookHealth, accepted_at: OffsetDateTime) -> WebhookHealth {
    let health = WebhookHealth {
        last_success_at: Some(accepted_at),
        last_attempt_at: Some(accepted_at),
        last_error: None,
        ..*before
    };
    without_failure(health)
}

/// Returns the health of a receiver for which no message waits.
pub(super) fn without_failure(health: WebhookHealth) -> WebhookHealth {
    let health = WebhookHealth {
        failing_since: None,
        ..health
    };
    with_illness(health, None)
}

/// Returns true if the health changes by more than the time of one more success among many.
pub(super) fn is_worth_storing(before: &WebhookHealth, after: &WebhookHealth) -> bool {
    let is_sound = |it: &WebhookHealth| it.last_error.is_none() && it.failing_since.is_none();
    let stored_at = before.last_success_at.zip(after.last_success_at);
    let is_recent = stored_at.is_some_and(|(before, after)| {
        let passed = after - before;
        !passed.is_negative() && passed < SUCCESS_STORED_AFTER
    });
    !(is_sound(before) && is_sound(after) && is_recent)
}

/// Returns the record of a message of a page after its first attempt.
pub(super) fn first_record(message: &Message, attempt: &Attempt, jitter: f64) -> DeliveryRecord {
    let of = MessageOfRecord {
        event_id: message.event_id,
        message_type: message.kind.name(),
        place: Some((message.shard, message.position)),
    };
    record(&of, 1, attempt, after_attempts(attempt, 1, jitter))
}

/// Returns the record of a delivery with a schedule of its own after one more attempt. An attempt that only shows that
/// the receiver is still ill uses up no retry.
pub(super) fn next_record(
    delivery: &StoredDelivery,
    attempt: &Attempt,
    was_ill: bool,
    jitter: f64,
) -> DeliveryRecord {
    let of = MessageOfRecord {
        event_id: delivery.event_id,
        message_type: &delivery.message_type,
        place: delivery.shard.zip(delivery.position),
    };
    if was_ill && matches!(attempt.outcome, AttemptOutcome::Ill { .. }) {
        let next = (DeliveryState::Waiting, Some(attempt.at + DELAY_WHILE_ILL));
        return record(&of, delivery.attempts, attempt, next);
    }
    let attempts = delivery.attempts.saturating_add(1);
    record(
        &of,
        attempts,
        attempt,
        after_attempts(attempt, attempts, jitter),
    )
}

/// Message that a record is of.
#[derive(Clone, Copy)]
struct MessageOfRecord<'a> {
    event_id: EventId,
    message_type: &'a str,
    place: Option<(Shard, Position)>,
}

fn record(
    message: &MessageOfRecord<'_>,
    attempts: i32,
    attempt: &Attempt,
    (state, next_attempt_at): (DeliveryState, Option<OffsetDateTime>),
) -> DeliveryRecord {
    let (shard, position) = message.place.unzip();
    DeliveryRecord {
        event_id: message.event_id,
        message_type: message.message_type.to_owned(),
        shard,
        position,
        state,
        attempts,
        next_attempt_at,
        last_attempt_at: Some(attempt.at),
        last_status: attempt.stored_status(),
        last_error: attempt.error.clone(),
        response: attempt.response.clone(),
    }
}

/// Returns the state of a message after its n-th attempt, and the time of the next one.
fn after_attempts(
    attempt: &Attempt,
    attempts: i32,
    jitter: f64,
) -> (DeliveryState, Option<OffsetDateTime>) {
    let retry_after = match attempt.outcome {
        AttemptOutcome::Accepted => return (DeliveryState::Delivered, None),
        AttemptOutcome::Ill { retry_after } => retry_after,
        AttemptOutcome::Refused | AttemptOutcome::Gone => None,
    };
    let attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
    match retry_delay(attempts, jitter) {
        Some(delay) => {
            let delay = delay.max(retry_after.unwrap_or_default());
            (DeliveryState::Waiting, Some(attempt.at + delay))
        }
        None => (DeliveryState::Failed, None),
    }
}

#[cfg(test)]
mod tests;
