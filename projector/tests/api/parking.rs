//! Poison events park their account: its events wait from the poison event on, others go on.

use std::{collections::BTreeSet, sync::Arc};

use linkledger_core::{id::AccountId, shard::Shard};
use linkledger_projector::{
    operations::pause::{self, FollowerName, PauseChange},
    pipeline::{
        apply::{ApplyConflict, ShardBatch, apply},
        checkpoint::{Checkpoint, Role},
        decode::BatchEvent,
        parking::{ParkedAccount, listing},
    },
    read_models::{Projection, skipped::Skipped},
};
use linkledger_testing::in_all;

use crate::{
    fixture::Fixture,
    poisoned::{paint, parkings, restore, rewrite, tables_without},
    tables::{Tables, checkpoints_of},
};

/// Creates an account with 21 events, and another with 11 events in the same shard.
pub(crate) async fn neighbours(fixture: &Fixture) -> (AccountId, AccountId) {
    let account_id = fixture.account_with_links("poison", 10).await;
    let other = fixture.neighbour_with_links(account_id, "other", 5).await;
    (account_id, other)
}

#[tokio::test]
async fn undecodable_event_parks_only_its_account() {
    for (change, reason, detail) in [
        (
            "type = 'LinkPainted'",
            "unknown_event",
            "unknown event `LinkPainted` version 1",
        ),
        (
            "schema_version = 2",
            "unknown_event",
            "unknown event `LinkCreated` version 2",
        ),
        (
            "payload = '{}'",
            "malformed_payload",
            "malformed payload of `LinkCreated`: missing field `link_id` at line 1 column 2",
        ),
    ] {
        let fixture = Fixture::new().await;
        let pool = fixture.database.pool();
        let (account_id, other) = neighbours(&fixture).await;
        let shard = Shard::of(account_id);
        rewrite(pool, shard, 8, change).await;
        let mut followers = fixture.followers();
        followers.cycle(fixture.log().await).await.unwrap();
        let parked = |waiting| {
            Projection::ALL
                .map(|it| (it, 8, reason, detail.to_owned(), waiting))
                .to_vec()
        };
        assert_eq!(parkings(pool, account_id).await, parked(14), "{change}");

        fixture.append_links(account_id, "later", 2).await;
        fixture.append_links(other, "also-later", 2).await;
        let log = fixture.log().await;
        followers.cycle(log.clone()).await.unwrap();
        assert_eq!(parkings(pool, account_id).await, parked(18), "{change}");
        let tables = Tables::read(pool).await;
        assert_eq!(tables, tables_without(&log, account_id, 8), "{change}");
    }
}

#[tokio::test]
async fn refused_row_parks_only_in_its_projection() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let (account_id, other) = neighbours(&fixture).await;
    sqlx::query("ALTER TABLE read_model.links_1 ADD CONSTRAINT picky CHECK (slug <> 'poison-3X')")
        .execute(pool)
        .await
        .unwrap();
    let log = fixture.log().await;
    let mut followers = fixture.followers();
    followers.cycle(log.clone()).await.unwrap();
    // The grant is at position 1, followed by two events for each link.
    let parked = parkings(pool, account_id).await;
    assert_eq!(parked.len(), 1, "{parked:?}");
    let (projection, position, reason, detail, waiting) = &parked[0];
    assert_eq!((*projection, *position), (Projection::Links, 8));
    assert_eq!((*reason, *waiting), ("refused_row", 14));
    assert!(detail.contains("picky"), "{detail}");
    let (tables, expected) = (Tables::read(pool).await, Tables::of_log(&log));
    assert_eq!(tables.without_links(), expected.without_links());
    assert_eq!(tables.links, tables_without(&log, account_id, 8).links);

    fixture.append_links(account_id, "later", 1).await;
    fixture.append_links(other, "also-later", 1).await;
    let log = fixture.log().await;
    followers.cycle(log.clone()).await.unwrap();
    let tables = Tables::read(pool).await;
    assert_eq!(tables.without_links(), Tables::of_log(&log).without_links());
}

