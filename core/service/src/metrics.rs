//! Catalogue of all metrics: names, labels and help. Code names a metric by the constant declared
//! here; `docs/metrics.md` shows the same tables.
//!
//! Labels have few values each: never an account, a slug, an address or a raw path.

/// A row of the metrics tables.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name of the metric, with unit or `_total` last.
    pub name: &'static str,
    /// Type of the metric.
    pub kind: MetricKind,
    /// Names of the metric's labels.
    pub labels: &'static [&'static str],
    /// Help text of the metric.
    pub help: &'static str,
}

/// Type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A value that only increases.
    Counter,
    /// A value that increases and decreases.
    Gauge,
    /// A distribution of values in buckets.
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
            kind: MetricKind::$kind,
            labels: &[$($label),*],
            help: $help,
        }),*];
    };
}

metrics! {
    /// Metrics of every process.
    PROCESS:
    BUILD_INFO = Gauge "build_info" ["version"] "Always 1; the label has the release.";
    TASK_FAILURES_TOTAL = Counter "task_failures_total" ["task"] "Failures of background tasks that were started again.";
}

metrics! {
    /// Metrics of command-api and query-api.
    HTTP:
    HTTP_REQUEST_DURATION_SECONDS = Histogram "http_request_duration_seconds" ["service", "route", "method", "status"] "Time from the head of a request to the head of its answer, by template of the route.";
    HTTP_PROBLEMS_TOTAL = Counter "http_problems_total" ["service", "code"] "Answers, and items of batches, that are problems, by their code.";
    CACHE_REQUESTS_TOTAL = Counter "cache_requests_total" ["cache", "result"] "Look-ups in a cache, by result: hit, miss, bypassed.";
}

metrics! {
    /// Metrics of query-api.
    QUERY_API:
    CLICKS_MERGED_TOTAL = Counter "clicks_merged_total" [] "Clicks whose details were dropped because unpublished clicks needed too much memory; they are counted.";
    CLICKS_HEARTBEAT_AGE_SECONDS = Gauge "clicks_heartbeat_age_seconds" [] "Time since the recorder of clicks last wrote to the database until when it has recorded.";
    CLICKS_UNACKNOWLEDGED_SECONDS = Gauge "clicks_unacknowledged_seconds" [] "Longest time for which clicks of a partition wait without an acknowledgement of the broker; 0 while none wait.";
    CLICKS_LOST_TOTAL = Counter "clicks_lost_total" ["reason"] "Clicks that are counted nowhere: no memory was left (`memory`), the recorder emptied a buffer too late (`stalled`), the broker refused the record (`refused`), or the process stopped before the acknowledgement (`shutdown`).";
    CLICKS_RECORDED_TOTAL = Counter "clicks_recorded_total" ["kind"] "Recorded clicks, by kind: human, bot.";
    CLICKS_SAME_ADDRESS = Gauge "clicks_same_address" [] "1 while the last 1,000 clicks have one client address, or private addresses of peers that send `Forwarded` or `X-Forwarded-For`: a proxy is missing in `TRUSTED_PROXIES`.";
    CLICKS_UNACKNOWLEDGED = Gauge "clicks_unacknowledged" [] "Records of clicks that the broker has not acknowledged.";
    READ_REPLICA_USABLE = Gauge "read_replica_usable" ["replica"] "1 while reads go to the replica; 0 while it does not answer, is no replica of the primary, or lags over 10 s.";
    REDIRECT_CACHE_AGE_SECONDS = Gauge "redirect_cache_age_seconds" [] "Age of the redirect cache: time since the cache last knew all changes of redirects; beyond its maximum staleness the cache is bypassed.";
}

