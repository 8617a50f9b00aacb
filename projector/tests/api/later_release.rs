//! During a rolling upgrade, the older release receives events that only the later one knows.

use std::time::Duration;

use linkledger_core::{cloud_event::PublishedEvent, shard::Shard};
use linkledger_projector::{
    operations::parked::{SkipRequest, retry, skip},
    pipeline::consumer::Consumer,
    read_models::Projection,
};
use linkledger_testing::{LaterEvent, append_later_event, eventually};
use serde_json::json;
use sqlx::raw_sql;
use tokio::time::sleep;
use uuid::Uuid;

use crate::{
    events::destination_changed,
    fixture::Fixture,
    parking::neighbours,
    poisoned::{paint, parkings, restore, rewrite, tables_without},
    tables::{Tables, checkpoints_of},
    verified::assert_nothing_is_wrong,
};

#[tokio::test]
async fn unknown_event_in_log_stops_no_other_account() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let account_id = fixture.account_with_links("frozen", 1).await;
    let other = fixture.neighbour_with_links(account_id, "other", 1).await;
    let link = fixture.append_links(account_id, "later", 1).await.remove(0);
    let sound = fixture.log().await;
    for (stream_id, event_type) in [
        (link.link_id.uuid(), "LinkFrozen"),
        // A stream of a kind that this release does not know.
        (Uuid::nil(), "DomainAdded"),
    ] {
        let event = LaterEvent {
            account_id,
            stream_id,
            event_type,
            schema_version: 1,
            payload: json!({ "of": ["a", "later", "release"] }),
            metadata: json!({ "link": { "frozen": true } }),
            idempotency_key: None,
        };
        append_later_event(pool, event).await;
    }
    let projector = fixture.projector().await;
    fixture.append_links(other, "afterwards", 1).await;
    let log = fixture.log().await;
    let mut expected = Tables::of_log(&[&sound[..], &log[sound.len() + 2..]].concat());
    expected.checkpoints = checkpoints_of(&log);
    eventually("all but the account is complete", || async {
        (Tables::read(pool).await == expected).then_some(())
    })
    .await;
    let detail = "unknown event `LinkFrozen` version 1".to_owned();
    let parked = Projection::ALL.map(|it| (it, 9, "unknown_event", detail.clone(), 2));
    assert_eq!(parkings(pool, account_id).await, parked);
    projector.stop().await;
}

#[tokio::test]
async fn unknown_event_is_received_from_topic() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("topic", 1).await;
    let mut log = fixture.log().await;
    log[0].event.event_type = "SomethingNew".to_owned();
    log[1].event.schema_version = 2;
    let log = fixture.signed(log).await;
    let pool = fixture.database.pool().clone();
    let mut consumer = Consumer::new(&fixture.config(), pool).unwrap();
    consumer
        .set_shards(&[Shard::of(account_id)].into())
        .unwrap();
    let kinds = |events: &[PublishedEvent]| -> Vec<_> {
        let events = events.iter().map(|it| &it.event);
        let kinds = events.map(|it| (it.position, it.event_type.clone(), it.schema_version));
        kinds.collect()
    };
    let mut delivered = Vec::new();
    while !kinds(&delivered).ends_with(&kinds(&log)) {
        // The consumer begins at the end of the topic, wherever that is when the broker has told it.
        fixture.publish(&log).await;
        let deadline = sleep(Duration::from_millis(100));
        delivered.extend(consumer.receive(100, deadline).await.unwrap());
    }
    consumer.close().await;
}

#[tokio::test]
async fn later_release_applies_events_parked_by_older() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let (account_id, other) = neighbours(&fixture).await;
    let log = fixture.log().await;
    paint(pool, &log[7]).await;
    let older = fixture.projector().await;
    fixture.publish(&fixture.log().await).await;
    eventually("the account is parked", || async {
        (parkings(pool, account_id).await.len() == Projection::ALL.len()).then_some(())
    })
    .await;
    fixture.append_links(other, "meanwhile", 2).await;
    fixture.append_links(account_id, "too", 2).await;
    fixture.publish(&fixture.log().await[32..]).await;
    eventually("its later events wait too", || async {
        (parkings(pool, account_id).await[0].4 == 18).then_some(())
    })
    .await;
    older.stop().await;

    // The next release can decode the event.
    restore(pool, &log[7]).await;
    let later = fixture.projector().await;
    fixture.eventually_complete().await;
    later.stop().await;
}

/// Gives an event these metadata, as if it had been written like that.
async fn set_metadata(fixture: &Fixture, event: &PublishedEvent, metadata: &str) {
    let (shard, position) = (event.event.shard, event.event.position);
    let change = format!("metadata = '{metadata}'");
    rewrite(fixture.database.pool(), shard, position, &change).await;
}

#[tokio::test]
async fn unknown_state_of_link_parks_only_its_account() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let (account_id, other) = neighbours(&fixture).await;
    let links = fixture.append_links(account_id, "state", 2).await;
    let sound = fixture.log().await.len();
    let changes = [
        destination_changed(&links[0], "https://e.com/1"),
        destination_changed(&links[1], "https://e.com/2"),
    ];
    fixture.append(account_id, &changes).await;
    fixture.append_links(other, "afterwards", 1).await;
    let log = fixture.log().await;
    let [first, second] = [&log[sound], &log[sound + 1]];
    let metadata_before = serde_json::to_string(&first.event.metadata).unwrap();
    for (metadata, reason) in [
        (
            metadata_before.replace("{\"slug\"", "{\"frozen\":true,\"slug\""),
            "unknown field `frozen`",
        ),
        ("{}".to_owned(), "invalid type: null"),
        ("{\"actor\":7}".to_owned(), "invalid type: null"),
    ] {
        set_metadata(&fixture, first, &metadata).await;
        let mut followers = fixture.followers();
        followers.cycle(fixture.log().await).await.unwrap();
        let expected = tables_without(&log, account_id, first.event.position);
        assert_eq!(Tables::read(pool).await, expected);
        let parked = parkings(pool, account_id).await;
        assert_eq!(parked.len(), Projection::ALL.len(), "{parked:?}");
        for (_, position, name, detail, waiting) in parked {
            assert_eq!((position, waiting), (first.event.position, 2));
            assert_eq!(name, "unknown_event");
            assert!(detail.contains(reason), "{detail}");
        }
        assert_nothing_is_wrong(&fixture).await;
        raw_sql(
            "TRUNCATE read_model.parked_accounts, read_model.parked_events;
             UPDATE read_model.checkpoints SET position = 0",
        )
        .execute(pool)
        .await
        .unwrap();
    }
    // A skip of the event hides it until the next event of the link.
    fixture.apply_log().await;
    skip(
        &pool.clone().into(),
        SkipRequest {
            account_id,
            position: None,
            operator: "ada",
            reason: "ticket 7",
        },
    )
    .await
    .unwrap();
    retry(&pool.clone().into(), Some(account_id)).await.unwrap();
    let expected = Tables::of_log_but(&log, |it| it.event.event_id == first.event.event_id);
    assert_eq!(Tables::read(pool).await, expected);
    assert_nothing_is_wrong(&fixture).await;
    assert_eq!(second.event.version, 2);
    let again = destination_changed(&links[0], "https://e.com/3");
    fixture.append(account_id, &[again]).await;
    fixture.apply_log().await;
    set_metadata(&fixture, first, &metadata_before).await;
    assert_eq!(
        Tables::read(pool).await,
        Tables::of_log(&fixture.log().await)
    );
    assert_nothing_is_wrong(&fixture).await;
}
