//! `docs/openapi.json` is what the handlers say.

use std::{env, fs, path::Path};

use utoipa::openapi::OpenApi;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
const REWRITE: &str = "REWRITE_OPENAPI";

fn document() -> OpenApi {
    linkledger_command_api::openapi::openapi().merge_from(linkledger_query_api::openapi::openapi())
}

#[test]
fn the_committed_document_is_what_the_handlers_say() {
    let said = document().to_pretty_json().unwrap() + "\n";
    if env::var_os(REWRITE).is_some() {
        fs::write(Path::new(FILE), &said).unwrap();
    }
    let committed = fs::read_to_string(FILE).unwrap_or_default();
    assert!(
        committed == said,
        "docs/openapi.json is out of date; rewrite it and read the difference:\n\
         {REWRITE}=1 cargo test -p linkledger --test e2e openapi && git diff docs/openapi.json"
    );
}
