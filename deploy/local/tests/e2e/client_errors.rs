//! Errors of the client's commands: exit codes, and problem documents with `--json`.

use std::{
    net::TcpListener,
    os::unix::fs::symlink,
    process::{Command, Output},
};

use serde_json::{Value, json};

use crate::{
    client::{ID, command, run, text},
    process::{data_folder, linkledger},
    scripted_server::Reply,
};

/// Returns the only line of standard error, as JSON.
fn problem(output: &Output) -> Value {
    assert_eq!(text(&output.stdout), "", "{output:?}");
    assert_eq!(text(&output.stderr).lines().count(), 1, "{output:?}");
    serde_json::from_slice(&output.stderr).unwrap()
}

#[test]
fn every_command_prints_a_problem_as_it_was_sent() {
    let created = ["links", "create", "https://example.com/"];
    for (status, code, arguments) in [
        (404, 4, &["links", "get", ID][..]),
        (404, 4, &["links", "history", ID]),
        (404, 4, &["clicks", ID]),
        (409, 5, &created),
        (409, 5, &["events"]),
        (412, 5, &["links", "delete", ID, "--if-match", "3"]),
        (402, 6, &created),
        (403, 6, &["links", "update", ID, "--enable"]),
        (401, 6, &["credits"]),
        (400, 6, &["links", "list", "--cursor", "x"]),
        (422, 6, &created),
        (400, 6, &["links", "qr", ID]),
        (403, 6, &["links", "tags"]),
        (403, 6, &["credits", "entries"]),
    ] {
        let sent = json!({
            "type": "https://api.example.com/docs/problems/x", "title": "T", "status": status,
            "code": "x", "detail": "Do this.", "request_id": "req_1", "further": [1, null],
        });
        let arguments = [arguments, &["--json"]].concat();
        let (output, _server) = run(vec![Reply::json(status, &sent)], &arguments);
        assert_eq!(problem(&output), sent, "{arguments:?}");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn service_that_stays_unavailable_is_exit_code_7() {
    let busy = || Reply::problem(503, "", "overloaded");
    let script = vec![busy(), busy(), busy(), busy(), busy()];
    let create = ["links", "create", "https://example.com/", "--json"];
    let (output, server) = run(script, &create);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let problem = problem(&output);
    assert_eq!(problem["code"], "overloaded");
    assert_eq!(problem["status"], 503);
    assert_eq!(problem["may_have_succeeded"], true);
    let requests = server.requests();
    let key = requests[0].header("idempotency-key").unwrap();
    let detail = problem["detail"].as_str().unwrap();
    let advice = format!("--idempotency-key {key}");
    assert!(detail.contains(&advice), "{detail}");
}

#[test]
fn error_of_the_client_itself_is_json_too() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let output = command(&nobody, &["credits", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let no_answer = problem(&output);
    assert_eq!(no_answer["code"], "no_answer");
    assert_eq!(no_answer["may_have_succeeded"], false);

    let nothing = json!({ "items": [], "next_cursor": null });
    let get = ["links", "get", "gone", "--json"];
    let (output, _server) = run(vec![Reply::json(200, &nothing)], &get);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert_eq!(problem(&output)["code"], "link_not_found");

    for arguments in [
        &["links", "update", ID, "--json"][..],
        &["links", "list", "--limit", "0", "--json"],
        &["--json", "links", "list"],
    ] {
        let (output, server) = run(Vec::new(), arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let problem = problem(&output);
        assert_eq!(problem["code"], "wrong_use");
        assert!(
            !problem["detail"].as_str().unwrap().contains("Usage"),
            "{problem}"
        );
        assert!(server.requests().is_empty());
    }

    let folder = data_folder();
    let output = linkledger(folder.path(), &["credits", "--json"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let detail = problem(&output)["detail"].to_string();
    assert!(detail.contains("LINKLEDGER_API_URL"), "{detail}");
}

#[test]
fn password_of_an_address_is_never_repeated() {
    for url in [
        "http://user:hidden-word@127.0.0.1:1/",
        "http://user:hidden-word@127.0.0.1:port/",
        "https://user:hidden@word@example.com/?x=1",
        "ftp://user:hidden-word@example.com",
        "user:hidden-word@example.com",
    ] {
        let option = ["credits", "--api-url", url];
        let outputs = [
            command("http://127.0.0.1:1", &option).output().unwrap(),
            command(url, &["credits", "--json"]).output().unwrap(),
            command(url, &["credits", "--help"]).output().unwrap(),
        ];
        for Output { stdout, stderr, .. } in outputs {
            let all = text(&stdout).to_owned() + text(&stderr);
            assert!(
                !all.contains("hidden") && !all.contains("word@"),
                "{url}: {all}"
            );
        }
    }
    let mut stack = Command::new(env!("CARGO_BIN_EXE_linkledger"));
    let output = stack
        .arg("postgres://user:hidden-word@host/x")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(!text(&output.stderr).contains("hidden"), "{output:?}");
}

#[test]
fn output_is_never_written_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let [victim, link, list] = ["victim", "link", "list.txt"].map(|name| folder.path().join(name));
    std::fs::write(&victim, "old").unwrap();
    std::fs::write(&list, "https://example.com/\n").unwrap();
    symlink(&victim, &link).unwrap();
    let (link, list) = (link.to_str().unwrap(), list.to_str().unwrap());
    for arguments in [
        &["export", "--out", link][..],
        &["import", list, "--out", link],
        &["import", list, "--refused", link],
        &["links", "qr", ID, "--format", "svg", "--out", link],
        &["export", "--out", "/dev/full"],
    ] {
        let (output, server) = run(Vec::new(), arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(server.requests().is_empty(), "{arguments:?}");
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "old");
}
