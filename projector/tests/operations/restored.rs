//! A log that was restored from a backup, and the runbook for the restore.

use std::time::{Duration, Instant};

use linkledger_core::{cloud_event::PublishedEvent, shard::Shard};

use crate::{
    cycles::{cycle_until, cycle_until_idle, floor},
    fixture::Fixture,
    rebuild::{TO_SWAP, rebuild_all, sessions},
    tables::Tables,
};

async fn apply_until_complete(fixture: &Fixture) {
    let mut followers = fixture.followers();
    let log = fixture.log().await;
    for _ in 0..1_000 {
        followers.cycle(Vec::new()).await.unwrap();
        if Tables::read(fixture.database.pool()).await == Tables::of_log(&log) {
            return;
        }
    }
    panic!("the read tables do not become what the log says");
}

async fn run(fixture: &Fixture, statement: &str) {
    let statement = sqlx::AssertSqlSafe(statement.to_owned());
    let done = sqlx::raw_sql(statement).execute(fixture.database.pool());
    done.await.unwrap();
}

/// Returns the position of each projection in a shard.
async fn positions(fixture: &Fixture, shard: Shard) -> Vec<(String, i64)> {
    sqlx::query_as(
        "SELECT projection, position FROM read_model.checkpoints
         WHERE shard = $1 AND role = 'live' ORDER BY projection",
    )
    .bind(shard.number())
    .fetch_all(fixture.database.pool())
    .await
    .unwrap()
}

#[tokio::test]
async fn projection_of_other_log_is_refused_until_repaired() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("refused", 1).await;
    let shard = Shard::of(account_id);
    let other = fixture.account_with_links("other", 1).await;
    let mut others = vec![other];
    while Shard::of(others[0]) == shard {
        let prefix = format!("another-{}", others.len());
        others.insert(0, fixture.account_with_links(&prefix, 1).await);
    }
    let other = Shard::of(others[0]);
    let heads = linkledger_event_store::log::heads(fixture.database.pool());
    let heads = heads.await.unwrap();
    let (head, other_head) = (heads[shard.index()], heads[other.index()]);
    for (wrong, refused_at, repaired) in [
        ("position = 99", 99, "position = 0"),
        ("epoch = 7", 0, "epoch = 1"),
    ] {
        let set = |to: &str, shard: Shard| {
            format!("UPDATE read_model.checkpoints SET {to} WHERE shard = {shard};")
        };
        // Only one projection has the wrong checkpoint.
        let one = format!(
            "{} AND projection = 'links'",
            set(wrong, shard).trim_end_matches(';')
        );
        let empty = "TRUNCATE read_model.links, read_model.redirects, read_model.credit_balances,
            read_model.credit_entries;
            UPDATE read_model.checkpoints SET position = 0, epoch = 1;";
        run(&fixture, &[empty, &one].concat()).await;
        let mut followers = fixture.followers();
        cycle_until(&fixture, &mut followers, (other, other_head)).await;
        cycle_until_idle(&mut followers).await;
        // The other projections of the shard go on.
        let expected = [
            ("credits", head),
            ("links", refused_at),
            ("redirects", head),
        ];
        assert_eq!(
            positions(&fixture, shard).await,
            expected.map(|(name, at)| (name.to_owned(), at))
        );
        run(&fixture, &set(repaired, shard)).await;
        cycle_until(&fixture, &mut followers, (shard, head)).await;
    }
}

#[tokio::test]
async fn shard_stays_refused_when_log_grows_beyond_checkpoint() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("first", 1).await;
    let shard = Shard::of(account_id);
    let heads = async || {
        let heads = linkledger_event_store::log::heads(fixture.database.pool());
        heads.await.unwrap()[shard.index()]
    };
    // The read tables, on a server of their own, have an event that the log has lost.
    let lost = heads().await + 1;
    let set = |position| {
        format!("UPDATE read_model.checkpoints SET position = {position} WHERE shard = {shard}")
    };
    run(&fixture, &set(lost)).await;
    let mut followers = fixture.followers();
    followers.cycle(Vec::new()).await.unwrap();
    fixture.append_links(account_id, "later", 2).await;
    // A refused shard is checked again every second.
    let until = Instant::now() + Duration::from_millis(2_500);
    while Instant::now() < until {
        followers.cycle(Vec::new()).await.unwrap();
    }
    assert_eq!(floor(&fixture, shard).await, lost);
    run(&fixture, &set(0)).await;
    cycle_until(&fixture, &mut followers, (shard, heads().await)).await;
}

#[tokio::test]
async fn rebuild_after_raised_epoch_resumes_projections() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("before", 3).await;
    apply_until_complete(&fixture).await;
    let mut followers = fixture.followers();
    cycle_until(&fixture, &mut followers, (Shard::of(account_id), 7)).await;
    run(&fixture, "UPDATE event_store.log_meta SET epoch = 2").await;
    let before = Tables::read(fixture.database.pool()).await;
    fixture.append_links(account_id, "after", 2).await;
    let mut restarted = fixture.followers();
    restarted.cycle(Vec::new()).await.unwrap();
    assert_eq!(Tables::read(fixture.database.pool()).await, before);

    rebuild_all(&sessions(&fixture), TO_SWAP).await;
    let log = fixture.log().await;
    let rebuilt = Tables::read_generation(fixture.database.pool(), 2).await;
    assert_eq!(rebuilt, Tables::of_log(&log));
    let epochs = "SELECT DISTINCT epoch FROM read_model.checkpoints WHERE role = 'live'";
    let epochs: Vec<i32> = sqlx::query_scalar(epochs)
        .fetch_all(fixture.database.pool())
        .await
        .unwrap();
    assert_eq!(epochs, [2]);
    // Running processes continue with the new epoch.
    fixture.append_links(account_id, "last", 1).await;
    for followers in [&mut restarted, &mut followers] {
        cycle_until(&fixture, followers, (Shard::of(account_id), 13)).await;
    }
}

#[tokio::test]
async fn running_projector_stops_at_raised_epoch() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("before", 3).await;
    let shard = Shard::of(account_id);
    let mut followers = fixture.followers();
    cycle_until(&fixture, &mut followers, (shard, 7)).await;
    run(&fixture, "UPDATE event_store.log_meta SET epoch = 2").await;
    let until = Instant::now() + Duration::from_mins(2);
    while followers
        .reports()
        .iter()
        .any(|(_, positions)| positions.iter().any(Option::is_some))
    {
        assert!(Instant::now() < until, "it goes on in the former epoch");
        followers.cycle(Vec::new()).await.unwrap();
    }
    fixture.append_links(account_id, "after", 2).await;
    let log = fixture.log().await.into_iter();
    let log = log.map(|it| PublishedEvent { log_epoch: 2, ..it });
    followers.cycle(log.collect()).await.unwrap();
    cycle_until_idle(&mut followers).await;
    assert_eq!(floor(&fixture, shard).await, 7);
}