/// Makes a statement on the table fail with the SQLSTATE while the condition on the new row holds.
async fn fail_rows(pool: &sqlx::PgPool, table: &str, condition: &str, sqlstate: &str) {
    let statements = format!(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'the row fails' USING ERRCODE = '{sqlstate}'; END $$;
         CREATE TRIGGER fail BEFORE INSERT ON read_model.{table} FOR EACH ROW
             WHEN ({condition}) EXECUTE FUNCTION fail()"
    );
    let statements = sqlx::raw_sql(sqlx::AssertSqlSafe(statements));
    statements.execute(pool).await.unwrap();
}

#[tokio::test]
async fn too_large_value_parks_only_its_account() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let (account_id, _) = neighbours(&fixture).await;
    // An index refuses a row of several kilobytes with class 54 (program limit exceeded).
    fail_rows(pool, "links_1", "NEW.slug = 'poison-3X'", "54000").await;
    let log = fixture.log().await;
    fixture.followers().cycle(log.clone()).await.unwrap();
    let parked = parkings(pool, account_id).await;
    assert_eq!(parked.len(), 1, "{parked:?}");
    assert_eq!((parked[0].0, parked[0].1), (Projection::Links, 8));
    let (tables, expected) = (Tables::read(pool).await, Tables::of_log(&log));
    assert_eq!(tables.without_links(), expected.without_links());
}

#[tokio::test]
async fn damaged_table_pauses_only_its_projection() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let (account_id, _) = neighbours(&fixture).await;
    fail_rows(pool, "links_1", "true", "XX001").await;
    let mut followers = fixture.followers();
    let log = fixture.log().await;
    followers.cycle(log.clone()).await.unwrap();
    assert!(parkings(pool, account_id).await.is_empty());
    let paused = pause::paused(pool, &FollowerName::ALL).await.unwrap();
    let paused = paused.into_iter().filter(|(_, since)| since.is_some());
    assert_eq!(
        paused.map(|it| it.0).collect::<Vec<_>>(),
        [FollowerName::Links]
    );
    fixture.append_links(account_id, "later", 2).await;
    let log = fixture.log().await;
    followers.cycle(log.clone()).await.unwrap();
    let (tables, expected) = (Tables::read(pool).await, Tables::of_log(&log));
    assert!(tables.links.is_empty());
    assert_eq!(tables.redirects, expected.redirects);
    assert_eq!(tables.balances, expected.balances);

    // After the repair of the table, the projection continues where it stood.
    let repair = "DROP FUNCTION fail CASCADE";
    sqlx::raw_sql(repair).execute(pool).await.unwrap();
    let resume = PauseChange::Resume;
    pause::change(pool, &[FollowerName::Links], resume, "test", None)
        .await
        .unwrap();
    let projector = fixture.projector().await;
    fixture.eventually_complete().await;
    projector.stop().await;
}

#[tokio::test]
async fn refused_rows_of_batch_park_only_their_accounts() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let first = fixture.account_with_links("first", 20).await;
    let second = fixture.neighbour_with_links(first, "second", 20).await;
    let third = fixture.neighbour_with_links(first, "third", 20).await;
    // Text in Postgres has no NUL: rows of links and of redirects are refused, and of every read
    // model with the destination.
    for position in [4, 45, 47] {
        let change = r"payload = replace(payload::text, '/example', '/\u0000example')::json";
        rewrite(pool, Shard::of(first), position, change).await;
    }
    fixture.apply_log().await;
    for (account_id, position) in [(first, Some(4)), (second, Some(45)), (third, None)] {
        let parked = parkings(pool, account_id).await;
        for projection in [Projection::Links, Projection::Redirects] {
            let found = parked.iter().find(|it| it.0 == projection);
            assert_eq!(found.map(|it| it.1), position, "{parked:?}");
        }
    }
    let balances = Tables::read(pool).await.balances;
    assert_eq!(balances.len(), 3);
    for balance in balances.values() {
        assert_eq!(balance.0, 1_000_000 - 20);
    }
}

