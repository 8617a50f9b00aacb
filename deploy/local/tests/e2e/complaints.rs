//! Wrong settings end the start with one line and exit code 1.

use std::{fs, net::TcpListener};

use crate::process::{Stack, data_folder, run};

fn complaint(folder: &std::path::Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.starts_with("error: "), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn port_in_use_error_names_the_option() {
    let folder = data_folder();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let text = complaint(folder.path(), &["--api-port", &port]);
    assert!(
        text.contains("--api-port") && text.contains(&port),
        "{text}"
    );
    let text = complaint(folder.path(), &["--api-port", "0", "--short-port", &port]);
    assert!(
        text.contains("--short-port") && text.contains(&port),
        "{text}"
    );
    let ports = ["--api-port", "0", "--short-port", "0"];
    let text = complaint(
        folder.path(),
        &[&ports[..], &["--admin-port", &port]].concat(),
    );
    assert!(
        text.contains("--admin-port") && text.contains(&port),
        "{text}"
    );
}

#[test]
fn wrong_database_error_names_the_option() {
    let folder = data_folder();
    for url in ["postgres://nobody@127.0.0.1:1/none", "not an address"] {
        let arguments = [
            "--api-port",
            "0",
            "--short-port",
            "0",
            "--admin-port",
            "0",
            "--database-url",
            url,
        ];
        let text = complaint(folder.path(), &arguments);
        assert!(text.contains("--database-url"), "{text}");
    }
}

#[test]
fn data_folder_creation_error_names_the_folder() {
    let folder = data_folder();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let text = complaint(
        &file.join("data"),
        &["--api-port", "0", "--short-port", "0", "--admin-port", "0"],
    );
    assert!(text.contains("file/data"), "{text}");
}

#[test]
fn data_folder_in_use_is_refused() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &[]);
    let text = complaint(
        folder.path(),
        &["--api-port", "0", "--short-port", "0", "--admin-port", "0"],
    );
    assert!(
        text.contains("in use by another linkledger process"),
        "{text}"
    );
    assert_eq!(stack.interrupt(), Some(0));
}
