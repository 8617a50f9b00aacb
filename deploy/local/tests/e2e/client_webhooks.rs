//! `linkledger webhooks`, against servers that answer as a test wants them to.

use serde_json::{Value, json};

use crate::{
    client::{run, text},
    scripted_server::Reply,
};

const WEBHOOK: &str = "whe_01jd3k5x7zexrbfmv2pcg9h4ta";
const DELIVERY: &str = "dlv_01jd3k5x7zexrbfmv2pcg9h4tb";

fn webhook() -> Value {
    json!({
        "id": WEBHOOK,
        "url": "https://example.com/hook",
        "types": ["link.created"],
        "enabled": true,
        "in_order": false,
        "health": { "state": "healthy" },
        "waiting": 0,
        "failed": 1,
        "is_replaying": false,
        "created_at": "2026-11-20T09:51:00.123Z",
        "updated_at": "2026-11-20T09:51:00.123Z",
    })
}

fn delivery(state: &str, attempts: u32) -> Value {
    let mut delivery = json!({
        "id": DELIVERY,
        "event_id": "evt_01jd3k5x7zexrbfmv2pcg9h4tc",
        "type": "webhook.test",
        "state": state,
        "attempts": attempts,
        "created_at": "2026-11-20T09:51:00.123Z",
    });
    if attempts > 0 {
        delivery["last_attempt_at"] = "2026-11-20T09:51:00.456Z".into();
        delivery["last_status"] = 422.into();
        delivery["response"] = "unknown type".into();
    }
    delivery
}

