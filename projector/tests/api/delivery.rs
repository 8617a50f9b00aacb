//! Deliveries of the topic: in order, repeated, incomplete, and with foreign records.

use linkledger_core::shard::Shard;
use linkledger_projector::config::GroupProtocol;
use rdkafka::message::{Header, OwnedHeaders};

use crate::{events::destination_changed, poisoned::parkings, stage::Stage, tables::Tables};

#[tokio::test]
async fn published_events_reach_all_read_tables() {
    let stage = Stage::set().await;
    for name in ["first", "second", "third"] {
        stage.account_with_links(name, 20).await;
    }
    stage.publish(&stage.log().await).await;
    let projector = stage.projector_with("group", GroupProtocol::Classic).await;
    stage.eventually_complete().await;
    projector.stop().await;
}

#[tokio::test]
async fn republished_events_change_nothing() {
    let stage = Stage::set().await;
    let account_id = stage.account_with_links("again", 10).await;
    let projector = stage.projector("group").await;
    let log = stage.log().await;
    stage.publish(&log).await;
    stage.eventually_complete().await;

    stage.publish(&log[5..]).await;
    stage.publish(&log).await;
    stage.append_links(account_id, "later", 3).await;
    let log = stage.log().await;
    stage.publish(&log[18..]).await;
    stage.eventually_complete().await;
    projector.stop().await;
}

#[tokio::test]
async fn gaps_and_foreign_records_are_repaired_from_log() {
    let stage = Stage::set().await;
    let account_id = stage.account_with_links("hole", 10).await;
    let projector = stage.projector("group").await;
    let log = stage.log().await;
    stage.publish(&log[..4]).await;
    stage
        .publish_record(Shard::of(account_id), OwnedHeaders::new(), "what is this")
        .await;
    stage.publish(&log[9..12]).await;
    stage.publish(&log[15..]).await;
    stage.eventually_complete().await;
    projector.stop().await;
}

/// Headers and value of a record.
type Record = (Vec<(&'static str, String)>, String);

fn set((headers, _): &mut Record, name: &str, value: &str) {
    let header = headers.iter_mut().find(|(it, _)| *it == name);
    value.clone_into(&mut header.unwrap().1);
}

#[tokio::test]
async fn forged_and_altered_records_change_nothing() {
    let evil = r#"{"slug":"evil","created_at":"2026-11-20T09:51:00.123Z","destination_url":"https://evil.example/"}"#;
    let forgeries: &[&dyn Fn(&mut Record)] = &[
        &|it| set(it, "ce_linkstate", evil),
        &|it| {
            set(it, "ce_linkstate", evil);
            it.0.retain(|(name, _)| *name != "ce_mac");
        },
        &|it| it.0.push(("ce_linkstate", evil.to_owned())),
        &|it| it.0.retain(|(name, _)| *name != "ce_linkstate"),
        &|it| "{".clone_into(&mut it.1),
        &|it| set(it, "ce_logepoch", &i32::MAX.to_string()),
        &|it| set(it, "ce_sequence", "00000000000001000000"),
        // The same instant for a reader of milliseconds.
        &|it| set(it, "ce_time", &it.0[6].1.replace('Z', "999Z")),
    ];
    let stage = Stage::set().await;
    let account_id = stage.account_with_links("victim", 1).await;
    let projector = stage.projector("group").await;
    stage.publish(&stage.log().await).await;
    for (nth, forge) in forgeries.iter().enumerate() {
        let name = format!("link-{nth}");
        let link = stage.append_links(account_id, &name, 1).await.remove(0);
        let change = destination_changed(&link, "https://example.com/1");
        stage.append(account_id, &[change]).await;
        let log = stage.log().await;
        let [before @ .., last] = &log[log.len() - 3..] else {
            unreachable!("three are asked for")
        };
        stage.publish(before).await;
        let mut forged = (last.headers(), last.event.payload.clone());
        forge(&mut forged);
        // Of two records with one position, the first would count.
        let headers = forged.0.iter().map(|(key, value)| Header {
            key,
            value: Some(value),
        });
        let headers = headers.fold(OwnedHeaders::new(), OwnedHeaders::insert);
        stage
            .publish_record(last.event.shard, headers, &forged.1)
            .await;
        stage.publish(std::slice::from_ref(last)).await;
    }
    stage.eventually_complete().await;
    projector.stop().await;
    let pool = stage.database.pool();
    assert_eq!(parkings(pool, account_id).await, []);
    let log = stage.log().await;
    assert_eq!(Tables::read(pool).await, Tables::of_log(&log));
}

#[tokio::test]
async fn records_of_later_epoch_are_replaced_by_log() {
    let stage = Stage::set().await;
    stage.account_with_links("epoch", 2).await;
    let log = stage.log().await;
    let mut later = log.clone();
    for record in &mut later[1..] {
        record.log_epoch = 2;
        record.event.payload = "{}".to_owned();
    }
    let mut followers = stage.followers();
    followers.cycle(later).await.unwrap();
    while followers.has_work() {
        followers.cycle(Vec::new()).await.unwrap();
    }
    assert_eq!(
        Tables::read(stage.database.pool()).await,
        Tables::of_log(&log)
    );
}

#[tokio::test]
async fn events_lost_by_log_are_not_applied() {
    let stage = Stage::set().await;
    let account_id = stage.account_with_links("kept", 1).await;
    let kept = stage.log().await;
    let pool = stage.database.pool();
    stage.append_links(account_id, "lost", 2).await;
    let published = stage.log().await;
    let lose = format!(
        "ALTER TABLE event_store.events DISABLE TRIGGER ALL;
         DELETE FROM event_store.events WHERE position > {0};
         DELETE FROM event_store.slugs WHERE slug_folded LIKE 'lost%';
         UPDATE event_store.log_shards SET head = least(head, {0});
         UPDATE event_store.accounts SET version = 2, balance = balance + 2;
         ALTER TABLE event_store.events ENABLE TRIGGER ALL;",
        kept.len()
    );
    let lose = sqlx::raw_sql(sqlx::AssertSqlSafe(lose)).execute(pool);
    lose.await.unwrap();
    let mut followers = stage.followers();
    followers.cycle(published.clone()).await.unwrap();
    while followers.has_work() {
        followers.cycle(Vec::new()).await.unwrap();
    }
    assert_eq!(Tables::read(pool).await, Tables::of_log(&kept));

    // The log grows to its former length with other events.
    stage.append_links(account_id, "new", 2).await;
    followers
        .cycle(published[kept.len()..].to_vec())
        .await
        .unwrap();
    while followers.has_work() {
        followers.cycle(Vec::new()).await.unwrap();
    }
    let log = stage.log().await;
    assert_eq!(log.len(), published.len());
    assert_eq!(Tables::read(pool).await, Tables::of_log(&log));
}
