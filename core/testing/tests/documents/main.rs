//! Documents for consumers, generated from the types: `docs/schemas`, `docs/asyncapi.json`.

use std::{env, fs, path::PathBuf};

mod asyncapi;
mod clicks;
mod events_page;
mod schemas;

const REWRITE: &str = "REWRITE_DOCUMENTS";

/// Returns the path of a file of the repository.
fn file(path: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../..", path].iter().collect()
}

/// Compares the committed file with the generated text. If the variable is set, rewrites the file.
fn assert_committed(path: &str, said: &serde_json::Value) {
    let said = format!("{said:#}\n");
    if env::var_os(REWRITE).is_some() {
        fs::write(file(path), &said).expect("it can be written");
    }
    let committed = fs::read_to_string(file(path)).unwrap_or_default();
    assert!(
        committed == said,
        "{path} is out of date; rewrite it and read the difference:\n\
         {REWRITE}=1 cargo test -p linkledger-testing --test documents && git diff docs"
    );
}