#[tokio::test]
async fn parked_account_survives_restart_and_takeover() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let (mut first, mut second) = (fixture.followers(), fixture.followers());
    // Both processes remember the checkpoints from before the parking.
    for followers in [&mut first, &mut second] {
        followers.cycle(Vec::new()).await.unwrap();
    }
    let (account_id, other) = neighbours(&fixture).await;
    let log = fixture.log().await;
    paint(pool, &log[7]).await;
    first.cycle(fixture.log().await).await.unwrap();

    // The second process takes over without knowing of the parking.
    fixture.append_links(account_id, "later", 1).await;
    second.cycle(fixture.log().await).await.unwrap();
    second.cycle(Vec::new()).await.unwrap();
    fixture.append_links(other, "also-later", 1).await;
    let mut restarted = fixture.followers();
    restarted.cycle(fixture.log().await).await.unwrap();
    fixture.append_links(account_id, "at-last", 1).await;
    restarted.cycle(fixture.log().await).await.unwrap();

    restore(pool, &log[7]).await;
    let log = fixture.log().await;
    let tables = Tables::read(pool).await;
    assert_eq!(tables, tables_without(&log, account_id, 8));
    assert_eq!(parkings(pool, account_id).await[0].4, 18);
}

#[tokio::test]
async fn batch_with_released_account_is_rolled_back() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let account_id = fixture.account_with_links("released", 3).await;
    let shard = Shard::of(account_id);
    let log = fixture.log().await;
    let beginning = Checkpoint {
        generation: 1,
        epoch: 1,
        position: 0,
    };
    // The batch has a stale view: the account was released meanwhile.
    let parked: BTreeSet<_> = Projection::ALL
        .map(|projection| ParkedAccount {
            projection,
            generation: 1,
            shard,
            account_id,
        })
        .into();
    let late = ShardBatch {
        shard,
        checkpoints: Projection::ALL.map(|it| (it, beginning)).to_vec(),
        events: log
            .into_iter()
            .map(|it| Arc::new(BatchEvent::decode(it.event)))
            .collect(),
        parked,
        skipped: Skipped::default(),
    };
    let outcome = apply(pool, &[late], Role::Live).await.unwrap();
    assert_eq!(outcome, Err(ApplyConflict::AccountReleased));
    assert_eq!(Tables::read(pool).await, Tables::default());
}

#[tokio::test]
async fn checkpoint_set_back_reproduces_rows_and_parking() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let (account_id, _) = neighbours(&fixture).await;
    let log = fixture.log().await;
    paint(pool, &log[7]).await;
    fixture.apply_log().await;
    sqlx::query("UPDATE read_model.checkpoints SET position = 0")
        .execute(pool)
        .await
        .unwrap();
    // The events before the poison event wait at first; the release applies them again.
    let mut followers = fixture.followers();
    followers.cycle(fixture.log().await).await.unwrap();
    while followers.has_work() {
        followers.cycle(Vec::new()).await.unwrap();
    }
    let tables = Tables::read(pool).await;
    assert_eq!(tables, tables_without(&log, account_id, 8));
    let waiting: Vec<_> = parkings(pool, account_id)
        .await
        .iter()
        .map(|it| it.4)
        .collect();
    assert_eq!(waiting, in_all(14));
}

#[tokio::test]
async fn thousand_parked_accounts_stop_no_other() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let other = fixture.account_with_links("other", 1).await;
    let shard = Shard::of(other).number();
    sqlx::query(
        "INSERT INTO event_store.events (shard, position, stream_id, version, account_id,
             event_id, type, schema_version, payload, metadata, recorded_at)
         SELECT shard, head + n, id, 1, id, gen_random_uuid(), 'CreditsPainted', 1, '{}', '{}',
                now()
         FROM event_store.log_shards, generate_series(1, 1200) AS n,
              LATERAL (SELECT md5(n::text)::uuid AS id) AS account
         WHERE shard = $1",
    )
    .bind(shard)
    .execute(pool)
    .await
    .unwrap();
    sqlx::query("UPDATE event_store.log_shards SET head = head + 1200 WHERE shard = $1")
        .bind(shard)
        .execute(pool)
        .await
        .unwrap();
    fixture.append_links(other, "later", 1).await;
    let log = fixture.log().await;
    let mut followers = fixture.followers();
    followers.cycle(log.clone()).await.unwrap();
    let parked = listing::list(pool, None, 10_000).await.unwrap();
    assert_eq!(parked.len(), Projection::ALL.len() * 1_200);

    fixture.append_links(other, "at-last", 1).await;
    let log = fixture.log().await;
    followers.cycle(log.clone()).await.unwrap();
    let own: Vec<_> = log
        .iter()
        .filter(|it| it.event.account_id == other)
        .cloned()
        .collect();
    let mut expected = Tables::of_log(&own);
    expected.checkpoints = checkpoints_of(&log);
    assert_eq!(Tables::read(pool).await, expected);
}
