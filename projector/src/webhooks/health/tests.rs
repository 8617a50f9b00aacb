use linkledger_core::id::{DeliveryId, WebhookId};
use time::macros::datetime;
use uuid::Uuid;

use super::*;

const NOW: OffsetDateTime = datetime!(2026-11-20 09:51:00 UTC);
const MINUTE: Duration = Duration::from_mins(1);

fn attempt(outcome: AttemptOutcome) -> Attempt {
    Attempt {
        outcome,
        ..Attempt::without_answer(NOW, "no answer".to_owned())
    }
}

fn ill(retry_after: Option<Duration>) -> Attempt {
    attempt(AttemptOutcome::Ill { retry_after })
}

fn report(attempt: Attempt) -> PageReport {
    let mut report = PageReport::default();
    match attempt.outcome {
        AttemptOutcome::Accepted => report.accepted_at = Some(attempt.at),
        AttemptOutcome::Ill { retry_after } => report.fall_ill(retry_after),
        AttemptOutcome::Refused | AttemptOutcome::Gone => {}
    }
    report.decisive = Some(attempt);
    report
}

fn after(before: &WebhookHealth, outcome: Attempt, now: OffsetDateTime) -> WebhookHealth {
    health_after(before, &report(outcome), now, 0.5).unwrap()
}

#[test]
fn failed_probe_keeps_the_beginning_of_the_illness() {
    let healthy = WebhookHealth::default();
    let first = after(&healthy, ill(None), NOW);
    assert_eq!((first.ill_since, first.probes), (Some(NOW), 0));
    assert_eq!(first.last_error.as_deref(), Some("no answer"));
    let later = NOW + MINUTE;
    let second = after(&first, ill(Some(60 * MINUTE)), later);
    assert_eq!((second.ill_since, second.probes), (Some(NOW), 1));
    assert_eq!(second.next_probe_at, Some(later + 60 * MINUTE));
}

#[test]
fn answer_that_accepts_or_refuses_ends_the_illness() {
    for outcome in [AttemptOutcome::Accepted, AttemptOutcome::Refused] {
        let sick = after(&WebhookHealth::default(), ill(None), NOW);
        let health = after(&sick, attempt(outcome), NOW + MINUTE);
        assert_eq!((health.ill_since, health.probes), (None, 0));
        assert_eq!(health.next_probe_at, None);
    }
}

#[test]
fn receiver_that_refuses_everything_is_given_up() {
    let refused = |before: &WebhookHealth, now| after(before, attempt_at(now), now);
    let hour = 60 * MINUTE;
    let mut health = refused(&WebhookHealth::default(), NOW);
    for hours in 1..120 {
        health = refused(&health, NOW + hours * hour);
        assert!(!is_given_up(&health, NOW + hours * hour));
    }
    let end = NOW + 120 * hour;
    assert!(is_given_up(&refused(&health, end), end));
    assert!(!is_given_up(&recovered(&health, end), end));
    let accepted = after(&health, attempt(AttemptOutcome::Accepted), end);
    assert!(!is_given_up(&accepted, end));
}

fn attempt_at(at: OffsetDateTime) -> Attempt {
    Attempt {
        at,
        ..attempt(AttemptOutcome::Refused)
    }
}

#[test]
fn operators_are_told_after_an_hour_and_after_a_day() {
    let health = |notified_hours| WebhookHealth {
        failing_since: Some(NOW),
        notified_hours,
        ..WebhookHealth::default()
    };
    let due =
        |notified_hours, minutes: u32| due_notice(&health(notified_hours), NOW + minutes * MINUTE);
    assert_eq!(due(0, 59), None);
    assert_eq!(due(0, 60), Some(1));
    assert_eq!(due(1, 23 * 60), None);
    assert_eq!(due(1, 24 * 60), Some(24));
    assert_eq!(due(24, 119 * 60), None);
    // A receiver that asked for a day without a probe.
    assert_eq!(due(0, 24 * 60), Some(24));
    assert_eq!(due_notice(&WebhookHealth::default(), NOW), None);
}

