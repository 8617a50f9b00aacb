//! Events that the topic lacks are read from the event store.

use linkledger_core::{
    clock::{Clock as _, SystemClock, new_uuid},
    event::Event,
    id::{AccountId, LinkId},
    link::{LinkCreated, LinkEvent, Tags},
    shard::Shard,
};
use linkledger_testing::link_created;

use crate::{
    cycles::{cycle_until_idle, floor},
    fixture::Fixture,
    tables::Tables,
};

#[tokio::test]
async fn unpublished_events_are_read_from_event_store() {
    let fixture = Fixture::new().await;
    let projector = fixture.projector().await;
    for name in ["first", "second"] {
        fixture.account_with_links(name, 20).await;
    }
    fixture.eventually_complete().await;
    projector.stop().await;
}

#[tokio::test]
async fn long_backlog_is_caught_up_in_chunks() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("long", 3_000).await;
    let log = fixture.log().await;
    let mut followers = fixture.followers();
    followers
        .cycle(vec![log[log.len() - 1].clone()])
        .await
        .unwrap();
    let first = Tables::read(fixture.database.pool()).await;
    let shard = Shard::of(account_id).number();
    let applied = first.checkpoints[&("links".to_owned(), shard)];
    assert!((1_000..6_000).contains(&applied), "{applied} of 6001");
    assert!(followers.has_work());
    cycle_until_idle(&mut followers).await;
    assert_eq!(
        Tables::read(fixture.database.pool()).await,
        Tables::of_log(&log)
    );
}

/// Links with many tags write many rows: their shard gets no more of a cycle than its share, whether the topic delivers
/// all events, or only the last of each shard, so that the log is read.
#[tokio::test]
async fn many_tags_delay_no_other_shard() {
    for is_delivered in [true, false] {
        let fixture = Fixture::new().await;
        let busy = fixture.account_with_links("busy", 0).await;
        fixture.append(busy, &links_with_tags(busy, 600)).await;
        let of_others = (0..).map(|_| AccountId::from_uuid(new_uuid(SystemClock.now())));
        let mut of_others = of_others.filter(|other| Shard::of(*other) != Shard::of(busy));
        let other = of_others.next().unwrap();
        fixture.set_up_account(other, "other", 2).await;
        let mut log = fixture.log().await;
        log.retain(|it| is_delivered || [5, 601].contains(&it.event.position));
        fixture.followers().cycle(log).await.unwrap();
        assert_eq!(floor(&fixture, Shard::of(other)).await, 5);
        let applied = floor(&fixture, Shard::of(busy)).await;
        assert!((1..500).contains(&applied), "{applied} of 601");
    }
}

fn links_with_tags(account_id: AccountId, links: usize) -> Vec<Event> {
    let tags = Tags::of((0..20).map(|number| format!("tag {number}")).collect());
    let link = |number| {
        let link_id = LinkId::from_uuid(new_uuid(SystemClock.now()));
        let (slug, to) = (format!("tags-{number}"), "https://example.com/");
        Event::Link(LinkEvent::Created(LinkCreated {
            tags: tags.clone(),
            external_id: None,
            ..link_created(link_id, account_id, &slug, to)
        }))
    };
    (0..links).map(link).collect()
}

#[tokio::test]
async fn large_delivery_is_applied_in_one_cycle() {
    let fixture = Fixture::new().await;
    // Enough events for two parallel transactions.
    for number in 0..8 {
        fixture
            .account_with_links(&format!("much-{number}"), 150)
            .await;
    }
    let log = fixture.log().await;
    let mut followers = fixture.followers();
    followers.cycle(log.clone()).await.unwrap();
    assert!(!followers.has_work());
    assert_eq!(
        Tables::read(fixture.database.pool()).await,
        Tables::of_log(&log)
    );
}
