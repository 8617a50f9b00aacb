//! Changes for redirect caches: each change, no creation, numbered without gaps.

use std::collections::BTreeSet;

use linkledger_core::{link::LinkCreated, shard::Shard};
use linkledger_event_store::{SessionKind, transaction::PoolTransaction};
use linkledger_projector::{
    pipeline::followers::Followers, read_models::redirects::RedirectChanges,
};
use linkledger_testing::{eventually, in_background, sessions_waiting_for_lock};
use sqlx::raw_sql;
use uuid::Uuid;

use crate::{
    cache_changes::{changes, numbers, subjects_of_log},
    events::{deleted, destination_changed, disabled, enabled, resumed, suspended},
    fixture::Fixture,
    tables::Tables,
};

/// Returns projected links, and the followers that projected them.
async fn projected_links(fixture: &Fixture) -> (Vec<LinkCreated>, Followers) {
    let account_id = fixture.account_with_links("other", 1).await;
    let links = fixture.append_links(account_id, "Link", 3).await;
    let mut followers = fixture.followers();
    followers.cycle(fixture.log().await).await.unwrap();
    (links, followers)
}

#[tokio::test]
async fn changes_are_appended_and_creations_are_not() {
    let fixture = Fixture::new().await;
    let (links, mut followers) = projected_links(&fixture).await;
    let (link, account_id) = (&links[0], links[0].account_id);
    assert_eq!(changes(fixture.database.pool()).await, []);
    let events = [
        destination_changed(link, "https://elsewhere.example/"),
        disabled(link),
        enabled(link),
        deleted(link),
        suspended(account_id, true),
        suspended(account_id, false),
        resumed(account_id),
    ];
    for event in events {
        fixture.append(account_id, &[event]).await;
        followers.cycle(fixture.log().await).await.unwrap();
    }
    let slug = |number| (number, Some("link-0x".to_owned()), None);
    let account = |number| (number, None, Some(account_id.uuid()));
    assert_eq!(
        changes(fixture.database.pool()).await,
        [
            slug(1),
            slug(2),
            slug(3),
            slug(4),
            account(5),
            account(6),
            account(7)
        ]
    );
}

#[tokio::test]
async fn batch_appends_each_slug_and_account_once() {
    let fixture = Fixture::new().await;
    let (links, mut followers) = projected_links(&fixture).await;
    let account_id = links[0].account_id;
    let events = [
        disabled(&links[2]),
        disabled(&links[1]),
        suspended(account_id, true),
        enabled(&links[2]),
        resumed(account_id),
        deleted(&links[1]),
    ];
    fixture.append(account_id, &events).await;
    followers.cycle(fixture.log().await).await.unwrap();
    assert_eq!(
        changes(fixture.database.pool()).await,
        [
            (1, Some("link-1x".to_owned()), None),
            (2, Some("link-2x".to_owned()), None),
            (3, None, Some(account_id.uuid())),
        ]
    );
}

#[tokio::test]
async fn duplicates_and_zombies_append_no_changes() {
    let fixture = Fixture::new().await;
    let (links, mut followers) = projected_links(&fixture).await;
    let mut zombie = fixture.followers();
    zombie.cycle(fixture.log().await).await.unwrap();
    fixture
        .append(links[0].account_id, &[deleted(&links[0])])
        .await;
    let log = fixture.log().await;
    followers.cycle(log.clone()).await.unwrap();
    let appended = changes(fixture.database.pool()).await;
    assert_eq!(appended.len(), 1);

    zombie.cycle(log.clone()).await.unwrap();
    followers.cycle(log.clone()).await.unwrap();
    fixture.followers().cycle(log).await.unwrap();
    assert_eq!(changes(fixture.database.pool()).await, appended);
}

#[tokio::test]
async fn two_projectors_number_changes_without_gaps() {
    let fixture = Fixture::new().await;
    let first = fixture.projector().await;
    let second = fixture.projector().await;
    for name in ["one", "two", "three", "four"] {
        let account_id = fixture.account_with_links(name, 1).await;
        let links = fixture
            .append_links(account_id, &format!("more-{name}"), 10)
            .await;
        for link in links {
            fixture
                .append(account_id, &[disabled(&link), deleted(&link)])
                .await;
        }
        fixture.publish(&fixture.log().await).await;
    }
    fixture.eventually_complete().await;
    first.stop().await;
    second.stop().await;
    let appended = changes(fixture.database.pool()).await;
    let last: i64 =
        sqlx::query_scalar("SELECT last_number FROM read_model.redirect_change_counter")
            .fetch_one(fixture.database.pool())
            .await
            .unwrap();
    let numbers = numbers(fixture.database.pool()).await;
    assert_eq!(numbers, (1..=last).collect::<Vec<_>>());
    let subjects: BTreeSet<_> = appended.into_iter().map(|row| (row.1, row.2)).collect();
    assert_eq!(subjects, subjects_of_log(&fixture.log().await));
}

