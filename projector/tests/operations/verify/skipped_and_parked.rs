//! `verify` expects neither skipped nor waiting events.

use std::collections::HashSet;

use linkledger_core::{
    clock::{Clock as _, SystemClock, new_uuid},
    cloud_event::PublishedEvent,
    id::EventId,
};
use linkledger_projector::operations::{parked::retry, verify::FindingKind};
use proptest::{prelude::*, sample::Index};
use sqlx::PgPool;
use tokio::runtime;

use super::{column_names, damage, findings, repair_all};
use crate::{
    equivalence::{Owner, apply_in_batches, request},
    events::{adjusted, destination_changed},
    fixture::Fixture,
    poisoned::{paint, restore},
    tables::{Tables, read_tables},
    verified::assert_nothing_is_wrong,
};

/// Skips an event, as `parked skip` does.
pub(super) async fn skip(pool: &PgPool, event: &PublishedEvent) {
    let event = &event.event;
    sqlx::query(
        "INSERT INTO read_model.skipped_events
             (projection, shard, position, event_id, account_id, event_type, operator, reason)
         SELECT projection, $1, $2, $3, $4, $5, 'ada', 'test' FROM read_model.projections
         ON CONFLICT DO NOTHING",
    )
    .bind(event.shard.number())
    .bind(event.position)
    .bind(event.event_id.uuid())
    .bind(event.account_id.uuid())
    .bind(&event.event_type)
    .execute(pool)
    .await
    .unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn skipped_events_hide_only_themselves(
        requests in prop::collection::vec(request(), 0..40),
        left_out in prop::collection::vec(any::<Index>(), 1..8),
    ) {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fixture = Fixture::new().await;
            let pool = fixture.database.pool();
            let mut owner = Owner::set_up(&fixture).await;
            for request in requests {
                owner.fulfil(&fixture, request).await;
            }
            let log = fixture.log().await;
            let mut skipped = HashSet::new();
            for index in left_out {
                let event = index.get(&log);
                skip(pool, event).await;
                skipped.insert(event.event.event_id.uuid());
            }
            let tables = apply_in_batches(&fixture, &log, &[7]).await;
            let expected = Tables::of_log_but(&log, |it| skipped.contains(&it.event.event_id.uuid()));
            assert_eq!(tables, expected);
            assert_nothing_is_wrong(&fixture).await;

            // A repair restores all rows from the remaining events.
            for table in read_tables() {
                super::execute(pool, &format!("DELETE FROM read_model.{table}")).await;
            }
            repair_all(&fixture).await;
            assert_eq!(Tables::read(pool).await, expected);
        });
    }
}

#[tokio::test]
async fn parked_account_is_compared_up_to_waiting_event() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let account_id = fixture.account_with_links("other", 1).await;
    let link = fixture
        .append_links(account_id, "parked", 1)
        .await
        .remove(0);
    let events = [
        destination_changed(&link, "https://later.example/"),
        adjusted(account_id, 5, 1_000_003),
    ];
    fixture.append(account_id, &events).await;
    let log = fixture.log().await;
    let change = log.iter().rev().nth(1).unwrap();
    paint(pool, change).await;
    fixture.apply_log().await;
    let parked = Tables::read(pool).await;
    assert_nothing_is_wrong(&fixture).await;

    for (statement, columns) in [
        (
            "UPDATE read_model.links SET slug = 'x' WHERE slug = 'parked-0X'",
            "slug",
        ),
        (
            "UPDATE read_model.links SET destination_url = 'https://later.example/', version = 2
             WHERE slug = 'parked-0X'",
            "destination_url,version",
        ),
        (
            "UPDATE read_model.redirects SET destination_url = 'https://later.example/'
             WHERE slug_key = 'parked-0x'",
            "destination_url",
        ),
        (
            "UPDATE read_model.credit_balances SET balance = 1000003, version = 4",
            "balance,version",
        ),
    ] {
        damage(pool, statement).await;
        let found = findings(&fixture).await;
        assert_eq!(column_names(&found[0]), columns, "{statement}");
        assert_eq!(repair_all(&fixture).await, 1, "{statement}");
        assert_eq!(Tables::read(pool).await, parked, "{statement}");
    }

    restore(pool, change).await;
    retry(&pool.clone().into(), None).await.unwrap();
    assert_eq!(Tables::read(pool).await, Tables::of_log(&log));
    assert_nothing_is_wrong(&fixture).await;
}

#[tokio::test]
async fn skip_excuses_no_other_event_there() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    fixture.account_with_links("owner", 3).await;
    let mut log = fixture.log().await;
    fixture.followers().cycle(log.clone()).await.unwrap();
    let charge = &mut log[4];
    let lost = format!(
        "DELETE FROM read_model.credit_entries WHERE entry_id = '{}'",
        charge.event.event_id.uuid()
    );
    damage(pool, &lost).await;
    // The skipped event is of the log before a restore.
    charge.event.event_id = EventId::from_uuid(new_uuid(SystemClock.now()));
    skip(pool, charge).await;
    let kinds: Vec<_> = findings(&fixture).await.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [FindingKind::Missing]);
}

#[tokio::test]
async fn wrong_account_of_skipped_creation_is_an_orphan() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    fixture.account_with_links("owner", 1).await;
    let other = fixture.account_with_links("other", 1).await;
    let log = fixture.log().await;
    fixture.followers().cycle(log.clone()).await.unwrap();
    let creation = log
        .iter()
        .find(|it| it.event.event_type == "LinkCreated" && it.event.account_id != other);
    skip(pool, creation.unwrap()).await;
    // The row was written before the skip, and has the wrong account.
    let wrong = format!(
        "UPDATE read_model.redirects SET account_id = '{}' WHERE slug_key = 'owner-0x'",
        other.uuid()
    );
    damage(pool, &wrong).await;
    damage(pool, "DELETE FROM read_model.links WHERE slug = 'owner-0X'").await;
    let kinds: Vec<_> = findings(&fixture).await.iter().map(|it| it.kind).collect();
    // The two tags of the link, and its redirect.
    assert_eq!(kinds, [FindingKind::Orphan; 3]);
    repair_all(&fixture).await;
    assert_nothing_is_wrong(&fixture).await;
}
