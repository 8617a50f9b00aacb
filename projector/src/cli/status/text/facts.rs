//! Last lines of the status text: projectors, commands, generations, relay, clicks, snapshot, failures.
//! Pure.

use std::collections::{BTreeMap, BTreeSet};

use linkledger_core::timestamp;

use crate::operations::{
    audit::RecordedCommand,
    number_format::{counted, duration, grouped},
    status::{
        StatusReport,
        clicks::ClickStatus,
        generations::GenerationStatus,
        projection::{LastError, ProjectionShard, ProjectionState, ProjectionStatus},
        relay::PublishingStatus,
        snapshot::HeldSnapshots,
    },
};

/// Age in seconds of the oldest failure to show.
const ERRORS_SHOWN_FOR_S: f64 = 3_600.0;
/// Maximum number of failures to show.
const ERRORS_SHOWN_MAX: usize = 3;

pub(super) fn lines(status: &StatusReport) -> Vec<String> {
    let mut lines = vec![projectors(&status.projections)];
    // A command whose process died is shown among the findings.
    let at_work = status.operations.iter().filter(|it| it.is_running);
    lines.extend(at_work.map(operation));
    lines.extend(generations(&status.projections));
    lines.push(relay(&status.relay));
    lines.extend(status.clicks.iter().flat_map(clicks));
    lines.push(snapshot(&status.snapshots));
    lines.extend(last_errors(&status.projections));
    lines
}

/// Returns the shards with their claims, which are the same for all projections.
fn claims(projections: &[ProjectionStatus]) -> &[ProjectionShard] {
    projections.first().map_or(&[], |it| &it.shards)
}

/// Returns the line with the projectors and the number of their shards.
fn projectors(projections: &[ProjectionStatus]) -> String {
    let mut owners: BTreeMap<(&str, &str), BTreeSet<i16>> = BTreeMap::new();
    for it in claims(projections) {
        if let (Some(owner), Some(version), true) = (
            &it.owner,
            &it.version,
            it.state != ProjectionState::Unattended,
        ) {
            owners.entry((owner, version)).or_default().insert(it.shard);
        }
    }
    if owners.is_empty() {
        return "projectors: none claims a shard".to_owned();
    }
    let owners: Vec<String> = owners
        .into_iter()
        .map(|((owner, version), shards)| match shards.len() {
            1 => format!("{owner} ({version}, 1 shard)"),
            shards => format!("{owner} ({version}, {shards} shards)"),
        })
        .collect();
    format!("projectors: {}", owners.join(", "))
}

fn operation(it: &RecordedCommand) -> String {
    let (title, operator) = (it.title(), &it.operator);
    let started_at = timestamp::format(it.started_at);
    let reason = it.reason.as_ref().map(|reason| format!(": {reason}"));
    format!(
        "running: {title}, by {operator} since {started_at}{}",
        reason.unwrap_or_default()
    )
}

/// Returns a line for each generation that is not served.
fn generations(projections: &[ProjectionStatus]) -> Vec<String> {
    let generations = projections.iter().flat_map(|it| &it.generations);
    let others = generations.filter(|it| !it.is_read()).map(|other| {
        let (projection, generation) = (&other.projection, other.generation);
        let phase = other.phase.replace('_', " ");
        let (position, head) = (grouped(other.position), grouped(other.head));
        let mut line = format!(
            "generation {generation} of {projection}: {phase}, {position} of {head} events"
        );
        for hint in hints(other) {
            line.push_str("; ");
            line.push_str(&hint);
        }
        line
    });
    others.collect()
}

/// Returns the possible commands on a generation.
fn hints(it: &GenerationStatus) -> Vec<String> {
    let (projection, generation) = (&it.projection, it.generation);
    let mut hints = Vec::new();
    if it.is_next_for_rollback {
        hints.push(format!(
            "`projector rollback {projection}` serves generation {generation} again"
        ));
    }
    if it.may_be_dropped {
        let drop = format!("`projector drop {projection} {generation}`");
        hints.push(match it.phase.as_str() {
            "standby" => format!("{drop} removes generation {generation}"),
            "dropping" => format!("{drop} continues"),
            _ => {
                format!("no command works on generation {generation}: `projector rebuild {projection}` continues, {drop} removes the generation")
            }
        });
    }
    hints
}

