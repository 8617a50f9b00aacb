use std::process::Stdio;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::json;

use crate::{
    client::{ID, command, link, run, text},
    scripted_server::{Reply, ScriptedServer},
    services::free_address,
};

fn created(headers: &'static str) -> Reply {
    let mut body = link();
    body["credits_charged"] = 1.into();
    body["credits_balance"] = 41.into();
    Reply::Answer {
        status: 201,
        headers,
        body: body.to_string(),
    }
}

#[test]
fn create_sends_key_and_body_and_prints_link() {
    let arguments = [
        "links",
        "create",
        "https://example.com/",
        "--slug",
        "Spring",
    ];
    let (output, server) = run(vec![created("etag: \"1\"\r\n")], &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        text(&output.stdout),
        "ID           lnk_01jd3k5x7zexrbfmv2pcg9h4ta\n\
         Short URL    http://127.0.0.1:8081/Spring\n\
         Destination  https://example.com/\n\
         Created      2026-11-20T09:51:00Z\n\
         ETag         \"1\"\n\
         Credits      1 charged, 41 left\n"
    );
    assert_eq!(text(&output.stderr), "");
    let request = server.request();
    assert_eq!(request.line(), "POST /v1/links");
    assert_eq!(request.header("authorization"), Some("Bearer the-key"));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(
        request.json(),
        json!({ "destination_url": "https://example.com/", "slug": "Spring" })
    );
}

