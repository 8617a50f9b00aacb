//! Rows of which events of the log are made: first clicks of links, and clicks by minute.

use linkledger_clicks::{CLICK_PARTITIONS, Click, ClickKind};
use linkledger_core::{
    clock::{Clock as _, SystemClock, new_uuid},
    id::{AccountId, WebhookId},
    shard::Shard,
    webhook::{SecretVersion, Webhook, WebhookCreated, WebhookUrl},
};
use linkledger_event_store::{
    log::feed::FeedPlace,
    webhooks::{cursors::ShardPlace, rows},
};
use linkledger_testing::created_account;
use sqlx::PgPool;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::click_fixture::{ClickFixture, TestRecorder, click, clicks};

/// First click: link, instant.
pub(super) type FirstClick = (u128, OffsetDateTime);

/// Clicks of a minute: link, minute, clicks of humans, of bots.
pub(super) type Minute = (u128, OffsetDateTime, i64, i64);

/// Reads the first clicks that are not announced, and ensures that each has the account of its link.
pub(super) async fn first_clicks(pool: &PgPool) -> Vec<FirstClick> {
    let rows: Vec<(Uuid, Uuid, OffsetDateTime)> = sqlx::query_as(
        "SELECT link_id, account_id, clicked_at FROM clicks.first_clicks
         WHERE announced_at IS NULL ORDER BY link_id",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    let rows = rows.into_iter().map(|(link, account, at)| {
        assert_eq!(account.as_u128(), link.as_u128() % 3);
        (link.as_u128(), at)
    });
    rows.collect()
}

