//! `linkledger demo` on a running stack.

use std::path::Path;

use linkledger_testing::eventually;
use serde_json::Value;

use crate::{
    client::text,
    process::{Stack, data_folder, linkledger, run},
};

/// Runs the command, and returns its numbers of clicks: of people, of bots.
fn demo(folder: &Path) -> (u64, u64) {
    let output = run(folder, &["demo"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed = text(&output.stdout);
    let (_, rest) = printed.split_once(" links, with ").unwrap();
    let (people, rest) = rest.split_once(" clicks of people and ").unwrap();
    let (bots, _) = rest.split_once(" of bots").unwrap();
    (people.parse().unwrap(), bots.parse().unwrap())
}

/// Returns the figures of the account, as `linkledger clicks` shows them.
fn totals(folder: &Path) -> (u64, u64) {
    let output = linkledger(folder, &["clicks", "--json"])
        .env("LINKLEDGER_API_KEY_FILE", folder.join("made_up_key"))
        .output()
        .unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let total = |name: &str| answer["totals"][name].as_u64().unwrap();
    (total("clicks"), total("bots"))
}

#[tokio::test]
async fn demo_run_twice_makes_each_click_once() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &[]);
    let (people, bots) = demo(folder.path());
    assert!(people > 25_000 && bots > 3_000, "{people} {bots}");
    // The second run also has the clicks of the meantime.
    let again = demo(folder.path());
    assert!(
        again.0 < people + 3_000 && again.1 < bots + 500,
        "{again:?}"
    );
    let are_counted = async || (totals(folder.path()) == again).then_some(());
    eventually("the clicks are counted", are_counted).await;
    // The account of the stack has none of the links.
    assert!(stack.http().list_all().await.is_empty());
    assert_eq!(stack.interrupt(), Some(0));
}
