//! For `.ci/tidy-log`: what the tests have logged, and what must not be in it. Where the variable
//! `LINKLEDGER_RECORD_DIR` names a folder, every secret that a test is given is noted there, and
//! every log line at level debug, libraries included.

use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    path::PathBuf,
    sync::{Mutex, Once},
};

use axum::http::HeaderMap;

/// The variable that names the folder.
const FOLDER: &str = "LINKLEDGER_RECORD_DIR";
/// Shorter texts may stand in a log by chance.
const SECRET_LENGTH_MIN: usize = 16;

static LOGS: Once = Once::new();

/// What must not be logged.
#[derive(Debug, Clone, Copy)]
pub enum Secret {
    /// An API key.
    ApiKey,
    /// An idempotency key.
    IdempotencyKey,
    /// A consistency token.
    ConsistencyToken,
    /// A cursor of a list.
    Cursor,
    /// The query of a destination.
    DestinationQuery,
}

/// Notes a secret.
pub fn secret(kind: Secret, text: &str) {
    let Some(mut file) = open("secrets") else {
        return;
    };
    assert!(
        text.len() >= SECRET_LENGTH_MIN,
        "too short to look for: {text}"
    );
    // One write, which is not mixed with that of another process.
    file.write_all(format!("{kind:?} {text}\n").as_bytes())
        .expect("the record is written");
}

/// Notes what a create carries.
pub fn create(idempotency_key: &str, body: &serde_json::Value) {
    secret(Secret::IdempotencyKey, idempotency_key);
    let destination = body["destination_url"].as_str().unwrap_or_default();
    if let Some((_, query)) = destination.split_once('?')
        && query.len() >= SECRET_LENGTH_MIN
    {
        secret(Secret::DestinationQuery, query);
    }
}

/// Notes what an answer hands out.
pub fn answer(headers: &HeaderMap, body: &[u8]) {
    let token = headers.get("consistency-token");
    if let Some(token) = token.and_then(|token| token.to_str().ok()) {
        secret(Secret::ConsistencyToken, token);
    }
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    if let Some(cursor) = body["next_cursor"].as_str() {
        secret(Secret::Cursor, cursor);
    }
}

/// Writes what this process logs from here on to a file of its own.
pub fn logs() {
    LOGS.call_once(|| {
        let Some(file) = open(&format!("{}.log", std::process::id())) else {
            return;
        };
        tracing_subscriber::fmt()
            .json()
            .with_max_level(tracing::Level::DEBUG)
            .with_writer(Mutex::new(file))
            .init();
    });
}

/// Lets a process that a test starts log to a file of its own, at level debug.
pub fn logs_of(command: &mut std::process::Command, name: &str) {
    if let Some(file) = open(&format!("{name}-{}.log", std::process::id())) {
        command.env("RUST_LOG", "debug").stderr(file);
    }
}

fn open(name: &str) -> Option<File> {
    let path = PathBuf::from(std::env::var_os(FOLDER)?).join(name);
    let file = OpenOptions::new().append(true).create(true).open(path);
    Some(file.expect("the record can be written"))
}
