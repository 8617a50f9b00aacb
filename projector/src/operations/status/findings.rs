//! Findings of a status report: sentences that tell an operator what to do. Pure.

use super::{
    StatusReport,
    clicks::ClickStatus,
    operations::PausedBy,
    projection::{ProjectionShard, ProjectionState, ProjectionStatus},
    relay::PublishingStatus,
    snapshot::{AGE_MAX_S, HeldSnapshots},
};
use linkledger_core::timestamp;

use crate::operations::{
    audit::RecordedCommand,
    number_format::{duration, grouped},
    verify::outcome::LastVerification,
};

/// Lag of the statistics of clicks, in seconds, from which on an operator should look; an alert has the same limit.
const AGGREGATION_LAG_MAX_S: f64 = 120.0;

pub(super) fn of(status: &StatusReport) -> Vec<String> {
    let mut findings = Vec::new();
    for projection in &status.projections {
        add_projection(&mut findings, projection, status.log_epoch);
    }
    for operation in status.operations.iter().filter(|it| !it.is_running) {
        findings.push(format!(
            "`{}` by {} died before its end: run the command again",
            operation.title(),
            operation.operator
        ));
    }
    findings.extend(status.failed_operations.iter().map(of_failed));
    add_relay(&mut findings, &status.relay);
    findings.extend(match &status.clicks {
        Ok(clicks) => of_clicks(clicks),
        Err(error) => Some(format!(
            "the state of the aggregation of clicks cannot be read: {error}"
        )),
    });
    findings.extend(of_snapshots(&status.snapshots));
    findings
}

fn add_projection(findings: &mut Vec<String>, projection: &ProjectionStatus, log_epoch: i32) {
    let name = projection.projection;
    add_refused(findings, projection, log_epoch);
    add_unattended(findings, projection);
    if let Some(since) = &projection.paused_at {
        let by = after_space(projection.paused_by.as_ref());
        findings.push(format!(
            "{name} has been paused since {since}{by}: `projector resume {name}`"
        ));
    }
    findings.extend(of_verification(name, projection.verification.as_ref()));
    if let Some(since) = &projection.unverified_since {
        findings.push(format!(
            "{name} was not verified since the upgrade of its tables at {since}: once no old projector \
             runs, `projector verify {name} --repair`"
        ));
    }
    match projection.parked_accounts {
        0 => {}
        1 => findings.push(format!(
            "an account is parked in {name}: `projector parked list`"
        )),
        accounts => findings.push(format!(
            "{accounts} accounts are parked in {name}: `projector parked list`"
        )),
    }
}

fn add_refused(findings: &mut Vec<String>, projection: &ProjectionStatus, log_epoch: i32) {
    let name = projection.projection;
    let refused = shards_that_are(projection, ProjectionState::Refused);
    let is_damaged = |it: &ProjectionShard| it.epoch == log_epoch && it.position < it.head;
    let (damaged, foreign): (Vec<_>, Vec<_>) = refused.into_iter().partition(|it| is_damaged(it));
    if let Some(first) = damaged.first() {
        findings.push(format!(
            "{name} waits for the event after position {} of shard {}{}, which cannot be read: the log is damaged: \
             `command-api log verify` (docs/runbooks.md#log-unsound)",
            first.position,
            first.shard,
            and_others(damaged.len() - 1)
        ));
    }
    if let Some(first) = foreign.first() {
        let why = if first.epoch == log_epoch {
            let (position, head) = (first.position, first.head);
            format!("is at position {position} of a log that ends at {head}")
        } else {
            format!(
                "is of log epoch {}, and the log is of epoch {log_epoch}",
                first.epoch
            )
        };
        findings.push(format!(
            "{name} {why}, in shard {}{}: it was not made from this log: `projector rebuild --all` \
             (docs/operations.md, \"The log was restored\")",
            first.shard,
            and_others(foreign.len() - 1)
        ));
    }
}

fn add_unattended(findings: &mut Vec<String>, projection: &ProjectionStatus) {
    let unattended = shards_that_are(projection, ProjectionState::Unattended);
    let Some(first) = unattended.first() else {
        return;
    };
    let last = match (&first.owner, first.renewed_seconds_ago) {
        (Some(owner), Some(seen_s)) => {
            format!("`{owner}` renewed its claim {} ago", duration(seen_s))
        }
        _ => "no projector has ever run".to_owned(),
    };
    findings.push(format!(
        "no projector owns {} in shard {}{}: {last}",
        projection.projection,
        first.shard,
        and_others(unattended.len() - 1)
    ));
}