#[tokio::test]
async fn numbers_become_visible_in_order() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let change_of = |slug: &str| {
        let mut changes = RedirectChanges::default();
        changes.add_slug(slug);
        changes
    };
    let mut first = PoolTransaction::begin(pool).await.unwrap();
    change_of("first").append_in_tx(&mut first).await.unwrap();
    let mut second = PoolTransaction::begin(pool).await.unwrap();
    sqlx::raw_sql("SET LOCAL statement_timeout = '2min'")
        .execute(&mut *second)
        .await
        .unwrap();
    let second = in_background(async move {
        change_of("second").append_in_tx(&mut second).await.unwrap();
        second.commit().await.unwrap();
    });
    eventually("the second one waits", async || {
        let waiting = sessions_waiting_for_lock(pool).await;
        (waiting == 1).then_some(())
    })
    .await;
    assert_eq!(changes(pool).await, []);
    first.commit().await.unwrap();
    second.await.unwrap();
    let row = |number, slug: &str| (number, Some(slug.to_owned()), None);
    assert_eq!(changes(pool).await, [row(1, "first"), row(2, "second")]);
}

#[tokio::test]
async fn rolled_back_number_is_reused() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    for commits in [false, true] {
        let mut changed = RedirectChanges::default();
        changed.add_account(Uuid::nil());
        let mut tx = PoolTransaction::begin(pool).await.unwrap();
        changed.append_in_tx(&mut tx).await.unwrap();
        if commits {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
    }
    assert_eq!(changes(pool).await, [(1, None, Some(Uuid::nil()))]);
}

#[tokio::test]
async fn only_batches_with_changes_commit_synchronously() {
    let fixture = Fixture::new().await;
    let (links, _) = projected_links(&fixture).await;
    // The triggers are deferred, so that they read the setting in effect at the COMMIT.
    raw_sql(
        "CREATE TABLE settings (told text, value text);
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO settings
             VALUES (TG_ARGV[0], current_setting('synchronous_commit'));
             RETURN NULL;
         END $$;
         CREATE CONSTRAINT TRIGGER note_link AFTER INSERT ON read_model.links
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note('creation');
         CREATE CONSTRAINT TRIGGER note_change AFTER INSERT ON read_model.redirect_changes
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note('change');",
    )
    .execute(fixture.database.pool())
    .await
    .unwrap();
    let pool =
        linkledger_event_store::pool(fixture.database.url(), SessionKind::Projector, 1).unwrap();
    let mut followers = Followers::new(pool.into());
    followers.set_shards(&Shard::all().collect());
    let account_id = links[0].account_id;
    for (step, link) in links.iter().enumerate() {
        fixture
            .append_links(account_id, &format!("new-{step}"), 1)
            .await;
        followers.cycle(fixture.log().await).await.unwrap();
        fixture.append(account_id, &[deleted(link)]).await;
        followers.cycle(fixture.log().await).await.unwrap();
    }
    let settings: Vec<(String, String, i64)> =
        sqlx::query_as("SELECT told, value, count(*) FROM settings GROUP BY 1, 2 ORDER BY 1, 2")
            .fetch_all(fixture.database.pool())
            .await
            .unwrap();
    let noted = |told: &str, value: &str| (told.to_owned(), value.to_owned(), 3);
    assert_eq!(settings, [noted("change", "on"), noted("creation", "off")]);
}

#[tokio::test]
async fn replay_reproduces_rows_and_appends_changes_again() {
    let fixture = Fixture::new().await;
    let (links, mut followers) = projected_links(&fixture).await;
    let account_id = links[0].account_id;
    fixture
        .append(
            account_id,
            &[
                deleted(&links[0]),
                disabled(&links[1]),
                suspended(account_id, true),
            ],
        )
        .await;
    let log = fixture.log().await;
    followers.cycle(log.clone()).await.unwrap();
    sqlx::query("UPDATE read_model.checkpoints SET position = 0")
        .execute(fixture.database.pool())
        .await
        .unwrap();
    fixture.followers().cycle(log.clone()).await.unwrap();
    assert_eq!(
        Tables::read(fixture.database.pool()).await,
        Tables::of_log(&log)
    );
    assert_eq!(numbers(fixture.database.pool()).await, [1, 2, 3, 4, 5, 6]);
}
