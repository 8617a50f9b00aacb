use linkledger_core::{
    id::{AccountId, LinkId},
    link::{Expiry, LinkCreated, LinkDetails},
    shard::Shard,
};
use linkledger_event_store::link_expiries;
use linkledger_testing::{
    self as testing, TestDatabase,
    events::{deleted, destination_changed, details_changed, disabled, expired, first_clicked},
};
use sqlx::PgPool;
use time::{Duration, OffsetDateTime};

/// Returns the rows of an account's links.
async fn rows(pool: &PgPool, account_id: AccountId) -> Vec<(LinkId, OffsetDateTime)> {
    let read = link_expiries::read_all(pool).await.unwrap();
    let of_shard = &read[Shard::of(account_id).index()];
    let rows = of_shard.rows.iter();
    let rows = rows.filter(|row| row.account_id == account_id);
    rows.map(|row| (row.link_id, row.expires_at)).collect()
}

/// Returns an account with a link that has an expiry.
async fn expiring_link(pool: &PgPool) -> (AccountId, LinkCreated) {
    let account_id = testing::account(pool, 10).await;
    let links = [("expiring", "https://example.com/")];
    let created = testing::append_links(pool, account_id, &links).await;
    (account_id, created.into_iter().next().unwrap().link)
}

fn row_of(link: &LinkCreated) -> (LinkId, OffsetDateTime) {
    (link.link_id, link.expires_at.unwrap().instant())
}

/// Returns the link as if it had been created with another expiry.
fn with_expiry(link: &LinkCreated, expires_at: Option<OffsetDateTime>) -> LinkCreated {
    LinkCreated {
        expires_at: expires_at.map(Expiry::at),
        ..link.clone()
    }
}

#[tokio::test]
async fn only_links_with_an_expiry_have_a_row() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let (account_id, link) = expiring_link(pool).await;
    let mut draft = testing::link_draft("endless", "https://example.com/");
    draft.details = LinkDetails::NONE;
    let created = testing::append_drafts(pool, account_id, vec![draft]).await;
    assert_eq!(rows(pool, account_id).await, [row_of(&link)]);
    let endless = &created[0].link;
    let others = [
        destination_changed(&link, "https://elsewhere.example/"),
        disabled(&link),
        first_clicked(&link),
        deleted(endless),
    ];
    testing::append_events(pool, account_id, &others).await;
    assert_eq!(rows(pool, account_id).await, [row_of(&link)]);
}

#[tokio::test]
async fn row_follows_the_expiry_until_its_end() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let (account_id, link) = expiring_link(pool).await;
    let (_, expires_at) = row_of(&link);
    let moved = with_expiry(&link, Some(expires_at - Duration::DAY));
    let endless = with_expiry(&link, None);
    let details = |from: &LinkCreated, to: &LinkCreated| details_changed(from, &to.details());
    for (event, after) in [
        (details(&link, &moved), Some(&moved)),
        (details(&moved, &endless), None),
        (details(&endless, &link), Some(&link)),
        (expired(&link), None),
        (details(&link, &moved), Some(&moved)),
        (deleted(&moved), None),
    ] {
        testing::append_events(pool, account_id, std::slice::from_ref(&event)).await;
        let expected: Vec<_> = after.into_iter().map(row_of).collect();
        assert_eq!(rows(pool, account_id).await, expected, "{event:?}");
    }
}

#[tokio::test]
async fn last_event_of_an_append_decides() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let (account_id, link) = expiring_link(pool).await;
    let (_, expires_at) = row_of(&link);
    let moved = with_expiry(&link, Some(expires_at - Duration::DAY));
    let move_it = details_changed(&link, &moved.details());
    let events = [expired(&link), move_it, expired(&moved)];
    testing::append_events(pool, account_id, &events[..2]).await;
    assert_eq!(rows(pool, account_id).await, [row_of(&moved)]);
    testing::append_events(pool, account_id, &events[2..]).await;
    assert_eq!(rows(pool, account_id).await, []);
}