#[test]
fn time_without_a_dispatcher_is_no_reason_to_give_up() {
    let sick = after(&WebhookHealth::default(), ill(None), NOW);
    let week = NOW + 7 * 24 * 60 * MINUTE;
    assert!(!is_given_up(&after(&sick, ill(None), week), week));
}

#[test]
fn clock_that_was_ahead_delays_no_probe() {
    let ahead = NOW + 6 * 60 * MINUTE;
    let attempt = Attempt {
        at: ahead,
        ..ill(None)
    };
    let sick = after(&WebhookHealth::default(), attempt, ahead);
    assert_eq!(waits_until(&sick, NOW), None);
    let at_once = ahead + Duration::from_secs(1);
    assert_eq!(waits_until(&sick, at_once), sick.next_probe_at);
    assert_eq!(waits_until(&sick, ahead + MINUTE), None);
}

#[test]
fn success_among_many_is_not_stored() {
    let accepted = |before: &WebhookHealth, seconds| {
        let attempt = Attempt {
            at: NOW + Duration::from_secs(seconds),
            error: None,
            ..attempt(AttemptOutcome::Accepted)
        };
        after(before, attempt, NOW)
    };
    let none = WebhookHealth::default();
    let first = accepted(&none, 0);
    assert!(is_worth_storing(&none, &first));
    assert!(!is_worth_storing(&first, &accepted(&first, 9)));
    assert!(is_worth_storing(&first, &accepted(&first, 10)));
    let failed = after(&first, ill(None), NOW);
    assert!(is_worth_storing(&first, &failed));
    assert!(is_worth_storing(&failed, &accepted(&failed, 1)));
}

#[test]
fn attempt_during_an_illness_uses_up_no_retry() {
    let delivery = StoredDelivery {
        delivery_id: DeliveryId::from_uuid(Uuid::nil()),
        webhook_id: WebhookId::from_uuid(Uuid::nil()),
        event_id: EventId::from_uuid(Uuid::nil()),
        message_type: "webhook.test".to_owned(),
        shard: None,
        position: None,
        state: DeliveryState::Waiting,
        attempts: 7,
        next_attempt_at: Some(NOW),
        last_attempt_at: None,
        last_status: None,
        last_error: None,
        response: None,
        created_at: NOW,
    };
    let next = |attempt: &Attempt, was_ill| {
        let record = next_record(&delivery, attempt, was_ill, 0.5);
        (record.state, record.attempts, record.next_attempt_at)
    };
    let hour = Some(NOW + 60 * MINUTE);
    assert_eq!(next(&ill(None), true), (DeliveryState::Waiting, 7, hour));
    assert_eq!(next(&ill(None), false), (DeliveryState::Failed, 8, None));
    let refused = attempt(AttemptOutcome::Refused);
    assert_eq!(next(&refused, true), (DeliveryState::Failed, 8, None));
}

#[test]
fn success_of_a_retry_ends_the_illness() {
    let sick = after(&WebhookHealth::default(), ill(None), NOW);
    let health = recovered(&sick, NOW + MINUTE);
    assert_eq!((illness_of(&health), health.failing_since), (None, None));
    assert_eq!(health.last_success_at, Some(NOW + MINUTE));
}

#[test]
fn retries_end_after_the_eighth_attempt() {
    let refused = attempt(AttemptOutcome::Refused);
    let after = |attempts| after_attempts(&refused, attempts, 0.5);
    let first = (DeliveryState::Waiting, Some(NOW + Duration::from_secs(5)));
    assert_eq!(after(1), first);
    assert_eq!(after(7).0, DeliveryState::Waiting);
    assert_eq!(after(8), (DeliveryState::Failed, None));
    // A timeout counts like a refusal, and an ill receiver can ask for a longer delay.
    let asked = after_attempts(&ill(Some(MINUTE)), 1, 0.5);
    assert_eq!(asked, (DeliveryState::Waiting, Some(NOW + MINUTE)));
    assert_eq!(after_attempts(&ill(None), 8, 0.5).0, DeliveryState::Failed);
    let accepted = attempt(AttemptOutcome::Accepted);
    let delivered = (DeliveryState::Delivered, None);
    assert_eq!(after_attempts(&accepted, 3, 0.5), delivered);
}
