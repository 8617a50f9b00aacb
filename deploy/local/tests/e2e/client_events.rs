//! `linkledger events`, against servers that answer as a test wants them to.

use std::{
    io::{BufRead as _, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    client::{ID, command, run, text},
    scripted_server::{Reply, Request, ScriptedServer},
};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A command that runs until it is interrupted.
pub(crate) struct Follower {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Follower {
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    pub(crate) fn line(&mut self) -> String {
        self.lines
            .next()
            .expect("it prints a further line")
            .unwrap()
    }

    /// Ends the command as Ctrl-C does; returns the exit code and the text on standard error.
    pub(crate) fn interrupt(self) -> (Option<i32>, String) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        kill(pid, Signal::SIGINT).unwrap();
        let output = self.child.wait_with_output().unwrap();
        (output.status.code(), text(&output.stderr).to_owned())
    }
}

fn event(number: u32, event_type: &str, data: &Value) -> Value {
    json!({
        "id": format!("evt_{number}"),
        "type": event_type,
        "time": "2026-11-20T09:51:00.123Z",
        "sequence": number,
        "data": data,
    })
}

fn deleted(number: u32) -> Value {
    let data = json!({ "link_id": ID, "account_id": "acc_1", "slug": format!("Spring-{number}") });
    event(number, "LinkDeleted", &data)
}

fn page(items: &[Value], next_cursor: &str, has_more: bool) -> Reply {
    let page = json!({ "items": items, "next_cursor": next_cursor, "has_more": has_more });
    Reply::json(200, &page)
}

#[test]
fn events_are_printed_up_to_the_end() {
    let granted = json!({ "account_id": "acc_1", "amount": 7, "balance_after": 7 });
    let granted = event(1, "CreditsGranted", &granted);
    let script = || {
        vec![
            page(std::slice::from_ref(&granted), "c1", true),
            page(&[], "c2", true),
            page(&[deleted(9)], "c3", false),
        ]
    };
    let arguments = ["events", "--from", "2026-11-20T00:00:00Z"];
    let (output, server) = run(script(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        text(&output.stdout),
        "2026-11-20T09:51:00Z  CreditsGranted          -                               \
         amount: 7; balance_after: 7\n\
         2026-11-20T09:51:00Z  LinkDeleted             lnk_01jd3k5x7zexrbfmv2pcg9h4ta  \
         slug: Spring-9\n"
    );
    let notice = "Go on from about here with --after c3\n";
    assert_eq!(text(&output.stderr), notice);
    assert_eq!(
        server.request().line(),
        "GET /v1/events?from=2026-11-20T00%3A00%3A00Z&limit=100"
    );
    for cursor in ["c1", "c2"] {
        let line = format!("GET /v1/events?after={cursor}&limit=100");
        assert_eq!(server.request().line(), line);
    }

    let arguments = ["events", "--after", "c0", "--types", "A,B", "--json"];
    let (output, server) = run(script(), &arguments);
    let lines = format!("{granted}\n{}\n", deleted(9));
    assert_eq!(text(&output.stdout), lines, "{output:?}");
    assert_eq!(text(&output.stderr), "");
    assert_eq!(
        server.request().line(),
        "GET /v1/events?after=c0&types=A%2CB&limit=100"
    );
}

#[test]
fn follower_waits_until_ctrl_c() {
    let script = vec![
        page(&[], "c1", false),
        page(&[deleted(9)], "c2", false),
        Reply::Hold,
    ];
    let server = ScriptedServer::start(script);
    let mut events = command(&server.url, &["events", "--follow", "--from", "now"]);
    let mut follower = Follower::start(&mut events);
    assert!(follower.line().ends_with("slug: Spring-9"));
    let lines = [(); 3].map(|()| server.request().line().to_owned());
    assert_eq!(
        lines,
        [
            "GET /v1/events?from=now&limit=100&wait=25",
            "GET /v1/events?after=c1&limit=100&wait=25",
            "GET /v1/events?after=c2&limit=100&wait=25",
        ]
    );
    let (code, notice) = follower.interrupt();
    assert_eq!(code, Some(0), "{notice}");
    assert!(notice.ends_with("--after c2\n"), "{notice}");
}

#[test]
fn feed_whose_cursor_repeats_ends() {
    let script = vec![
        page(&[deleted(9)], "c1", true),
        page(&[deleted(10)], "c1", true),
    ];
    let (output, _server) = run(script, &["events"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let error = text(&output.stderr);
    assert!(error.contains("not as the API"), "{error}");
}

/// Computes HMAC-SHA256 by its definition (RFC 2104), for keys of at most a block.
fn hmac_sha256(key: &[u8], message: &str) -> Vec<u8> {
    let padded = |pad: u8| -> Vec<u8> {
        let key = key.iter().copied().chain(std::iter::repeat(0));
        key.take(64).map(|byte| byte ^ pad).collect()
    };
    let hash = |pad, message: &[u8]| {
        let hash = Sha256::new().chain_update(padded(pad));
        hash.chain_update(message).finalize().to_vec()
    };
    hash(0x5c, &hash(0x36, message.as_bytes()))
}

/// Checks that the request is a delivery of the event, as receivers of Standard Webhooks do.
fn assert_delivers(request: &Request, event: &Value) {
    assert_eq!(request.line(), "POST /hook?x=1");
    assert_eq!(request.header("content-type"), Some("application/json"));
    let id = request.header("webhook-id").unwrap();
    assert_eq!(id, event["id"]);
    let timestamp = request.header("webhook-timestamp").unwrap();
    let body = request.body();
    let key = STANDARD.decode(&SECRET["whsec_".len()..]).unwrap();
    let code = hmac_sha256(&key, &format!("{id}.{timestamp}.{body}"));
    let signature = format!("v1,{}", STANDARD.encode(code));
    assert_eq!(request.header("webhook-signature"), Some(&signature[..]));
    let expected =
        json!({ "type": event["type"], "timestamp": event["time"], "data": event["data"] });
    assert_eq!(request.json(), expected);
}

#[test]
fn each_event_is_forwarded_until_it_is_accepted() {
    let refused = || Reply::problem(500, "", "x");
    let accepted = || Reply::json(200, &Value::Null);
    let receiver = ScriptedServer::start(vec![refused(), Reply::Nothing, accepted(), accepted()]);
    let hook = format!("{}/hook?x=1", receiver.url);
    let feed = ScriptedServer::start(vec![page(&[deleted(9), deleted(10)], "c1", false)]);
    let mut events = command(&feed.url, &["events", "--forward-to", &hook]);
    let output = events
        .env("LINKLEDGER_WEBHOOK_SECRET", SECRET)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(text(&output.stdout).lines().count(), 2, "{output:?}");
    let notices: Vec<&str> = text(&output.stderr).lines().collect();
    assert_eq!(notices.len(), 3, "{notices:?}");
    assert_eq!(
        notices[0],
        "evt_9 is not delivered: the receiver answers 500 Internal Server Error; retrying in 500ms"
    );
    assert!(notices[1].ends_with("; retrying in 1s"), "{notices:?}");

    let requests = receiver.requests();
    assert_eq!(requests.len(), 4, "{requests:?}");
    for request in &requests[..3] {
        assert_delivers(request, &deleted(9));
        assert_eq!(request.body(), requests[0].body());
    }
    assert_delivers(&requests[3], &deleted(10));
}

#[test]
fn contradictory_options_end_before_any_request() {
    for (arguments, message) in [
        (&["--from", "now", "--after", "c1"][..], "--after"),
        (&["--forward-to", "localhost:3000"], "http or https"),
        (&["--forward-to", "http://localhost:3000/"], "--secret"),
        (
            &[
                "--forward-to",
                "http://localhost:3000/",
                "--secret",
                "whsec_hidden",
            ],
            "24 to 64 bytes",
        ),
    ] {
        let (output, server) = run(Vec::new(), &[&["events"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let error = text(&output.stderr);
        assert!(
            error.contains(message) && !error.contains("hidden"),
            "{error}"
        );
        assert!(server.requests().is_empty());
    }
}