metrics! {
    /// Metrics of command-api.
    COMMAND_API:
    COMMAND_QUEUE_DEPTH = Gauge "command_queue_depth" ["writer"] "Creates and changes that wait for a writer.";
    COMMAND_WAIT_SECONDS = Histogram "command_wait_seconds" [] "Time from when a create or change was queued to the start of its commit group; a retry counts again, from the first queueing.";
    APPEND_LOCK_WAIT_SECONDS = Histogram "append_lock_wait_seconds" [] "Time from BEGIN to the lock on the commit group's accounts: only commit groups of one busy account wait for others.";
    APPEND_LOAD_SECONDS = Histogram "append_load_seconds" [] "Duration of a commit group's look-ups of keys, links, slugs and external ids, with the reservation of slugs: the first part of the lock's hold.";
    APPEND_LOCK_HOLD_SECONDS = Histogram "append_lock_hold_seconds" [] "Time from the lock on the commit group's accounts to the end of COMMIT: for this time other processes cannot lock them.";
    APPEND_COMMIT_SECONDS = Histogram "append_commit_seconds" [] "Duration of the COMMIT of a commit group.";
    RELAY_POSITION = Gauge "relay_position" ["shard"] "Last position that the broker has acknowledged.";
    RELAY_OLDEST_UNPUBLISHED_AGE_SECONDS = Gauge "relay_oldest_unpublished_age_seconds" ["shard"] "Age of the oldest event that is not yet published; 0 if all are published.";
    RELAY_STALLED_SECONDS = Gauge "relay_stalled_seconds" [] "Time for which the broker or the database has blocked the relay; 0 while the relay publishes.";
    RELAY_REFUSED = Gauge "relay_refused" ["reason"] "1 while the relay publishes nothing for this reason and waits for an operator; the log names the remedy.";
    RELAY_PAUSED = Gauge "relay_paused" [] "1 while an operator has paused the relay.";
    RELAY_FAILURES_TOTAL = Counter "relay_failures_total" [] "Failed attempts to publish, because of the broker or the database.";
    LOG_HEAD = Gauge "log_head" ["shard"] "Last position of the log.";
    LOG_SEALED_POSITION = Gauge "log_sealed_position" ["shard"] "Last position of the last sealed segment.";
    LOG_SEALING_FAILURES_TOTAL = Counter "log_sealing_failures_total" ["reason"] "Failed attempts to seal a segment of the log: the database is `unreachable`, or the log is `unsound`.";
    OBSERVATIONS_WAITING_SECONDS = Gauge "observations_waiting_seconds" [] "Time since this process last found no expiry, first click or minute of clicks that waits for its event; 0 while it finds none.";
}

metrics! {
    /// Metrics of the projector.
    PROJECTOR:
    PROJECTION_POSITION = Gauge "projection_position" ["projection", "shard"] "Checkpoint of the projection.";
    PROJECTION_LAG_EVENTS = Gauge "projection_lag_events" ["projection", "shard"] "Head minus checkpoint; 0 for shards of other projectors.";
    PROJECTION_LAG_SECONDS = Gauge "projection_lag_seconds" ["projection", "shard"] "Age of the oldest event that is not yet applied; 0 if all are applied, and for shards of other projectors.";
    PROJECTION_APPLY_SECONDS = Histogram "projection_apply_seconds" [] "Duration of a transaction that applies events, from BEGIN to the end of COMMIT.";
    PROJECTION_PAUSED = Gauge "projection_paused" ["projection", "shard"] "1 while an operator has paused the projection; 0 for shards of other projectors.";
    PROJECTION_REFUSED = Gauge "projection_refused" ["shard"] "1 while a projection is not applied in the shard because its checkpoint belongs to another log, until an operator acts; the log names the remedy; 0 for shards of other projectors.";
    RECORDS_FOREIGN_TOTAL = Counter "records_foreign_total" ["shard"] "Times that the topic had events of this log that the log lacks: the log was restored from a backup.";
    GAPS_REPAIRED_TOTAL = Counter "gaps_repaired_total" ["shard"] "Gaps in the topic that were filled from the event store.";
    CATCH_UPS_TOTAL = Counter "catch_ups_total" ["shard"] "Times that a shard was read from the event store because the topic was late.";
    RECORDS_RECEIVED_TOTAL = Counter "records_received_total" ["shard"] "Records of events that the topic has delivered.";
    CHECKPOINTS_LOST_TOTAL = Counter "checkpoints_lost_total" ["shard"] "Times that another process or a crash of Postgres had moved a shard's checkpoints, not an operator's command.";
    PARKED_ACCOUNTS = Gauge "parked_accounts" ["projection", "shard"] "Accounts whose events wait because one of them cannot be applied, up to 1,000; 0 for shards of other projectors.";
    OPERATION_FAILED = Gauge "operation_failed" ["command", "projection"] "1 if the last command with this name on the projection failed within the last day, or its process died.";
    OLDEST_SNAPSHOT_AGE_SECONDS = Gauge "oldest_snapshot_age_seconds" [] "Age of the oldest snapshot that a transaction on the database server holds; 0 if none is held. Dead rows are kept as long: no snapshot should be held over 1 s.";
    VERIFY_MISMATCHES = Gauge "verify_mismatches" ["projection"] "Wrong rows that the last verification of the live generation found, after a repair if there was one; 0 if never verified.";
    VERIFIED_TIMESTAMP_SECONDS = Gauge "verified_timestamp_seconds" ["projection"] "Time of the last verification, in seconds since 1970; 0 if never verified.";
    RECORDS_UNREADABLE_TOTAL = Counter "records_unreadable_total" [] "Records of the topic that no relay of this log has published, or that are damaged; missing events are read from the event store.";
    CLICKS_LAG_RECORDS = Gauge "clicks_lag_records" [] "Records of clicks on the topic that are not counted yet, in the partitions of this process.";
    CLICKS_COMPLETE_UNTIL_AGE_SECONDS = Gauge "clicks_complete_until_age_seconds" [] "Age of the instant before which every click is in the statistics.";
    CLICKS_MISSING_TOTAL = Counter "clicks_missing_total" [] "Sequences of recorders that the topic lacked: records of clicks that are lost.";
    CLICKS_UNREADABLE_TOTAL = Counter "clicks_unreadable_total" [] "Records on the topic of clicks that cannot be counted: unreadable, of an implausible time, or refused by the database.";
}