#[test]
fn transient_errors_are_retried_with_the_same_key() {
    let script = vec![
        Reply::problem(429, "retry-after: 0\r\n", "rate_limited"),
        Reply::problem(409, "", "idempotency_key_in_use"),
        Reply::problem(504, "", "deadline_exceeded"),
        Reply::Nothing,
        created("idempotent-replayed: true\r\n"),
    ];
    let (output, server) = run(script, &["links", "create", "https://example.com/"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let message = text(&output.stderr);
    assert!(
        message.contains("retrying http") && message.contains("/v1/links: idempotency_key_in_use"),
        "{message}"
    );
    assert!(
        message.contains("created before under the same idempotency key"),
        "{message}"
    );
    let requests = server.requests();
    let keys: Vec<_> = requests
        .iter()
        .map(|request| request.header("idempotency-key"))
        .collect();
    assert_eq!(keys.len(), 5);
    assert!(
        keys[0].is_some() && keys.iter().all(|key| *key == keys[0]),
        "{keys:?}"
    );
}

#[test]
fn failed_create_prints_the_idempotency_key() {
    let key = "00000000-0000-4000-8000-000000000001";
    let arguments = [
        "links",
        "create",
        "https://example.com/",
        "--idempotency-key",
        key,
    ];
    let (output, server) = run(vec![Reply::Nothing], &arguments);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(text(&output.stdout), "");
    let message = text(&output.stderr);
    assert!(
        message.contains("error: gave up on http://127.0.0.1:"),
        "{message}"
    );
    assert!(
        message.contains("no server listens at this address"),
        "{message}"
    );
    assert!(
        message.contains(&format!("--idempotency-key {key}")),
        "{message}"
    );
    assert_eq!(server.request().header("idempotency-key"), Some(key));
}

#[test]
fn create_that_was_never_sent_names_no_outcome() {
    let nobody = format!("http://{}", free_address());
    let mut command = command(&nobody, &["links", "create", "https://example.com/"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let message = text(&output.stderr);
    assert!(
        message.contains("no server listens at this address") && !message.contains("may exist"),
        "{message}"
    );
}

#[test]
fn interrupted_create_prints_the_idempotency_key() {
    let server = ScriptedServer::start(vec![Reply::Hold]);
    let mut command = command(&server.url, &["links", "create", "https://example.com/"]);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let request = server.request();
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let key = request.header("idempotency-key").unwrap();
    let message = text(&output.stderr);
    assert!(
        message.contains("interrupted") && message.contains(key),
        "{message}"
    );
}

#[test]
fn retry_after_beyond_the_deadline_ends_the_call() {
    let script = vec![Reply::problem(429, "retry-after: 3600\r\n", "rate_limited")];
    let (output, _server) = run(script, &["credits"]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(text(&output.stderr), "error: rate_limited: Do this.\n");
}

#[test]
fn refusal_is_printed_as_text_or_json() {
    let body = json!({
        "code": "validation_failed",
        "detail": "slug: Too short.",
        "errors": [{ "pointer": "#/slug", "code": "slug_too_short", "detail": "Too short." }],
        "request_id": "req_1",
    });
    let arguments = ["links", "create", "https://example.com/", "--slug", "a"];
    let (output, _server) = run(vec![Reply::json(422, &body)], &arguments);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    assert_eq!(
        text(&output.stderr),
        "error: validation_failed: slug: Too short.\n  slug (slug_too_short)\n  \
         request id: req_1\n"
    );
    let arguments = [&arguments[..], &["--json"]].concat();
    let (output, _server) = run(vec![Reply::json(422, &body)], &arguments);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    assert_eq!(text(&output.stderr), format!("{body}\n"));
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn update_sends_a_merge_patch_with_if_match() {
    let arguments = [
        "links",
        "update",
        ID,
        "--destination-url",
        "https://example.org/",
    ];
    let answer = || Reply::Answer {
        status: 200,
        headers: "etag: \"4\"\r\n",
        body: link().to_string(),
    };
    let (output, server) = run(
        vec![answer()],
        &[&arguments[..], &["--if-match", "3"]].concat(),
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        text(&output.stdout).contains("ETag         \"4\"\n"),
        "{output:?}"
    );
    let request = server.request();
    assert_eq!(request.line(), format!("PATCH /v1/links/{ID}"));
    assert_eq!(request.header("if-match"), Some("\"3\""));
    assert_eq!(
        request.json(),
        json!({ "destination_url": "https://example.org/" })
    );

    let (output, server) = run(vec![answer()], &[&arguments[..], &["--json"]].concat());
    assert_eq!(text(&output.stdout), format!("{}\n", link()));
    assert_eq!(server.request().header("if-match"), None);
}

#[test]
fn update_sends_only_the_given_members() {
    for (options, patch) in [
        (
            &["--title", "Spring", "--tag", "a", "--tag", "b"][..],
            json!({ "title": "Spring", "tags": ["a", "b"] }),
        ),
        (
            &["--title", "", "--tag", "", "--expires-at", ""],
            json!({ "title": null, "tags": null, "expires_at": null }),
        ),
        (&["--disable"], json!({ "disabled": true })),
        (&["--enable"], json!({ "disabled": false })),
    ] {
        let mut disabled = link();
        disabled["disabled"] = true.into();
        disabled["disabled_by"] = "owner".into();
        let command = [&["links", "update", ID], options].concat();
        let (output, server) = run(vec![Reply::json(200, &disabled)], &command);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(
            text(&output.stdout).contains("Disabled by  owner\n"),
            "{output:?}"
        );
        assert_eq!(server.request().json(), patch);
    }
    let (output, _server) = run(Vec::new(), &["links", "update", ID]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("name a change"), "{output:?}");
}

#[test]
fn update_with_lost_response_is_not_reported_refused() {
    let script = || vec![Reply::Nothing, Reply::problem(412, "", "etag_mismatch")];
    let update = [
        "links",
        "update",
        ID,
        "--destination-url",
        "https://example.org/",
    ];
    let (output, _server) = run(script(), &[&update[..], &["--if-match", "3"]].concat());
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(
        text(&output.stderr).contains("may have taken effect already"),
        "{output:?}"
    );
    let (output, _server) = run(
        script().split_off(1),
        &[&update[..], &["--if-match", "3"]].concat(),
    );
    assert_eq!(output.status.code(), Some(5), "{output:?}");
}

#[test]
fn write_waits_until_lists_contain_the_link() {
    let script = vec![
        Reply::Answer {
            status: 204,
            headers: "consistency-token: AQAA\r\n",
            body: String::new(),
        },
        Reply::problem(503, "", "read_model_behind"),
    ];
    let (output, server) = run(script, &["links", "delete", ID, "--if-match", "*"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(text(&output.stdout), "");
    assert_eq!(text(&output.stderr), format!("deleted {ID}\n"));
    let request = server.request();
    assert_eq!(request.line(), format!("DELETE /v1/links/{ID}"));
    assert_eq!(request.header("if-match"), Some("*"));
    let request = server.request();
    assert_eq!(request.line(), "GET /v1/links?limit=1");
    assert_eq!(request.header("consistency-token"), Some("AQAA"));
}

#[test]
fn slug_or_short_address_names_the_link_to_write() {
    let found = json!({ "items": [link()], "next_cursor": null, "has_more": false });
    let found = || Reply::json(200, &found);
    let deleted = Reply::Answer {
        status: 204,
        headers: "",
        body: String::new(),
    };
    let (output, server) = run(vec![found(), deleted], &["links", "delete", "spring"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(text(&output.stderr), format!("deleted {ID}\n"));
    assert_eq!(server.request().line(), "GET /v1/links?slug=spring");
    assert_eq!(server.request().line(), format!("DELETE /v1/links/{ID}"));

    let script = vec![found(), Reply::json(200, &link())];
    let get = ["links", "get", "http://127.0.0.1:8081/spring"];
    let (output, server) = run(script, &get);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(server.request().line(), "GET /v1/links?slug=spring");
    assert_eq!(server.request().line(), format!("GET /v1/links/{ID}"));

    // The address of another place ends like the short address, and is no name of the link.
    let update = [
        "links",
        "update",
        "https://example.com/spring",
        "--destination-url",
        "https://example.com/2",
    ];
    let (output, server) = run(vec![found()], &update);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let error = text(&output.stderr);
    assert!(
        error.contains("no link with the short address example.com/spring"),
        "{error}"
    );
    assert_eq!(server.requests().len(), 1);
}
