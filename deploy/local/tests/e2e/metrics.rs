//! The metrics of the services: each step of a link changes a metric.

use linkledger_testing::eventually;
use serde_json::json;

use crate::{
    process::{Stack, data_folder},
    scrape::Scrape,
};

#[tokio::test]
async fn each_step_of_a_link_changes_its_metric() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &[]);
    let environment = stack.environment();
    let http = stack.http();
    let command_api = &environment["COMMAND_METRICS_URL"];
    let before = Scrape::of(&http, command_api).await;
    assert_counters_of_alerts_exist(&before);

    let body = json!({ "destination_url": "https://example.com/?name=someone&token=0123456789", "slug": "spring-metrics" });
    let created = http
        .create("00000000-0000-4000-8000-000000000001", &body)
        .await;
    assert_eq!(created.status, 201, "{created:?}");
    let path = format!("/v1/links/{}", created.json()["id"].as_str().unwrap());
    assert_eq!(http.get(&path).await.status, 200);
    let short_url = created.json()["short_url"].as_str().unwrap().to_owned();
    assert_eq!(http.follow(&short_url).await.status, 302);
    assert_eq!(http.get("/v1/links?limit=0").await.status, 400);
    assert_eq!(http.get("/no-such-path").await.status, 404);

    let projected = eventually("the event is published and applied", async || {
        let scrape = Scrape::of(&http, command_api).await;
        let moved = |name, labels| scrape.sum(name, labels) - before.sum(name, labels);
        let has_come = moved("linkledger_relay_position", &[]) >= 2.0
            && moved("linkledger_projection_position", &["links"]) >= 2.0
            && moved("linkledger_log_head", &[]) >= 2.0
            && scrape.shows("linkledger_oldest_snapshot_age_seconds")
            && scrape.sum("linkledger_projection_lag_seconds", &[]) <= 0.0
            && scrape.sum("linkledger_relay_oldest_unpublished_age_seconds", &[]) <= 0.0;
        has_come.then_some(scrape)
    })
    .await;
    let moved = |name, labels: &[&str]| projected.sum(name, labels) - before.sum(name, labels);
    let answered =
        |labels: &[&str]| moved("linkledger_http_request_duration_seconds_count", labels);
    let one = 1.0..=1.0;
    for labels in [
        &["command-api", "route=\"/v1/links\"", "POST", "201"][..],
        &["query-api", "route=\"/v1/links/{id}\"", "GET", "200"],
        &["query-api", "route=\"/v1/links\"", "GET", "400"],
        &["query-api", "route=\"unmatched\"", "GET", "404"],
        &["short-host", "route=\"/{slug}\"", "GET", "302"],
    ] {
        assert!(one.contains(&answered(labels)), "{labels:?}");
    }
    for (name, labels) in [
        ("linkledger_http_problems_total", &["invalid_parameter"][..]),
        ("linkledger_http_problems_total", &["route_not_found"]),
        ("linkledger_command_wait_seconds_count", &[]),
        ("linkledger_append_lock_wait_seconds_count", &[]),
        ("linkledger_append_load_seconds_count", &[]),
        ("linkledger_append_lock_hold_seconds_count", &[]),
        ("linkledger_append_commit_seconds_count", &[]),
    ] {
        assert!(one.contains(&moved(name, labels)), "{name} {labels:?}");
    }
    assert!(moved("linkledger_projection_apply_seconds_count", &[]) >= 1.0);
    assert!(moved("linkledger_cache_requests_total", &["api_keys", "hit"]) >= 1.0);
    assert!(moved("linkledger_cache_requests_total", &["api_keys", "miss"]) >= 1.0);
    nothing_that_was_sent_is_a_label(&projected);
    assert_positions_of_all_shards_exist(&projected);
    // All listeners of the process export the same metrics.
    for url in ["PROJECTOR_METRICS_URL", "QUERY_METRICS_URL"] {
        let scrape = Scrape::of(&http, &environment[url]).await;
        assert!(
            scrape.sum("linkledger_append_commit_seconds_count", &[]) >= 1.0,
            "{url}"
        );
    }
    assert_eq!(stack.interrupt(), Some(0));
}

/// Asserts that the counters of the alerts exist from the start: Prometheus sees no increase in a
/// counter that first appears with a value.
fn assert_counters_of_alerts_exist(scrape: &Scrape) {
    for (name, labels, series) in [
        ("linkledger_http_problems_total", "internal_error", 4),
        ("linkledger_gaps_repaired_total", "", 16),
        ("linkledger_catch_ups_total", "", 16),
        ("linkledger_checkpoints_lost_total", "", 16),
        ("linkledger_records_unreadable_total", "", 1),
        ("linkledger_relay_failures_total", "", 1),
        ("linkledger_log_sealing_failures_total", "unsound", 1),
        ("linkledger_task_failures_total", "", 16),
        ("linkledger_clicks_lost_total", "reason", 4),
        ("linkledger_clicks_merged_total", "", 1),
        ("process_resident_memory_bytes", "", 1),
        ("process_open_fds", "", 1),
        ("linkledger_build_info", "version", 1),
    ] {
        assert_eq!(scrape.count(name, labels), series, "{name}");
    }
}

/// Asserts that every shard has its positions, also a shard without events: a missing position
/// means that no process owns the shard.
fn assert_positions_of_all_shards_exist(scrape: &Scrape) {
    for name in ["linkledger_log_head", "linkledger_relay_position"] {
        assert_eq!(scrape.count(name, "shard"), 16, "{name}");
    }
    let projections = linkledger_core::projection::Projection::ALL.len();
    assert_eq!(
        scrape.count("linkledger_projection_position", ""),
        projections * 16
    );
}

fn nothing_that_was_sent_is_a_label(scrape: &Scrape) {
    let names: Vec<&str> = scrape.0.keys().map(String::as_str).collect();
    let names = names.join("\n");
    for sent in ["spring-metrics", "lnk_", "acc_", "no-such-path", "limit="] {
        assert!(!names.contains(sent), "{sent}");
    }
}
