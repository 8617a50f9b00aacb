//! `linkledger demo` on a running stack.

use std::path::Path;

use linkledger_core::timestamp;
use linkledger_testing::eventually;
use serde_json::Value;
use sqlx::PgPool;
use time::Duration;

use crate::process::{Stack, data_folder, linkledger, run, text};

/// Runs the command, and returns its numbers of clicks (of people, of bots), its first UTC day, and the number of
/// published clicks.
fn demo(folder: &Path) -> ((u64, u64), String, u64) {
    let output = run(folder, &["demo"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed = text(&output.stdout);
    let (_, rest) = printed.split_once(" links, with ").unwrap();
    let (people, rest) = rest.split_once(" clicks of people and ").unwrap();
    let (bots, rest) = rest.split_once(" of bots in the 7 days until ").unwrap();
    let (until, _) = rest.split_once(".\n").unwrap();
    let first_day = timestamp::parse(until).unwrap().date() - Duration::days(6);
    let clicks = (people.parse().unwrap(), bots.parse().unwrap());
    let said = text(&output.stderr);
    let (_, published) = said.split_once("published ").unwrap();
    let (published, _) = published.split_once(" click").unwrap();
    let published = published.replace(',', "").parse().unwrap();
    (clicks, first_day.to_string(), published)
}

/// Returns the statistics of the account since a day, as `linkledger clicks` shows them.
fn totals(folder: &Path, from: &str) -> (u64, u64) {
    let output = linkledger(folder, &["clicks", "--json", "--from", from])
        .env("LINKLEDGER_API_KEY_FILE", folder.join("made_up_key"))
        .output()
        .unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let total = |name: &str| answer["totals"][name].as_u64().unwrap();
    (total("clicks"), total("bots"))
}

#[tokio::test]
async fn demo_run_twice_publishes_and_counts_each_click_once() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &[]);
    let ((people, bots), _, published) = demo(folder.path());
    assert!(people > 25_000 && bots > 3_000, "{people} {bots}");
    assert_eq!(published, people + bots);
    let url = &stack.environment()["DATABASE_URL"];
    let pool = PgPool::connect(url).await.unwrap();
    let are_counted = async || {
        let statement = "SELECT sum(sequence)::bigint FROM clicks.sequences";
        let counted: Option<i64> = sqlx::query_scalar(statement)
            .fetch_one(&pool)
            .await
            .unwrap();
        (counted?.unsigned_abs() == published).then_some(())
    };
    eventually("the statistics have the clicks", are_counted).await;
    // The second run also has the clicks of the meantime, and after midnight of UTC its first day is a later one.
    let (again, first_day, published) = demo(folder.path());
    assert!(published < 3_500, "{published}");
    assert!(
        again.0 < people + 3_000 && again.1 < bots + 500,
        "{again:?}"
    );
    let are_counted = async || (totals(folder.path(), &first_day) == again).then_some(());
    eventually("the clicks are counted", are_counted).await;
    // The account of the stack has none of the links.
    assert!(stack.http().list_all().await.is_empty());
    assert_eq!(stack.interrupt(), Some(0));
}