fn of_verification(projection: &str, last: Option<&LastVerification>) -> Option<String> {
    let LastVerification {
        verified_at,
        mismatches,
    } = last?;
    let verified_at = timestamp::format(*verified_at);
    let are_wrong = match mismatches {
        0 => return None,
        1 => format!("1 row of {projection} is wrong"),
        count => format!("{} rows of {projection} are wrong", grouped(*count)),
    };
    Some(format!(
        "{are_wrong}, as verified at {verified_at}: `projector verify \
         {projection} --repair`"
    ))
}

fn of_failed(it: &RecordedCommand) -> String {
    let (title, at) = (it.title(), it.finished_at.map(timestamp::format));
    let (at, detail) = (at.unwrap_or_default(), it.detail.as_deref());
    let why = detail.unwrap_or("the reason is unknown");
    format!("the last `{title}` failed at {at}: {why}")
}

fn shards_that_are(projection: &ProjectionStatus, state: ProjectionState) -> Vec<&ProjectionShard> {
    let shards = projection.shards.iter();
    shards.filter(|it| it.state == state).collect()
}

fn after_space(by: Option<&PausedBy>) -> String {
    by.map(|by| format!(" {by}")).unwrap_or_default()
}

fn and_others(others: usize) -> String {
    match others {
        0 => String::new(),
        others => format!(" and {others} more"),
    }
}

fn add_relay(findings: &mut Vec<String>, relay: &PublishingStatus) {
    if relay.is_paused {
        let by = after_space(relay.paused_by.as_ref());
        findings.push(format!(
            "the relay is paused{by}: `command-api relay resume`"
        ));
    }
    if let Some(refusal) = &relay.refusal {
        findings.push(format!(
            "the relay publishes nothing: {refusal} (`command-api relay status`)"
        ));
    }
}

/// Returns a finding if the aggregation is paused, or lags while recorders live. Without recorders nobody waits for
/// statistics, so lag is no finding: clicks may be switched off everywhere (`CLICKS=off`).
fn of_clicks(it: &ClickStatus) -> Option<String> {
    if let Some(since) = it.paused_at {
        let since = timestamp::format(since);
        let by = after_space(it.paused_by.as_ref());
        return Some(format!(
            "the aggregation of clicks has been paused since {since}{by}: `projector resume clicks`"
        ));
    }
    (it.recorders > 0 && it.lag_seconds > AGGREGATION_LAG_MAX_S).then(|| {
        format!(
            "the statistics of clicks lag {} behind: see the log of the projector \
             (docs/runbooks.md#clicks-aggregation-stalled)",
            duration(it.lag_seconds)
        )
    })
}

fn of_snapshots(snapshots: &HeldSnapshots) -> Option<String> {
    let oldest = snapshots.oldest.as_ref();
    let snapshot = oldest.filter(|it| it.age_seconds > AGE_MAX_S)?;
    let age = duration(snapshot.age_seconds);
    let (user, name) = (&snapshot.user, &snapshot.application_name);
    Some(match snapshot.pid {
        Some(pid) => format!(
            "process {pid} of the database (user {user}, `{name}`, {}) has held a snapshot for \
             {age}, which keeps dead rows: end its transaction, or \
             `SELECT pg_terminate_backend({pid})`",
            snapshot.state
        ),
        None => format!(
            "the prepared transaction `{name}` of user {user} has held a snapshot for {age}, \
             which keeps dead rows: `COMMIT PREPARED` or `ROLLBACK PREPARED` it"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::status::snapshot::HeldSnapshot;

    #[test]
    fn snapshot_is_a_finding_when_its_alert_fires() {
        let held_for = |age_seconds| HeldSnapshots {
            is_complete: true,
            oldest: Some(HeldSnapshot {
                age_seconds,
                pid: Some(42),
                user: "ada".to_owned(),
                application_name: "a long report".to_owned(),
                state: "idle in transaction".to_owned(),
            }),
        };
        assert_eq!(of_snapshots(&held_for(29.0)), None);
        let finding = of_snapshots(&held_for(31.0)).unwrap();
        assert!(
            finding.ends_with("`SELECT pg_terminate_backend(42)`"),
            "{finding}"
        );
    }

    #[test]
    fn lag_of_clicks_is_a_finding_while_recorders_live() {
        let lagging = |lag_seconds, recorders| ClickStatus {
            recorders,
            complete_until: None,
            lag_seconds,
            read_to_end_seconds_ago: None,
            last_batch_seconds_ago: None,
            missing: 0,
            paused_at: None,
            paused_by: None,
        };
        let finding = of_clicks(&lagging(121.0, 1)).unwrap();
        assert!(finding.contains("clicks lag 2 min"), "{finding}");
        assert_eq!(of_clicks(&lagging(119.0, 1)), None);
        assert_eq!(of_clicks(&lagging(121.0, 0)), None);
    }
}
