//! `log verify`: finds nothing in a sound log, and every damage.

mod damages;
mod sound_log;

use linkledger_testing::{TestDatabase, append_events, events::every_change, in_background};
use tokio_util::sync::CancellationToken;

use crate::cli::run;
use damages::DAMAGES;
use sound_log::{LINK_COUNT, SoundLog, account, append_links, seal, verify};

#[tokio::test]
async fn sound_log_has_no_findings() {
    let log = SoundLog::create().await;
    let (exit_code, verified) = verify(&log.database, &[]);
    assert_eq!(exit_code, Some(0), "{verified}");
    for (member, count) in [
        ("events", 23),
        ("links", 6),
        ("accounts", 2),
        ("segments", 3),
        ("unsealed_events", 8),
        ("finding_count", 0),
    ] {
        assert_eq!(verified[member], count, "{member}");
    }
    let shard = log.shard.to_string();
    let (exit_code, verified) = verify(&log.database, &["--shard", &shard]);
    assert_eq!(exit_code, Some(0), "{verified}");
    assert_eq!(
        (&verified["events"], &verified["links"]),
        (&19.into(), &5.into())
    );

    let text = run(log.database.url(), &["log", "verify"]).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("verified in "), "{text}");
    assert!(
        text.ends_with(", sealed segments 3, events not sealed yet 8; nothing is wrong\n"),
        "{text}"
    );
}

#[tokio::test]
async fn log_of_every_type_of_event_has_no_findings() {
    let database = TestDatabase::create().await;
    let account_id = account(&database).await;
    let changes = every_change(database.pool(), account_id, "every").await;
    append_events(database.pool(), account_id, &changes).await;
    let (exit_code, verified) = verify(&database, &[]);
    assert_eq!(exit_code, Some(0), "{verified}");
    assert_eq!(
        (&verified["accounts"], &verified["keys"]),
        (&1.into(), &2.into())
    );
}

#[tokio::test]
async fn every_damage_is_found_at_its_position() {
    let log = SoundLog::create().await;
    let mut wrong = Vec::new();
    for (damage, expected) in DAMAGES {
        let found = log.damaged(damage).await;
        let is_expected = found.len() == expected.len()
            && found
                .iter()
                .zip(*expected)
                .all(|(found, expected)| found.0 == expected.0 && found.1.contains(expected.1));
        if !is_expected {
            wrong.push(format!("{damage}: {found:#?}"));
        }
    }
    assert!(wrong.is_empty(), "found otherwise: {}", wrong.join("\n"));
    assert_eq!(verify(&log.database, &[]).0, Some(0));
}

#[tokio::test]
async fn only_first_hundred_findings_are_printed() {
    let log = SoundLog::create().await;
    append_links(&log.database, log.account_id, 60).await;
    let shard = log.shard;
    log.execute(&format!(
        "UPDATE event_store.events SET payload = '{{}}' WHERE shard = {shard} AND position > 19"
    ))
    .await;
    let output = run(log.database.url(), &["log", "verify"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 102, "{text}");
    let first =
        format!("shard {shard}, position 20: the event can't be read: malformed payload of");
    assert!(lines[0].starts_with(&first), "{}", lines[0]);
    assert_eq!(lines[100], "… and 20 more");
    assert!(lines[101].ends_with("; findings 120"), "{}", lines[101]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message, "error: the log is not sound: 120 findings\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn growing_log_has_no_findings() {
    let log = SoundLog::create().await;
    let writing = CancellationToken::new();
    let (database, stop) = (log.database.share(), writing.clone());
    let writer = in_background(async move {
        let mut links = 0;
        while !stop.is_cancelled() {
            let account_id = account(&database).await;
            links += append_links(&database, account_id, 3).await.len();
            seal(&database).await;
        }
        links
    });
    for _ in 0..5 {
        let (exit_code, verified) = verify(&log.database, &[]);
        assert_eq!(exit_code, Some(0), "{verified}");
    }
    writing.cancel();
    let written = writer.await.unwrap() + LINK_COUNT + 1;
    let (_, verified) = verify(&log.database, &[]);
    assert_eq!(verified["links"], written);
}
