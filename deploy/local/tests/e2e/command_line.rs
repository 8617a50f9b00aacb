use std::{fs::File, process::Command};

use serde_json::json;

use crate::{
    client::{command, link, run, text},
    process::data_folder,
    scripted_server::{Reply, ScriptedServer},
};

#[test]
fn invalid_arguments_end_before_any_request() {
    for (arguments, message) in [
        (
            &["links", "get", "spring sale"][..],
            "its slug or its short address",
        ),
        (
            &[
                "links",
                "create",
                "https://x.example",
                "--idempotency-key",
                "1",
            ],
            "UUID",
        ),
        (&["links", "list", "--api-key", "x"], "--api-key"),
        (
            &["credits", "--api-url", "ftp://example.com"],
            "http or https",
        ),
        (&["--api-port", "1", "links", "list"], "behind the command"),
    ] {
        let (output, server) = run(Vec::new(), arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains(message), "{output:?}");
        assert!(server.requests().is_empty());
    }
}

#[test]
fn completions_exist_for_every_shell() {
    let folder = data_folder();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linkledger"));
        let output = command.args(["completions", shell]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        for word in ["links", "idempotency-key", "entries"] {
            assert!(text(&output.stdout).contains(word), "{shell} {word}");
        }
        if shell == "bash" {
            let script = folder.path().join(shell);
            std::fs::write(&script, &output.stdout).unwrap();
            assert!(
                Command::new("bash")
                    .arg("-n")
                    .arg(script)
                    .status()
                    .unwrap()
                    .success()
            );
        }
    }
}

#[test]
fn closed_pipe_ends_a_list_without_an_error() {
    let page = json!({ "items": [link()], "next_cursor": "c1" });
    let server = ScriptedServer::start(vec![Reply::json(200, &page)]);
    let mut command = command(&server.url, &["links", "list", "--all"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command.stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
}

#[test]
fn create_with_full_output_prints_the_key() {
    let server = ScriptedServer::start(vec![Reply::json(201, &link())]);
    let mut command = command(&server.url, &["links", "create", "https://example.com/"]);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = command.stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let key = server
        .request()
        .header("idempotency-key")
        .unwrap()
        .to_owned();
    assert!(
        text(&output.stderr).contains(&format!(
            "created, under the idempotency key {key}: can't write"
        )),
        "{output:?}"
    );
}
