//! Records the secrets and the log lines of the tests for `.ci/tidy-log`, which searches the log lines
//! for the secrets. The environment variable `LINKLEDGER_RECORD_DIR` names the folder of the records;
//! log lines are recorded at level debug, including the lines of libraries.

use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    path::PathBuf,
    sync::{
        Mutex, Once,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::http::HeaderMap;

/// Environment variable with the folder of the records.
const FOLDER: &str = "LINKLEDGER_RECORD_DIR";
/// Minimum length of a secret: a shorter text may appear in a log by chance.
const SECRET_LENGTH_MIN: usize = 16;

static LOGS: Once = Once::new();

/// Kind of a text that must not be logged.
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
    /// The secret of a webhook.
    WebhookSecret,
    /// The query of a destination.
    DestinationQuery,
    /// The address of the client of a click.
    ClientAddress,
    /// The user agent of a click.
    UserAgent,
    /// The referrer of a click.
    Referrer,
}

/// Records a secret.
pub fn secret(kind: Secret, text: &str) {
    let Some(mut file) = open("secrets") else {
        return;
    };
    assert!(
        text.len() >= SECRET_LENGTH_MIN,
        "secret too short for a search: {text}"
    );
    // A single write, so that the lines of several processes do not mix.
    file.write_all(format!("{kind:?} {text}\n").as_bytes())
        .expect("the record is written");
}

/// Records the secrets in a request that creates a link.
pub fn create(idempotency_key: &str, body: &serde_json::Value) {
    secret(Secret::IdempotencyKey, idempotency_key);
    let destination = body["destination_url"].as_str().unwrap_or_default();
    if let Some((_, query)) = destination.split_once('?')
        && query.len() >= SECRET_LENGTH_MIN
    {
        secret(Secret::DestinationQuery, query);
    }
}

/// Records the secrets in a response.
pub fn answer(headers: &HeaderMap, body: &[u8]) {
    let token = headers.get("consistency-token");
    if let Some(token) = token.and_then(|token| token.to_str().ok()) {
        secret(Secret::ConsistencyToken, token);
    }
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let cursor = body["next_cursor"].as_str();
    if let Some(cursor) = cursor.filter(|cursor| cursor.len() >= SECRET_LENGTH_MIN) {
        secret(Secret::Cursor, cursor);
    }
    let of_webhook = body["secret"].as_str();
    if let Some(text) = of_webhook.filter(|text| text.starts_with("whsec_")) {
        secret(Secret::WebhookSecret, text);
    }
}

/// Writes all further log lines of this process to a file.
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

/// Makes a child process of a test log to a file of its own, at level debug. Returns the file, or `None` if the
/// tests record nothing.
///
/// # Panics
/// Panics if the file cannot be written.
pub fn logs_of(command: &mut std::process::Command, name: &str) -> Option<File> {
    static PROCESSES: AtomicUsize = AtomicUsize::new(0);
    let nth = PROCESSES.fetch_add(1, Ordering::Relaxed);
    let file = open(&format!("{name}-{}-{nth}.log", std::process::id()))?;
    let written = file.try_clone().expect("a file can be opened twice");
    command.env("RUST_LOG", "debug").stderr(written);
    Some(file)
}

fn open(name: &str) -> Option<File> {
    let path = PathBuf::from(std::env::var_os(FOLDER)?).join(name);
    let mut options = OpenOptions::new();
    let file = options.append(true).read(true).create(true).open(path);
    Some(file.expect("the record can be written"))
}
