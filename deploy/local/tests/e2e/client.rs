//! The client's commands, run against a server that answers as a test wants it to.

use std::process::{Command, Output};

use serde_json::{Value, json};

pub(crate) use crate::process::text;
use crate::{
    process::{data_folder, linkledger},
    scripted_server::{Reply, ScriptedServer},
};

pub(crate) const ID: &str = "lnk_01jd3k5x7zexrbfmv2pcg9h4ta";

pub(crate) fn link() -> Value {
    json!({
        "id": ID,
        "short_url": "http://127.0.0.1:8081/Spring",
        "destination_url": "https://example.com/",
        "created_at": "2026-11-20T09:51:00.123Z",
    })
}

/// A command line that calls this server.
pub(crate) fn command(url: &str, arguments: &[&str]) -> Command {
    let folder = data_folder();
    let mut command = linkledger(folder.path(), arguments);
    command
        .env("LINKLEDGER_API_URL", url)
        .env("LINKLEDGER_API_KEY", "the-key");
    command
}

/// Runs a command against a server with that script.
pub(crate) fn run(script: Vec<Reply>, arguments: &[&str]) -> (Output, ScriptedServer) {
    let server = ScriptedServer::start(script);
    let output = command(&server.url, arguments).output().unwrap();
    (output, server)
}