#[test]
fn created_webhook_shows_its_secret() {
    let mut created = webhook();
    created["secret"] = "whsec_x".into();
    let arguments = [
        "webhooks",
        "create",
        "https://example.com/hook",
        "--type",
        "link.created",
        "--in-order",
    ];
    let script = vec![Reply::Nothing, Reply::json(201, &created)];
    let (output, server) = run(script, &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let shown = text(&output.stdout);
    assert!(shown.contains("Secret   whsec_x\n"), "{shown}");
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    let keys: Vec<_> = requests
        .iter()
        .map(|request| request.header("idempotency-key"))
        .collect();
    assert!(keys[0].is_some() && keys[0] == keys[1], "{keys:?}");
    assert_eq!(requests[0].line(), "POST /v1/webhooks");
    let body = json!({
        "url": "https://example.com/hook",
        "types": ["link.created"],
        "in_order": true,
    });
    assert_eq!(requests[0].json(), body);
}

/// Returns the arguments of a creation and of a rotation, with the beginning of their advice.
fn keyed_commands() -> [(&'static str, Vec<&'static str>); 2] {
    [
        (
            "The webhook may exist or not.",
            vec!["webhooks", "create", "https://example.com/hook"],
        ),
        (
            "The secret may be replaced or not.",
            vec!["webhooks", "rotate-secret", WEBHOOK],
        ),
    ]
}

#[test]
fn command_without_an_answer_names_its_idempotency_key() {
    for (advice, arguments) in keyed_commands() {
        let (output, server) = run(vec![Reply::Nothing], &arguments);
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        let request = server.request();
        let key = request.header("idempotency-key").unwrap();
        let message = text(&output.stderr);
        assert!(message.contains(advice), "{message}");
        assert!(
            message.contains(&format!("--idempotency-key {key}")),
            "{message}"
        );
    }
}

#[test]
fn named_idempotency_key_is_sent() {
    let key = "00000000-0000-4000-8000-000000000001";
    for (_, mut arguments) in keyed_commands() {
        arguments.extend(["--idempotency-key", key]);
        let refusal = Reply::problem(422, "", "idempotency_key_reused");
        let (output, server) = run(vec![refusal], &arguments);
        assert_eq!(output.status.code(), Some(6), "{output:?}");
        assert_eq!(server.request().header("idempotency-key"), Some(key));
        let last = arguments.len() - 1;
        arguments[last] = "x";
        let (output, _) = run(vec![], &arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}

#[test]
fn repeated_creation_tells_that_the_webhook_was_there() {
    let mut created = webhook();
    created["secret"] = "whsec_x".into();
    let reply = Reply::Answer {
        status: 201,
        headers: "idempotent-replayed: true\r\n",
        body: created.to_string(),
    };
    let arguments = ["webhooks", "create", "https://example.com/hook"];
    let (output, _) = run(vec![reply], &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stdout).contains("whsec_x"), "{output:?}");
    let message = text(&output.stderr);
    assert!(message.contains("was created before"), "{message}");
}

#[test]
fn test_and_replay_are_not_repeated_once_they_may_have_begun() {
    let from = "2026-11-20T00:00:00Z";
    for arguments in [
        vec!["webhooks", "test", WEBHOOK],
        vec!["webhooks", "replay", WEBHOOK, "--from", from],
    ] {
        for unclear in [Reply::Nothing, Reply::problem(503, "", "overloaded")] {
            let script = vec![unclear, Reply::json(202, &webhook())];
            let (output, server) = run(script, &arguments);
            assert_eq!(output.status.code(), Some(7), "{output:?}");
            let message = text(&output.stderr);
            assert!(message.contains("before you repeat"), "{message}");
            assert_eq!(server.request().header("idempotency-key"), None);
        }
        // The request that was refused before had no effect.
        let refusal = || Reply::problem(429, "", "rate_limited");
        let script = vec![refusal(), Reply::problem(404, "", "webhook_not_found")];
        let (output, server) = run(script, &arguments);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        assert_eq!(server.requests().len(), 2);
    }
}

#[test]
fn webhooks_are_listed_as_a_table_or_as_json() {
    let page = json!({ "items": [webhook()] });
    let (output, server) = run(vec![Reply::json(200, &page)], &["webhooks", "list"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        text(&output.stdout),
        "ID                              STATE    WAITING  FAILED  TYPES         URL\n\
         whe_01jd3k5x7zexrbfmv2pcg9h4ta  healthy        0       1  link.created  https://example.com/hook\n"
    );
    assert_eq!(server.request().line(), "GET /v1/webhooks");
    let arguments = ["webhooks", "list", "--json"];
    let (output, _) = run(vec![Reply::json(200, &page)], &arguments);
    assert_eq!(text(&output.stdout), format!("{page}\n"));
}

#[test]
fn change_without_a_change_is_wrong_use() {
    let (output, _) = run(vec![], &["webhooks", "change", WEBHOOK]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let arguments = ["webhooks", "change", WEBHOOK, "--disable"];
    let (output, server) = run(vec![Reply::json(200, &webhook())], &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let request = server.request();
    assert_eq!(request.line(), format!("PATCH /v1/webhooks/{WEBHOOK}"));
    assert_eq!(request.json(), json!({ "enabled": false }));
}

#[test]
fn refused_test_shows_the_answer_and_ends_with_6() {
    let script = vec![
        Reply::json(202, &delivery("waiting", 0)),
        Reply::json(200, &delivery("waiting", 0)),
        Reply::json(200, &delivery("waiting", 1)),
    ];
    let (output, server) = run(script, &["webhooks", "test", WEBHOOK]);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let shown = text(&output.stdout);
    assert!(shown.contains("Answer        unknown type\n"), "{shown}");
    let message = text(&output.stderr);
    assert!(message.contains("not delivered: status 422"), "{message}");
    let lines: Vec<String> = server
        .requests()
        .iter()
        .map(|request| request.line().to_owned())
        .collect();
    let poll = format!("GET /v1/webhooks/{WEBHOOK}/deliveries/{DELIVERY}");
    let sent = format!("POST /v1/webhooks/{WEBHOOK}/test");
    assert_eq!(lines, [sent, poll.clone(), poll]);

    let script = vec![
        Reply::json(202, &delivery("waiting", 0)),
        Reply::json(200, &delivery("delivered", 1)),
    ];
    let (output, _) = run(script, &["webhooks", "test", WEBHOOK]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn test_at_an_ill_receiver_shows_its_failure_at_once() {
    // An attempt that meets an ill receiver does not count.
    let mut met_ill = delivery("waiting", 0);
    met_ill["last_attempt_at"] = "2026-11-20T09:51:00.456Z".into();
    met_ill["last_error"] = "connection refused".into();
    let script = vec![
        Reply::json(202, &delivery("waiting", 0)),
        Reply::json(200, &met_ill),
    ];
    let (output, _) = run(script, &["webhooks", "test", WEBHOOK]);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let message = text(&output.stderr);
    assert!(
        message.contains("the test is not delivered: connection refused"),
        "{message}"
    );
    assert!(!message.contains("not sent"), "{message}");
}

#[test]
fn rotation_sends_hours_and_shows_the_new_secret() {
    let rotated = json!({
        "id": WEBHOOK,
        "secret": "whsec_y",
        "previous_secret_valid_until": "2026-11-21T09:51:00.123Z",
    });
    let arguments = ["webhooks", "rotate-secret", WEBHOOK, "--overlap-hours", "0"];
    let (output, server) = run(vec![Reply::json(200, &rotated)], &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let shown = text(&output.stdout);
    assert!(
        shown.contains("whsec_y\n") && shown.contains("valid until 2026-11-21T09:51:00Z\n"),
        "{shown}"
    );
    let request = server.request();
    assert_eq!(
        request.line(),
        format!("POST /v1/webhooks/{WEBHOOK}/rotate-secret")
    );
    assert_eq!(request.json(), json!({ "overlap_hours": 0 }));
    assert!(request.header("idempotency-key").is_some());
}

#[test]
fn deliveries_are_listed_by_state_and_retried() {
    let page = json!({ "items": [delivery("failed", 8)], "next_cursor": null });
    let arguments = ["webhooks", "deliveries", WEBHOOK, "--state", "failed"];
    let (output, server) = run(vec![Reply::json(200, &page)], &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stdout).contains("status 422"), "{output:?}");
    assert_eq!(
        server.request().line(),
        format!("GET /v1/webhooks/{WEBHOOK}/deliveries?state=failed")
    );

    let arguments = ["webhooks", "retry", WEBHOOK, DELIVERY];
    let reply = Reply::json(202, &delivery("waiting", 8));
    let (output, server) = run(vec![reply], &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        server.request().line(),
        format!("POST /v1/webhooks/{WEBHOOK}/deliveries/{DELIVERY}/retry")
    );
}

#[test]
fn replay_needs_a_beginning() {
    let (output, _) = run(vec![], &["webhooks", "replay", WEBHOOK]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let from = "2026-11-20T00:00:00Z";
    let arguments = ["webhooks", "replay", WEBHOOK, "--from", from];
    let mut replaying = webhook();
    replaying["is_replaying"] = true.into();
    let (output, server) = run(vec![Reply::json(202, &replaying)], &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let message = text(&output.stderr);
    assert!(message.contains("has begun"), "{message}");
    let request = server.request();
    assert_eq!(
        request.line(),
        format!("POST /v1/webhooks/{WEBHOOK}/replay")
    );
    assert_eq!(request.json(), json!({ "from": from }));

    let (output, _) = run(vec![Reply::json(202, &webhook())], &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let message = text(&output.stderr);
    assert!(message.contains("no events in this range"), "{message}");
}
