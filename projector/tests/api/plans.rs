//! Every statement of the projector uses an index, at every size of the tables, also with a plan
//! that was made while the tables were empty.

use linkledger_core::{cloud_event::PublishedEvent, event::Subject, id::LinkId, shard::Shard};
use linkledger_event_store::log::{self, ReadFrom};
use linkledger_projector::{
    operations::{
        parked::retry,
        status::collect,
        verify::subject::{VerifiedSubject, verify},
    },
    pipeline::{followers::Followers, redirect_changes::prune},
    read_models::Projection,
};
use linkledger_service::databases::Databases;

use crate::{
    events::{adjusted, deleted, destination_changed, disabled, enabled, resumed, suspended},
    fixture::Fixture,
    large_tables::{LARGE, apply, end_both, fill, reads, sessions},
    poisoned::{paint, restore},
    verified::first_generation,
};

/// Maximum number of index entries that the statements below may read: more than they have rows, and
/// fewer than a large account has links.
const ENTRIES_MAX: i64 = 5_000;
const LINKS: usize = 8;
/// Links of an account whose tables have statistics.
const LARGE_ACCOUNT_LINKS: usize = 6_000;
const BATCH_LENGTH: usize = 7;

/// Runs every statement, on existing links and on links of the same batch.
async fn project(fixture: &Fixture, sessions: &Databases, name: &str) {
    let heads = log::heads(fixture.database.pool()).await.unwrap();
    let account_id = fixture.account_with_links(name, 0).await;
    for link in fixture.append_links(account_id, name, LINKS).await {
        let events = [
            destination_changed(&link, "https://elsewhere.example/"),
            disabled(&link),
            enabled(&link),
            suspended(account_id, true),
            deleted(&link),
            resumed(account_id),
            adjusted(account_id, 1, 1_000_000),
        ];
        fixture.append(account_id, &events).await;
    }
    let shard = Shard::of(account_id);
    let from = ReadFrom {
        shard,
        after: heads[shard.index()],
    };
    let news = log::read_after(fixture.database.pool(), &[from], 1_000).await;
    let mut news: Vec<PublishedEvent> = news
        .unwrap()
        .into_iter()
        .map(|event| PublishedEvent::new(event, 1))
        .collect();
    assert_eq!(news.len(), 1 + 9 * LINKS);
    // The account is parked in between, and released at the end.
    let unknown = news[4 * LINKS].clone();
    paint(fixture.database.pool(), &unknown).await;
    "LinkPainted".clone_into(&mut news[4 * LINKS].event.event_type);
    let mut followers = Followers::new(sessions.clone());
    followers.set_shards(&Shard::all().collect());
    for batch in news.chunks(BATCH_LENGTH) {
        followers.cycle(batch.to_vec()).await.unwrap();
    }
    restore(fixture.database.pool(), &unknown).await;
    let retried = retry(sessions, Some(account_id)).await.unwrap();
    let released = retried
        .iter()
        .filter(|it| it.released && it.applied > LINKS);
    assert_eq!(released.count(), Projection::ALL.len(), "{retried:?}");
    prune(&sessions.read).await.unwrap();
    let link_id = LinkId::from_uuid(news[1].event.stream_id);
    look_at(sessions, link_id).await;
}

/// Runs the statements of the operators' commands.
async fn look_at(sessions: &Databases, link_id: LinkId) {
    collect(sessions).await.unwrap();
    let link = VerifiedSubject::find(&sessions.log, Subject::Link(link_id)).await;
    let link = link.unwrap();
    for target in Projection::ALL.map(first_generation) {
        let verified = verify(sessions, target, &link).await.unwrap();
        assert!(verified.found.findings.is_empty(), "{verified:?}");
    }
}

async fn assert_reads_by_key(fixture: &Fixture, before: (i64, i64), what: &str) {
    let after = reads(fixture.database.pool()).await;
    assert_eq!(after.0 - before.0, 0, "{what}");
    let entries = after.1 - before.1;
    assert!((1..ENTRIES_MAX).contains(&entries), "{what}: {entries}");
}

#[tokio::test]
async fn statements_use_keys_at_every_table_size() {
    let fixture = Fixture::new().await;
    for (name, rows) in [("empty", 0), ("small", 320), ("large", LARGE)] {
        fill(fixture.database.pool(), rows).await;
        let before = reads(fixture.database.pool()).await;
        let sessions = sessions(&fixture);
        project(&fixture, &sessions, name).await;
        end_both(&fixture, sessions).await;
        assert_reads_by_key(&fixture, before, name).await;
    }
}

#[tokio::test]
async fn statistics_of_one_large_account_use_keys() {
    let fixture = Fixture::new().await;
    fixture
        .account_with_links("large", LARGE_ACCOUNT_LINKS)
        .await;
    let log = fixture.log().await;
    apply(&fixture, &log).await;
    sqlx::query("ANALYZE")
        .execute(fixture.database.pool())
        .await
        .unwrap();
    let newest = log
        .iter()
        .rev()
        .find(|it| it.event.event_type == "LinkCreated");
    let link_id = LinkId::from_uuid(newest.unwrap().event.stream_id);
    let before = reads(fixture.database.pool()).await;
    let sessions = sessions(&fixture);
    look_at(&sessions, link_id).await;
    project(&fixture, &sessions, "beside").await;
    end_both(&fixture, sessions).await;
    assert_reads_by_key(&fixture, before, "beside a large account").await;
}

#[tokio::test]
async fn plans_of_empty_tables_use_keys_later() {
    let fixture = Fixture::new().await;
    let sessions = sessions(&fixture);
    project(&fixture, &sessions, "empty").await;
    fill(fixture.database.pool(), LARGE).await;
    let before = reads(fixture.database.pool()).await;
    project(&fixture, &sessions, "large").await;
    end_both(&fixture, sessions).await;
    assert_reads_by_key(&fixture, before, "large").await;
}
