use linkledger_core::{
    clock::{Clock as _, SystemClock},
    envelope::RecordedEvent,
    id::AccountId,
    shard::{Position, Shard},
};
use linkledger_event_store::log::{
    self, ReadFrom,
    feed::{self, FeedPlace, accounts_between, end_place, place_at},
};
use linkledger_testing::{
    self as testing, TestDatabase,
    events::{every_change, granted},
};
use sqlx::PgPool;
use time::{Duration, OffsetDateTime};

/// Returns two accounts of one shard, whose events of every type take turns.
async fn two_accounts(pool: &PgPool) -> [AccountId; 2] {
    let first = testing::new_account_id();
    let mut ids = std::iter::repeat_with(testing::new_account_id);
    let second = ids.find(|id| Shard::of(*id) == Shard::of(first)).unwrap();
    for account_id in [first, second] {
        testing::created_account(pool, account_id, "test").await;
        let funds = granted(account_id, 100, 100);
        testing::append_events(pool, account_id, &[funds]).await;
    }
    let changes = [
        every_change(pool, first, "first").await,
        every_change(pool, second, "second").await,
    ];
    for (of_first, of_second) in changes[0].iter().zip(&changes[1]) {
        testing::append_events(pool, first, std::slice::from_ref(of_first)).await;
        testing::append_events(pool, second, std::slice::from_ref(of_second)).await;
    }
    [first, second]
}

/// Returns the events of an account, of all events of its shard.
async fn events_of(pool: &PgPool, account_id: AccountId) -> Vec<RecordedEvent> {
    let shard = Shard::of(account_id);
    let from = ReadFrom { shard, after: 0 };
    let mut events = log::read_after(pool, &[from], 1_000).await.unwrap();
    events.retain(|event| event.account_id == account_id);
    events
}

/// Returns the events of an account from a place on, by pages.
async fn scan(
    pool: &PgPool,
    account_id: AccountId,
    mut place: FeedPlace,
    limit: i64,
) -> Vec<RecordedEvent> {
    let mut seen = Vec::new();
    loop {
        let page = feed::read_page(pool, account_id, place, limit).await;
        let page = page.unwrap();
        seen.extend(page.events);
        place = page.next;
        if !page.has_more {
            return seen;
        }
    }
}

#[tokio::test]
async fn pages_have_each_event_of_the_account_once_in_order() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    for account_id in two_accounts(pool).await {
        let events = events_of(pool, account_id).await;
        for limit in [1, 2, 3, 100] {
            let seen = scan(pool, account_id, FeedPlace::BEGINNING, limit).await;
            assert_eq!(seen, events, "{limit}");
        }
    }
    let stranger = testing::new_account_id();
    let page = feed::read_page(pool, stranger, FeedPlace::BEGINNING, 100).await;
    let page = page.unwrap();
    assert_eq!((page.events, page.has_more), (vec![], false));
    assert_eq!(page.next, FeedPlace::BEGINNING);
}

#[tokio::test]
async fn place_at_the_end_is_before_later_events() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let [account_id, neighbour] = two_accounts(pool).await;
    let end = end_place(pool, account_id).await.unwrap();
    assert!(scan(pool, account_id, end, 2).await.is_empty());
    testing::append_links(pool, neighbour, &[("late", "https://example.com/")]).await;
    testing::append_links(pool, account_id, &[("later", "https://example.com/")]).await;
    let seen = scan(pool, account_id, end, 1).await;
    let types: Vec<&str> = seen.iter().map(|it| it.event_type.as_str()).collect();
    assert_eq!(types, ["LinkCreated", "CreditsCharged"]);
}

#[tokio::test]
async fn place_at_an_instant_is_before_the_first_event_from_then_on() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let account_id = two_accounts(pool).await[0];
    let events = events_of(pool, account_id).await;
    let far = SystemClock.now() + Duration::DAY;
    let times = events.iter().map(|event| event.recorded_at);
    for instant in times.chain([OffsetDateTime::UNIX_EPOCH, far]) {
        let place = place_at(pool, account_id, instant).await.unwrap();
        let seen = scan(pool, account_id, place, 100).await;
        let later = events.iter().filter(|it| it.recorded_at >= instant);
        assert!(seen.iter().eq(later), "{instant}");
    }
    let end = end_place(pool, account_id).await.unwrap();
    assert_eq!(place_at(pool, account_id, far).await.unwrap(), end);
}

#[tokio::test]
async fn accounts_of_positions_are_found() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let accounts = two_accounts(pool).await;
    let shard = Shard::of(accounts[0]);
    let from = ReadFrom { shard, after: 0 };
    let events = log::read_after(pool, &[from], 1_000).await.unwrap();
    let of = |position: Position| {
        let event = events.iter().find(|it| it.position == position);
        event.unwrap().account_id
    };
    let head: Position = events.len().try_into().unwrap();
    for after in 0..head - 1 {
        let found = accounts_between(pool, shard, after, after + 2).await;
        let mut found = found.unwrap();
        found.sort();
        let mut expected = vec![of(after + 1), of(after + 2)];
        expected.sort();
        expected.dedup();
        assert_eq!(found, expected, "{after}");
    }
    let nobody = accounts_between(pool, shard, head, head + 100).await;
    assert!(nobody.unwrap().is_empty());
}