metrics! {
    /// Metrics of the dispatcher of webhooks.
    WEBHOOKS:
    WEBHOOK_DISPATCHER_IS_ACTIVE = Gauge "webhook_dispatcher_is_active" [] "1 while this process has the lease and sends messages; 0 while another process does.";
    WEBHOOKS_ENABLED = Gauge "webhooks_enabled" [] "Webhooks that are enabled; 0 while another process sends.";
    WEBHOOKS_ILL = Gauge "webhooks_ill" [] "Enabled webhooks whose receiver does not answer, or answers 408, 425, 429 or 5xx, so that messages wait; 0 while another process sends.";
    WEBHOOKS_BLOCKED = Gauge "webhooks_blocked" [] "Enabled webhooks of which messages wait for an operator: the file of master keys lacks their key, or an event cannot be read; 0 while another process sends.";
    WEBHOOK_ATTEMPTS_TOTAL = Counter "webhook_attempts_total" ["outcome"] "Attempts to send a message, by outcome: accepted, refused, gone, ill.";
    WEBHOOK_DELIVERY_LAG_SECONDS = Histogram "webhook_delivery_lag_seconds" [] "Time from when an event was recorded until a receiver accepted its message at the first attempt; not in replays.";
}

/// All metrics, by the process that exposes them.
pub const ALL: [(&str, &[Metric]); 6] = [
    ("Every process", PROCESS),
    ("command-api and query-api", HTTP),
    ("query-api", QUERY_API),
    ("command-api", COMMAND_API),
    ("projector", PROJECTOR),
    ("projector webhooks", WEBHOOKS),
];

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, fmt::Write as _};

    use super::*;

    fn list(metrics: &[Metric]) -> String {
        let mut text = String::new();
        for metric in metrics {
            let labels: Vec<String> = metric.labels.iter().map(|it| format!("`{it}`")).collect();
            let labels = match labels.join(", ") {
                labels if labels.is_empty() => labels,
                labels => format!("; {labels}"),
            };
            let kind = format!("{:?}", metric.kind).to_lowercase();
            let (name, help) = (metric.name, metric.help);
            writeln!(text, "- `{name}` ({kind}{labels}): {help}").unwrap();
        }
        text
    }

    #[test]
    fn metrics_page_has_these_lists() {
        let document = include_str!("../../../docs/metrics.md");
        for (shown_by, metrics) in ALL {
            let section = format!("## {shown_by}\n\n{}", list(metrics));
            assert!(
                document.contains(&section),
                "docs/metrics.md lacks:\n\n{section}"
            );
        }
        let rows = document
            .lines()
            .filter(|line| line.starts_with("- `linkledger_"));
        assert_eq!(rows.count(), ALL.iter().flat_map(|(_, it)| *it).count());
    }

    #[test]
    fn names_follow_the_conventions_of_prometheus() {
        let mut names = HashSet::new();
        for metric in ALL.iter().flat_map(|(_, metrics)| *metrics) {
            let (name, kind) = (metric.name, metric.kind);
            assert!(names.insert(name), "{name} twice");
            assert_eq!(
                name.ends_with("_total"),
                kind == MetricKind::Counter,
                "{name}"
            );
            assert!(metric.help.ends_with('.'), "{name}");
        }
    }
}