/// Reads the clicks by minute, and ensures that each row has the account of its link.
pub(super) async fn minutes(pool: &PgPool) -> Vec<Minute> {
    let rows: Vec<(Uuid, Uuid, OffsetDateTime, i64, i64)> = sqlx::query_as(
        "SELECT link_id, account_id, minute, clicks, bots FROM clicks.link_minutes
         ORDER BY link_id, minute",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    let rows = rows
        .into_iter()
        .map(|(link, account, minute, clicks, bots)| {
            assert_eq!(account.as_u128(), link.as_u128() % 3);
            (link.as_u128(), minute, clicks, bots)
        });
    rows.collect()
}

/// Creates the accounts of all links.
pub(super) async fn create_accounts(fixture: &ClickFixture) {
    for account in 0..3 {
        let account_id = AccountId::from_uuid(Uuid::from_u128(account));
        let name = format!("account {account}");
        created_account(fixture.fixture.database.pool(), account_id, &name).await;
    }
}

/// Creates an enabled webhook of the account that names the type of clicks, changed as `change` says.
pub(super) async fn subscribe(
    fixture: &ClickFixture,
    account: u128,
    change: impl FnOnce(&mut WebhookCreated),
) {
    let now = SystemClock.now();
    let account_id = AccountId::from_uuid(Uuid::from_u128(account));
    let mut created = WebhookCreated {
        account_id,
        webhook_id: WebhookId::from_uuid(new_uuid(now)),
        url: WebhookUrl::stored("https://hooks.example/"),
        types: vec!["link.clicks".to_owned()],
        description: None,
        in_order: false,
        all_accounts: false,
        secret: SecretVersion {
            master_key_id: "first".to_owned(),
            generation: 1,
        },
    };
    change(&mut created);
    let start = ShardPlace {
        shard: Shard::of(account_id),
        place: FeedPlace::BEGINNING,
    };
    let webhook = Webhook::new(&created, now);
    let log = fixture.fixture.database.pool();
    let mut session = log.acquire().await.unwrap();
    let inserted = rows::insert_in_tx(&mut session, &webhook, &[start]).await;
    inserted.unwrap();
}

fn bot(link: u128, clicked_at: OffsetDateTime) -> Click {
    Click {
        kind: ClickKind::Bot,
        ..click(link, clicked_at)
    }
}

fn minute_of(instant: OffsetDateTime) -> OffsetDateTime {
    let begin = instant.replace_second(0).unwrap();
    begin.replace_nanosecond(0).unwrap()
}

/// Publishes clicks of a recorder's first sequences again, and counts.
async fn repeat(fixture: &ClickFixture, recorder: &mut TestRecorder, made: &[Click]) {
    recorder.sequences = [0; CLICK_PARTITIONS as usize];
    fixture.publish(recorder, made).await;
    fixture.count().await;
}

#[tokio::test]
async fn first_click_is_first_counted_one_of_a_human() {
    let fixture = ClickFixture::embedded().await;
    let (mut recorder, now) = (TestRecorder::new(), SystemClock.now());
    let minutes_ago = |minutes| now - Duration::minutes(minutes);
    let made = [
        bot(1, minutes_ago(5)),
        bot(2, minutes_ago(6)),
        click(2, minutes_ago(4)),
        click(2, minutes_ago(2)),
    ];
    fixture.publish(&mut recorder, &made).await;
    fixture.count().await;
    let first = (2, minutes_ago(4));
    assert_eq!(first_clicks(fixture.pool()).await, [first]);
    repeat(&fixture, &mut recorder, &made).await;
    assert_eq!(first_clicks(fixture.pool()).await, [first]);
    // A bot has begun the row of the day; a late click is no first one.
    let later = [click(1, minutes_ago(3)), click(2, now - Duration::days(1))];
    fixture.publish(&mut recorder, &later).await;
    fixture.count().await;
    let of_both = [(1, minutes_ago(3)), first];
    assert_eq!(first_clicks(fixture.pool()).await, of_both);
    let more = [click(1, now), click(2, now), click(1, minutes_ago(9))];
    fixture.publish(&mut recorder, &more).await;
    fixture.count().await;
    assert_eq!(first_clicks(fixture.pool()).await, of_both);
}

#[tokio::test]
async fn first_click_of_several_days_is_counted_once() {
    let fixture = ClickFixture::embedded().await;
    let (mut recorder, now) = (TestRecorder::new(), SystemClock.now());
    // The first one is counted first, whether in a batch of its own or not.
    let days = [500, 2, 0];
    let mut made = days.map(|days| click(1, now - Duration::days(days)));
    // Several requests in one record, of which no visitor is known.
    made[2].count = 40;
    made[2].details.visitor = None;
    fixture.publish(&mut recorder, &made).await;
    fixture.count().await;
    let first = [(1, now - Duration::days(500))];
    assert_eq!(first_clicks(fixture.pool()).await, first);
    // Nobody announces a click again.
    sqlx::query("UPDATE clicks.first_clicks SET announced_at = now()")
        .execute(fixture.pool())
        .await
        .unwrap();
    fixture
        .publish(&mut recorder, &[click(1, now - Duration::days(1))])
        .await;
    fixture.count().await;
    assert!(first_clicks(fixture.pool()).await.is_empty());
    assert_eq!(clicks(fixture.pool()).await, 43);
}

#[tokio::test]
async fn minutes_are_counted_for_subscribers_only() {
    let fixture = ClickFixture::embedded().await;
    create_accounts(&fixture).await;
    subscribe(&fixture, 0, |_| {}).await;
    // All types but this one.
    subscribe(&fixture, 1, |webhook| webhook.types.clear()).await;
    subscribe(&fixture, 2, |_| {}).await;
    let disabled = "UPDATE event_store.webhooks SET enabled = false WHERE account_id = $1";
    sqlx::query(disabled)
        .bind(Uuid::from_u128(2))
        .execute(fixture.fixture.database.pool())
        .await
        .unwrap();
    let (mut recorder, now) = (TestRecorder::new(), SystemClock.now());
    let made: Vec<_> = (1..=6)
        .flat_map(|link| [click(link, now), bot(link, now)])
        .collect();
    fixture.publish(&mut recorder, &made).await;
    fixture.count().await;
    let minute = minute_of(now);
    let of_owner = [(3, minute, 1, 1), (6, minute, 1, 1)];
    assert_eq!(minutes(fixture.pool()).await, of_owner);
    // A webhook of operators receives the clicks of all accounts.
    subscribe(&fixture, 0, |webhook| webhook.all_accounts = true).await;
    fixture.publish(&mut recorder, &made).await;
    fixture.count().await;
    let of_all = [1, 2, 3, 4, 5, 6].map(|link| {
        let clicks = if link % 3 == 0 { 2 } else { 1 };
        (link, minute, clicks, clicks)
    });
    assert_eq!(minutes(fixture.pool()).await, of_all);
}

#[tokio::test]
async fn minutes_add_up_over_batches_until_they_are_an_hour_old() {
    let fixture = ClickFixture::embedded().await;
    create_accounts(&fixture).await;
    subscribe(&fixture, 0, |_| {}).await;
    let (mut recorder, now) = (TestRecorder::new(), SystemClock.now());
    let earlier = now - Duration::minutes(40);
    let mut made = [
        click(3, now),
        bot(3, now),
        click(3, earlier),
        click(3, now - Duration::minutes(61)),
        click(3, now - Duration::days(3)),
    ];
    made[2].count = 7;
    fixture.publish(&mut recorder, &made).await;
    fixture.count().await;
    let of_first = [(3, minute_of(earlier), 7, 0), (3, minute_of(now), 1, 1)];
    assert_eq!(minutes(fixture.pool()).await, of_first);
    repeat(&fixture, &mut recorder, &made).await;
    assert_eq!(minutes(fixture.pool()).await, of_first);
    fixture
        .publish(&mut recorder, &[click(3, now), click(3, now)])
        .await;
    fixture.count().await;
    let of_both = [(3, minute_of(earlier), 7, 0), (3, minute_of(now), 3, 1)];
    assert_eq!(minutes(fixture.pool()).await, of_both);
    // Rows that are in the log are deleted: late clicks begin another one.
    sqlx::query("DELETE FROM clicks.link_minutes")
        .execute(fixture.pool())
        .await
        .unwrap();
    fixture.publish(&mut recorder, &[bot(3, earlier)]).await;
    fixture.count().await;
    let of_late = [(3, minute_of(earlier), 0, 1)];
    assert_eq!(minutes(fixture.pool()).await, of_late);
}

#[tokio::test]
async fn nothing_waits_for_a_log_on_another_server() {
    let fixture = ClickFixture::on_two_servers().await;
    create_accounts(&fixture).await;
    subscribe(&fixture, 1, |_| {}).await;
    let (mut recorder, now) = (TestRecorder::new(), SystemClock.now());
    let made: Vec<_> = (0..3).map(|link| click(link, now)).collect();
    fixture.publish(&mut recorder, &made).await;
    fixture.count().await;
    assert_eq!(clicks(fixture.pool()).await, 3);
    assert!(minutes(fixture.pool()).await.is_empty());
    assert!(first_clicks(fixture.pool()).await.is_empty());
}
