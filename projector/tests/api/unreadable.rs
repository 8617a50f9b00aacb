//! Events that cannot be read, because a page of the log is damaged.

use std::time::{Duration, Instant};

use linkledger_core::{id::AccountId, shard::Shard};
use linkledger_event_store::log;
use linkledger_projector::{
    operations::{
        pause::{self, FollowerName, PauseChange},
        status::collect,
    },
    pipeline::followers::Followers,
};
use linkledger_testing::{damage_event, hide_event, mend_log};

use sqlx::PgPool;

use crate::{
    cycles::{cycle_until, cycle_until_idle, floor},
    events::disabled,
    fixture::Fixture,
    poisoned::{paint, parkings, restore},
    tables::Tables,
};

/// Creates accounts in two shards.
async fn accounts_of_two_shards(fixture: &Fixture) -> [AccountId; 2] {
    let first = fixture.account_with_links("first", 20).await;
    for number in 0.. {
        let other = fixture
            .account_with_links(&format!("other-{number}"), 20)
            .await;
        if Shard::of(other) != Shard::of(first) {
            return [first, other];
        }
    }
    unreachable!("there are 16 shards")
}

/// Runs cycles until no account is parked any more.
async fn cycle_until_complete(fixture: &Fixture, followers: &mut Followers) {
    let expected = Tables::of_log(&fixture.log().await);
    let until = Instant::now() + Duration::from_mins(2);
    while Tables::read(fixture.database.pool()).await != expected {
        assert!(Instant::now() < until, "the tables are not complete");
        followers.cycle(Vec::new()).await.unwrap();
    }
}

async fn head(fixture: &Fixture, shard: Shard) -> i64 {
    log::heads(fixture.database.pool()).await.unwrap()[shard.index()]
}

#[tokio::test]
async fn unreadable_event_stops_only_its_shard() {
    // An account of the shard is parked before the unreadable event.
    const PARKED: usize = 42;
    const UNREADABLE: i64 = 60;
    let fixture = Fixture::new().await;
    let [first, other] = accounts_of_two_shards(&fixture).await;
    fixture.neighbour_with_links(first, "parked", 1).await;
    fixture.neighbour_with_links(first, "later", 20).await;
    let [damaged, sound] = [first, other].map(Shard::of);
    let log = fixture.log().await;
    let mut of_shard = log.iter().filter(|it| it.event.shard == damaged);
    let parked = of_shard.nth(PARKED).unwrap();
    paint(fixture.database.pool(), parked).await;
    damage_event(fixture.database.pool(), damaged, UNREADABLE).await;
    let mut followers = fixture.followers();
    cycle_until(
        &fixture,
        &mut followers,
        (sound, head(&fixture, sound).await),
    )
    .await;
    // Events before the unreadable one are applied.
    cycle_until(&fixture, &mut followers, (damaged, UNREADABLE - 1)).await;
    cycle_until_idle(&mut followers).await;
    for _ in 0..100 {
        followers.cycle(Vec::new()).await.unwrap();
    }
    assert_eq!(floor(&fixture, damaged).await, UNREADABLE - 1);

    let status = collect(&fixture.database.pool().clone().into())
        .await
        .unwrap();
    let finding = format!(
        "links waits for the event after position {} of shard {damaged}, which cannot be read: the log is \
         damaged: `command-api log verify` (docs/runbooks.md#log-unsound)",
        UNREADABLE - 1
    );
    assert!(status.findings.contains(&finding), "{:?}", status.findings);
    let reported = followers.unreported_refusal().unwrap().to_string();
    assert!(
        reported.contains("cannot be read: the log is damaged"),
        "{reported}"
    );

    mend_log(fixture.database.pool()).await;
    restore(fixture.database.pool(), parked).await;
    let end = (damaged, head(&fixture, damaged).await);
    cycle_until(&fixture, &mut followers, end).await;
    assert!(followers.unreported_refusal().is_none());
    cycle_until_complete(&fixture, &mut followers).await;
    let tables = Tables::read(fixture.database.pool()).await;
    assert_eq!(tables, Tables::of_log(&fixture.log().await));
}

#[tokio::test]
async fn missing_event_stops_only_its_shard() {
    const MISSING: i64 = 30;
    let fixture = Fixture::new().await;
    let [damaged, sound] = accounts_of_two_shards(&fixture).await.map(Shard::of);
    hide_event(fixture.database.pool(), damaged, MISSING).await;
    let mut followers = fixture.followers();
    cycle_until(
        &fixture,
        &mut followers,
        (sound, head(&fixture, sound).await),
    )
    .await;
    cycle_until(&fixture, &mut followers, (damaged, MISSING - 1)).await;
    for _ in 0..20 {
        followers.cycle(Vec::new()).await.unwrap();
    }
    assert_eq!(floor(&fixture, damaged).await, MISSING - 1);
    let reported = followers.unreported_refusal().unwrap().to_string();
    let missing = format!("the event at position {MISSING} of shard {damaged} is missing");
    assert!(reported.contains(&missing), "{reported}");

    mend_log(fixture.database.pool()).await;
    cycle_until_complete(&fixture, &mut followers).await;
}

