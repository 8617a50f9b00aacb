use std::{collections::BTreeSet, env, fs, path::Path};

use linkledger_core::credits::CreditsCharged;
use linkledger_testing as testing;
use time::macros::datetime;

use super::*;

const REWRITE: &str = "REWRITE_RENDERERS";

/// Returns the settled create of a link with all optional members.
fn settled(renderer: u8) -> CreateResult {
    let charge = include_str!("../../../core/tests/events/CreditsCharged.v1.json");
    let charge: CreditsCharged = serde_json::from_str(charge).unwrap();
    let destination = "https://example.com/offers?season=spring";
    CreateResult {
        fingerprint: [0; 32],
        link: testing::link_created(charge.link_id, charge.account_id, "Spring-26", destination),
        charge,
        created_at: datetime!(2026-11-20 09:51:00.123 UTC),
        renderer,
        position: 2,
    }
}

fn members(object: &Value) -> BTreeSet<&String> {
    object.as_object().unwrap().keys().collect()
}

/// Returns the golden file in the folder. If `rewrite` is true and the file is missing, writes the
/// body to the file first: a file that exists never changes.
fn golden(folder: &Path, renderer: u8, body: &[u8], rewrite: bool) -> String {
    let path = folder.join(format!("created_link.v{renderer}.json"));
    if rewrite && !path.exists() {
        fs::write(&path, [body, b"\n"].concat()).unwrap();
    }
    fs::read_to_string(&path).unwrap_or_else(|error| {
        let path = path.display();
        panic!("{path}: {error}; write the file: {REWRITE}=1 cargo test -p linkledger-command-api --lib renderer")
    })
}

#[test]
fn renderers_never_change() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for renderer in 1..=CURRENT {
        let body = render(&settled(renderer)).unwrap();
        let golden = golden(&folder, renderer, &body, env::var_os(REWRITE).is_some());
        assert_eq!(
            String::from_utf8(body).unwrap(),
            golden.trim_end(),
            "renderer {renderer} has changed; raise `CURRENT` instead"
        );
    }
    let beyond = folder.join(format!("created_link.v{}.json", CURRENT + 1));
    assert!(!beyond.exists(), "{} is beyond `CURRENT`", beyond.display());
}

#[test]
fn unknown_renderer_renders_nothing() {
    assert_eq!(render(&settled(0)), None);
    assert_eq!(render(&settled(CURRENT + 1)), None);
}

#[test]
fn current_body_has_all_members_of_the_example() {
    let body: Value = serde_json::from_slice(&render(&settled(CURRENT)).unwrap()).unwrap();
    assert_eq!(members(&body), members(&CreatedLink::example()));
}

#[test]
fn rewrite_keeps_an_existing_golden_file() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(golden(folder.path(), 1, b"first", true), "first\n");
    assert_eq!(golden(folder.path(), 1, b"second", true), "first\n");
}
