//! Every metric there is: its name, its labels, and what it says. Code names a metric by the
//! constant made here; `docs/metrics.md` shows the same tables.
//!
//! Labels have few values each: never an account, a slug, an address or a raw path.

#[cfg(feature = "service")]
pub mod recorder;

/// A row of a table below.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name, with unit or `_total` last.
    pub name: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

/// How a metric moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only up.
    Counter,
    /// Up and down.
    Gauge,
    /// Counted by size.
    Histogram,
}

macro_rules! metrics {
    ($(#[$doc:meta])* $table:ident: $(
        $constant:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;
    )*) => {
        $(#[doc = $help] pub const $constant: &str = concat!("linkledger_", $name);)*
        $(#[$doc])*
        pub const $table: &[Metric] = &[$(Metric {
            name: $constant,
            kind: Kind::$kind,
            labels: &[$($label),*],
            help: $help,
        }),*];
    };
}

metrics! {
    /// Of every process.
    PROCESS:
    BUILD_INFO = Gauge "build_info" ["version"] "Always 1; the release is in the label.";
}

metrics! {
    /// Of command-api and query-api.
    HTTP:
    HTTP_REQUEST_DURATION_SECONDS = Histogram "http_request_duration_seconds" ["service", "route", "method", "status"] "From the head of a request to the head of its answer, by template of the route.";
    HTTP_PROBLEMS_TOTAL = Counter "http_problems_total" ["service", "code"] "Answers that are problems, by code of the catalogue.";
    CACHE_REQUESTS_TOTAL = Counter "cache_requests_total" ["cache", "result"] "What was asked of a cache, by result: hit, miss, bypassed.";
}

metrics! {
    /// Of query-api.
    QUERY_API:
    REDIRECT_CACHE_AGE_SECONDS = Gauge "redirect_cache_age_seconds" [] "Since all changes of redirects were heard of; from 0.5 s on the cache is bypassed.";
    REDIRECT_CACHE_BYTES = Gauge "redirect_cache_bytes" [] "About how much memory the redirect cache takes.";
}

metrics! {
    /// Of command-api.
    COMMAND_API:
    COMMAND_QUEUE_DEPTH = Gauge "command_queue_depth" ["writer"] "Commands that wait for a writer.";
    COMMANDS_EXPIRED_TOTAL = Counter "commands_expired_total" [] "Commands dropped because they waited for too long.";
    APPEND_BATCH_SIZE = Histogram "append_batch_size" [] "Commands that were run in one transaction.";
    APPEND_LOCK_HOLD_SECONDS = Histogram "append_lock_hold_seconds" [] "From the lock on the batch's accounts to the end of COMMIT: for so long other processes can't have them.";
    APPEND_COMMIT_SECONDS = Histogram "append_commit_seconds" [] "COMMIT of a batch.";
    RELAY_POSITION = Gauge "relay_position" ["shard"] "The last position that the broker has acknowledged.";
    RELAY_BACKLOG_EVENTS = Gauge "relay_backlog_events" ["shard"] "Events of the log that are not published yet.";
    RELAY_OLDEST_UNPUBLISHED_AGE_SECONDS = Gauge "relay_oldest_unpublished_age_seconds" ["shard"] "Age of the oldest event that is not published; 0 when there is none.";
    RELAY_HELD_UP_SECONDS = Gauge "relay_held_up_seconds" [] "For how long the broker or the database has been holding the relay up; 0 while it gets on.";
    RELAY_REFUSED = Gauge "relay_refused" ["reason"] "1 while nothing is published for that reason, until an operator has mended it; the log says how.";
    RELAY_PAUSED = Gauge "relay_paused" [] "1 while an operator wants nothing to be published.";
    RELAY_FAILURES_TOTAL = Counter "relay_failures_total" [] "Attempts to publish that have failed, for the broker or the database.";
    LOG_HEAD = Gauge "log_head" ["shard"] "The last position of the log.";
    LOG_SEALED_POSITION = Gauge "log_sealed_position" ["shard"] "The last position of the last sealed segment.";
    LOG_SEALING_FAILURES_TOTAL = Counter "log_sealing_failures_total" ["reason"] "Attempts to seal a segment of the log that have failed: the database is `unreachable`, or the log is `unsound`.";
}

metrics! {
    /// Of the projector.
    PROJECTOR:
    PROJECTION_POSITION = Gauge "projection_position" ["projection", "shard"] "The checkpoint.";
    PROJECTION_LAG_EVENTS = Gauge "projection_lag_events" ["projection", "shard"] "Head minus checkpoint; 0 for shards of other projectors.";
    PROJECTION_LAG_SECONDS = Gauge "projection_lag_seconds" ["projection", "shard"] "Age of the oldest event that is not applied; 0 when there is none, and for shards of other projectors.";
    PROJECTION_EVENTS_APPLIED_TOTAL = Counter "projection_events_applied_total" ["projection"] "Events that were applied.";
    PROJECTION_APPLY_SECONDS = Histogram "projection_apply_seconds" [] "One transaction, from BEGIN to the end of COMMIT.";
    PROJECTION_PAUSED = Gauge "projection_paused" ["projection", "shard"] "Whether an operator keeps the projection from moving; 0 for shards of other projectors.";
    PROJECTION_REFUSED = Gauge "projection_refused" ["shard"] "1 while the shard is not applied because its checkpoints are not of this log, until an operator has mended it; the log says how; 0 for shards of other projectors.";
    RECORDS_FOREIGN_TOTAL = Counter "records_foreign_total" ["shard"] "Times that the topic had events that the log has not: it was restored.";
    GAPS_REPAIRED_TOTAL = Counter "gaps_repaired_total" ["shard"] "Holes in the topic that were filled from the event store.";
    CATCH_UPS_TOTAL = Counter "catch_ups_total" ["shard"] "Times that a shard was so far behind, or stood still, that it was read from the event store.";
    DUPLICATES_DROPPED_TOTAL = Counter "duplicates_dropped_total" ["projection"] "Delivered events that had been applied before.";
    CHECKPOINTS_LOST_TOTAL = Counter "checkpoints_lost_total" ["shard"] "Times that somebody else had moved a shard's checkpoint, not counting those that an operator's command moves.";
    PARKED_ACCOUNTS = Gauge "parked_accounts" ["projection", "shard"] "Accounts whose events wait because one of them can't be applied, up to 1,000; 0 for shards of other projectors.";
    PARKED_EVENTS_TOTAL = Counter "parked_events_total" ["reason"] "Events put aside, counted in each projection: by why they can't be applied, or as behind another one of their account.";
    OPERATION_FAILED = Gauge "operation_failed" ["command", "projection"] "1 when the last command of that name on the projection, of the last day, has failed or its process has died.";
    REBUILD_REMAINING_EVENTS = Gauge "rebuild_remaining_events" ["projection"] "Events that the generation which is built still lacks; 0 when none is built.";
    OLDEST_SNAPSHOT_AGE_SECONDS = Gauge "oldest_snapshot_age_seconds" [] "For how long the oldest transaction on the database server has been holding a snapshot; 0 when there is none. Dead rows are kept as long: none is to be held over 1 s.";
    VERIFY_MISMATCHES = Gauge "verify_mismatches" ["projection"] "Rows that the last verification of what is served has found wrong, after a repair if there was one; 0 if it was never verified.";
    VERIFIED_TIMESTAMP_SECONDS = Gauge "verified_timestamp_seconds" ["projection"] "When that verification was, in seconds since 1970; 0 if it never was.";
    RECORDS_UNREADABLE_TOTAL = Counter "records_unreadable_total" [] "Records of the topic that are not events of ours; the event store has what they hide.";
}

/// All of them, by who shows them.
pub const ALL: [(&str, &[Metric]); 5] = [
    ("Every process", PROCESS),
    ("command-api and query-api", HTTP),
    ("query-api", QUERY_API),
    ("command-api", COMMAND_API),
    ("projector", PROJECTOR),
];

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, fmt::Write as _};

    use super::*;

    fn table(metrics: &[Metric]) -> String {
        let mut text = "| name | type | labels | what it says |\n|---|---|---|---|\n".to_owned();
        for metric in metrics {
            let labels: Vec<String> = metric.labels.iter().map(|it| format!("`{it}`")).collect();
            let kind = format!("{:?}", metric.kind).to_lowercase();
            let (name, labels, help) = (metric.name, labels.join(", "), metric.help);
            writeln!(text, "| `{name}` | {kind} | {labels} | {help} |").unwrap();
        }
        text
    }

    #[test]
    fn the_document_shows_these_tables() {
        let document = include_str!("../../docs/metrics.md");
        for (shown_by, metrics) in ALL {
            let section = format!("## {shown_by}\n\n{}", table(metrics));
            assert!(
                document.contains(&section),
                "docs/metrics.md lacks:\n\n{section}"
            );
        }
        let rows = document
            .lines()
            .filter(|line| line.starts_with("| `linkledger_"));
        assert_eq!(rows.count(), ALL.iter().flat_map(|(_, it)| *it).count());
    }

    #[test]
    fn names_follow_the_conventions_of_prometheus() {
        let mut names = HashSet::new();
        for metric in ALL.iter().flat_map(|(_, metrics)| *metrics) {
            let (name, kind) = (metric.name, metric.kind);
            assert!(names.insert(name), "{name} twice");
            assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
            assert!(metric.help.ends_with('.'), "{name}");
        }
    }
}