fn relay(relay: &PublishingStatus) -> String {
    if relay.backlog_events == 0 {
        return "relay: everything is published".to_owned();
    }
    let behind = relay.shards.iter().filter(|it| it.backlog_events > 0);
    let shards: Vec<String> = behind
        .map(|it| format!("{} ({})", it.shard, grouped(it.backlog_events)))
        .collect();
    format!(
        "relay: {} to publish, the oldest for {}; by shard: {}",
        counted(relay.backlog_events.unsigned_abs(), "event"),
        duration(relay.backlog_seconds),
        shards.join(", ")
    )
}

fn snapshot(snapshots: &HeldSnapshots) -> String {
    let mut text = match &snapshots.oldest {
        None => "oldest snapshot: none is held".to_owned(),
        Some(it) => {
            let holder = match it.pid {
                Some(pid) => format!("process {pid}"),
                None => "a prepared transaction".to_owned(),
            };
            format!(
                "oldest snapshot: {}, {holder} ({}, user {}, {})",
                duration(it.age_seconds),
                it.application_name,
                it.user,
                it.state
            )
        }
    };
    if !snapshots.is_complete {
        text.push_str("; other users' sessions are not seen: GRANT pg_read_all_stats to this role");
    }
    text
}

/// Returns the last failures, newest first; equal failures of several shards share a line.
fn last_errors(projections: &[ProjectionStatus]) -> Vec<String> {
    let mut errors: Vec<(&LastError, i16)> = claims(projections)
        .iter()
        .filter_map(|it| {
            let error = it.last_error.as_ref()?;
            (error.seconds_ago < ERRORS_SHOWN_FOR_S).then_some((error, it.shard))
        })
        .collect();
    errors.sort_by(|(a, _), (b, _)| a.seconds_ago.total_cmp(&b.seconds_ago));
    let mut told = BTreeSet::new();
    let latest = errors.iter().filter(|(error, _)| told.insert(&error.text));
    let lines = latest.take(ERRORS_SHOWN_MAX).map(|(error, shard)| {
        let same = errors.iter().filter(|(it, _)| it.text == error.text);
        let more = match same.count() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let ago = duration(error.seconds_ago);
        format!(
            "last error, {ago} ago, in shard {shard}{more}: {}",
            error.text
        )
    });
    lines.collect()
}

/// Returns the lines about recorders and statistics.
fn clicks(status: &ClickStatus) -> [String; 2] {
    let recorders = match status.recorders {
        0 => "clicks: no recorder sends heartbeats: query-api is stopped, runs with --clicks off, or cannot reach \
              Postgres"
            .to_owned(),
        recorders => format!(
            "clicks: {} alive",
            counted(recorders.unsigned_abs(), "recorder")
        ),
    };
    [recorders, clicks_aggregation(status)]
}

fn clicks_aggregation(it: &ClickStatus) -> String {
    let ago = |seconds: Option<f64>| match seconds {
        Some(seconds) => format!("{} ago", duration(seconds)),
        None => "never".to_owned(),
    };
    let complete = match it.complete_until {
        Some(until) if it.recorders == 0 => format!("complete until {}", timestamp::format(until)),
        Some(_) => format!("complete until {} ago", duration(it.lag_seconds)),
        None => "not complete yet".to_owned(),
    };
    let mut line = format!(
        "clicks: {complete}, read to the end of the topic {}, last batch {}",
        ago(it.read_to_end_seconds_ago),
        ago(it.last_batch_seconds_ago)
    );
    if it.missing > 0 {
        let missing = counted(it.missing.unsigned_abs(), "record");
        line.extend([", ", &missing, " lost"]);
    }
    if let Some(since) = it.paused_at {
        line.extend([", paused since ", &timestamp::format(since)]);
        line.extend(it.paused_by.iter().map(|by| format!(" {by}")));
    }
    line
}