#[tokio::test]
async fn unreadable_event_of_lagging_projection_delays_no_other() {
    damage_before_lagging_projection(damage_event).await;
}

#[tokio::test]
async fn missing_event_of_lagging_projection_delays_no_other() {
    damage_before_lagging_projection(hide_event).await;
}

/// Damages the log behind the other projections of the shard: only the projection that lags waits.
async fn damage_before_lagging_projection(damage: impl AsyncFnOnce(&PgPool, Shard, i64)) {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let account_id = fixture.account_with_links("long", 2_100).await;
    let shard = Shard::of(account_id);
    let change = async |change| {
        let changed = pause::change(pool, &[FollowerName::Redirects], change, "ada", None).await;
        changed.unwrap();
    };
    change(PauseChange::Pause).await;
    let mut followers = fixture.followers();
    followers.cycle(fixture.log().await).await.unwrap();
    fixture.append_links(account_id, "more", 1).await;
    let end = head(&fixture, shard).await;
    damage(pool, shard, 100).await;
    change(PauseChange::Resume).await;
    let of_links = "SELECT position FROM read_model.checkpoints
                    WHERE projection = 'links' AND shard = $1 AND role = 'live'";
    let position = async || {
        let position = sqlx::query_scalar::<_, i64>(of_links).bind(shard.number());
        position.fetch_one(pool).await.unwrap()
    };
    let until = Instant::now() + Duration::from_mins(2);
    // Redirects wait for the unreadable event.
    while end != position().await || floor(&fixture, shard).await < 99 {
        assert!(Instant::now() < until, "links are not complete");
        followers.cycle(Vec::new()).await.unwrap();
    }
    for _ in 0..20 {
        followers.cycle(Vec::new()).await.unwrap();
    }
    assert_eq!(floor(&fixture, shard).await, 99);
    let reported = followers.unreported_refusal().unwrap().to_string();
    assert!(reported.contains("cannot be read"), "{reported}");
    assert!(followers.unreported_refusal().is_none());
    cycle_until_idle(&mut followers).await;

    mend_log(pool).await;
    cycle_until_complete(&fixture, &mut fixture.followers()).await;
}

#[tokio::test]
async fn delivered_event_that_log_cannot_read_stops_only_its_shard() {
    let fixture = Fixture::new().await;
    let [damaged, sound] = accounts_of_two_shards(&fixture).await.map(Shard::of);
    let delivered = fixture.log().await;
    let end = head(&fixture, damaged).await;
    damage_event(fixture.database.pool(), damaged, end).await;
    let mut followers = fixture.followers();
    followers.cycle(delivered).await.unwrap();
    assert_eq!(floor(&fixture, sound).await, head(&fixture, sound).await);
    // The log cannot confirm the events of the topic.
    assert!(floor(&fixture, damaged).await < end);

    mend_log(fixture.database.pool()).await;
    cycle_until(&fixture, &mut followers, (damaged, end)).await;
    let tables = Tables::read(fixture.database.pool()).await;
    assert_eq!(tables, Tables::of_log(&fixture.log().await));
}

#[tokio::test]
async fn change_of_link_with_unreadable_creation_is_applied() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let [account_id, other] = accounts_of_two_shards(&fixture).await;
    let link = fixture
        .append_links(account_id, "damaged", 1)
        .await
        .remove(0);
    let log = fixture.log().await;
    let creation = log
        .iter()
        .find(|it| it.event.stream_id == link.link_id.uuid());
    let creation = creation.unwrap().event.position;
    let mut followers = fixture.followers();
    followers.cycle(log).await.unwrap();

    fixture.append(account_id, &[disabled(&link)]).await;
    fixture
        .neighbour_with_links(account_id, "neighbour", 2)
        .await;
    fixture.append_links(other, "later", 2).await;
    let log = fixture.log().await;
    damage_event(pool, Shard::of(account_id), creation).await;
    for shard in [account_id, other].map(Shard::of) {
        let end = (shard, head(&fixture, shard).await);
        cycle_until(&fixture, &mut followers, end).await;
    }
    assert_eq!(parkings(pool, account_id).await, []);
    assert_eq!(Tables::read(pool).await, Tables::of_log(&log));
}
