//! Observer: expiries, first clicks and clicks by minute become events once, whatever happens.

use std::sync::Arc;

use linkledger_command_api::observer::Observer;
use linkledger_core::{
    clock::{Clock, SystemClock, new_uuid},
    event::Event,
    id::{AccountId, LinkId},
    link::{Expiry, LinkCreated, LinkDetails, LinkEvent},
    timestamp,
};
use linkledger_event_store::{SessionKind, transaction::PoolTransaction};
use linkledger_testing as testing;
use linkledger_testing::{TestBroker, TestDatabase};
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use time::{Duration, OffsetDateTime};

use crate::{
    relay_process::Process,
    support::{
        TestApp, change, create, delete, destination, fresh_key, send, start_by_clock, with,
    },
};

/// Clicks of a minute whose clicks are sent, although nobody knows how far clicks are counted.
const LONG_AGO: &str = "date_trunc('minute', now()) - interval '15 minutes'";

/// Clock of a process that is an hour ahead.
struct HourAhead;

impl Clock for HourAhead {
    fn now(&self) -> OffsetDateTime {
        SystemClock.now() + Duration::HOUR
    }
}

fn observer(database: &TestDatabase) -> Observer {
    let pool = linkledger_event_store::pool(database.url(), SessionKind::Writer, 1);
    Observer::new(pool.unwrap())
}

/// Works off everything that is due.
async fn observe(database: &TestDatabase) {
    let mut observer = observer(database);
    while !observer.round().await {}
}

async fn execute(database: &TestDatabase, statement: &str) {
    let statement = AssertSqlSafe(statement.to_owned());
    let executed = sqlx::raw_sql(statement).execute(database.pool());
    executed.await.unwrap();
}

/// Returns the payloads of the events of a type, by account and version.
async fn payloads(database: &TestDatabase, event_type: &str) -> Vec<Value> {
    let payloads = "SELECT payload::text FROM event_store.events WHERE type = $1
                    ORDER BY account_id, version";
    let payloads = sqlx::query_scalar::<_, String>(payloads).bind(event_type);
    let payloads = payloads.fetch_all(database.pool()).await.unwrap();
    let parsed = payloads.iter().map(|it| serde_json::from_str(it).unwrap());
    parsed.collect()
}

/// Returns the expiries of the log.
async fn expiries(database: &TestDatabase) -> Vec<String> {
    let expired = payloads(database, "LinkExpired").await;
    let expires_at = expired.iter().map(|it| it["expires_at"].as_str().unwrap());
    expires_at.map(str::to_owned).collect()
}

/// Returns the instant some seconds from now, and as events have it.
fn after(seconds: i64) -> (Expiry, String) {
    let expiry = Expiry::at(SystemClock.now() + Duration::seconds(seconds));
    (expiry, timestamp::format(expiry.instant()))
}

/// Appends the creation of a link that expires at this instant.
async fn expiring_link(
    database: &TestDatabase,
    account_id: AccountId,
    expires_at: Expiry,
) -> LinkCreated {
    let link_id = LinkId::from_uuid(new_uuid(SystemClock.now()));
    let slug = linkledger_core::link::Slug::generate().to_string();
    let created = LinkCreated {
        expires_at: Some(expires_at),
        ..testing::link_created(link_id, account_id, &slug, "https://example.com/")
    };
    let event = Event::Link(LinkEvent::Created(created.clone()));
    testing::append_events(database.pool(), account_id, &[event]).await;
    created
}

/// Appends the change of an expiry.
async fn put_off(database: &TestDatabase, link: &LinkCreated, expires_at: Expiry) {
    let details = LinkDetails {
        expires_at: Some(expires_at),
        ..link.details()
    };
    let changed = testing::events::details_changed(link, &details);
    testing::append_events(database.pool(), link.account_id, &[changed]).await;
}

/// Adds expiries of unknown links, which have passed.
async fn add_expiries(database: &TestDatabase, account_id: AccountId, count: usize) {
    let insert = format!(
        "INSERT INTO event_store.link_expiries (link_id, account_id, expires_at)
         SELECT gen_random_uuid(), '{}', now() - make_interval(secs => n)
         FROM generate_series(1, {count}) AS n",
        account_id.uuid()
    );
    execute(database, &insert).await;
}

/// Adds clicks of links in a minute.
async fn add_minutes(database: &TestDatabase, account_id: AccountId, minute: &str, links: usize) {
    let insert = format!(
        "INSERT INTO clicks.link_minutes (account_id, minute, link_id, clicks, bots)
         SELECT '{}', {minute}, gen_random_uuid(), 2, 1 FROM generate_series(1, {links})",
        account_id.uuid()
    );
    execute(database, &insert).await;
}

async fn add_first_click(database: &TestDatabase, account_id: AccountId, link_id: LinkId) {
    let insert = format!(
        "INSERT INTO clicks.first_clicks (account_id, link_id, clicked_at)
         VALUES ('{}', '{}', '2026-11-20 09:51:00.123+00') ON CONFLICT (link_id) DO NOTHING",
        account_id.uuid(),
        link_id.uuid()
    );
    execute(database, &insert).await;
}

async fn count(database: &TestDatabase, of: &str) -> i64 {
    let count = AssertSqlSafe(format!("SELECT count(*) FROM {of}"));
    let count = sqlx::query_scalar(count).fetch_one(database.pool());
    count.await.unwrap()
}

#[tokio::test]
async fn each_expiry_that_passes_has_one_event() {
    let database = TestDatabase::create().await;
    let account_id = testing::account(database.pool(), 0).await;
    let (first, first_text) = after(-60);
    let link = expiring_link(&database, account_id, first).await;
    let waiting = expiring_link(&database, account_id, after(3_600).0).await;
    observe(&database).await;
    observe(&database).await;
    let expected =
        json!({ "account_id": account_id, "link_id": link.link_id, "expires_at": first_text });
    assert_eq!(payloads(&database, "LinkExpired").await, [expected]);
    let metadata: (Option<String>, bool) = sqlx::query_as(
        "SELECT metadata->>'actor', abs(extract(epoch FROM now() - recorded_at)) < 60
         FROM event_store.events WHERE type = 'LinkExpired'",
    )
    .fetch_one(database.pool())
    .await
    .unwrap();
    assert_eq!(metadata, (Some("observer".to_owned()), true));

    // Later, after the expiry and before it: only the last instant passes.
    put_off(&database, &link, after(3_600).0).await;
    put_off(&database, &waiting, after(7_200).0).await;
    observe(&database).await;
    assert_eq!(expiries(&database).await.len(), 1);
    let (last, last_text) = after(-1);
    put_off(&database, &link, last).await;
    observe(&database).await;
    assert_eq!(expiries(&database).await, [first_text, last_text]);
    assert_eq!(count(&database, "event_store.link_expiries").await, 1);
}

#[tokio::test]
async fn deleted_link_does_not_expire_and_link_of_suspended_account_does() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let account_id = testing::account(pool, 0).await;
    let deleted = expiring_link(&database, account_id, after(-60).0).await;
    let (passed, text) = after(-30);
    expiring_link(&database, account_id, passed).await;
    let events = [
        testing::events::deleted(&deleted),
        testing::events::suspended(account_id, true),
    ];
    testing::append_events(pool, account_id, &events).await;
    observe(&database).await;
    assert_eq!(expiries(&database).await, [text]);
}

#[tokio::test]
async fn observers_at_once_append_each_event_once() {
    let database = TestDatabase::create().await;
    let mut accounts = Vec::new();
    for _ in 0..5 {
        let account_id = testing::account(database.pool(), 0).await;
        add_expiries(&database, account_id, 150).await;
        add_minutes(&database, account_id, LONG_AGO, 50).await;
        for _ in 0..20 {
            let link_id = LinkId::from_uuid(fresh_key());
            add_first_click(&database, account_id, link_id).await;
        }
        accounts.push(account_id);
    }
    tokio::join!(observe(&database), observe(&database), observe(&database));
    let of = |event_type: &str| format!("event_store.events WHERE type = '{event_type}'");
    assert_eq!(count(&database, &of("LinkExpired")).await, 750);
    assert_eq!(count(&database, &of("LinkFirstClicked")).await, 100);
    let clicked = payloads(&database, "LinksClicked").await;
    assert_eq!(clicked.len(), 5);
    assert!(
        clicked
            .iter()
            .all(|it| it["links"].as_array().unwrap().len() == 50)
    );
    // The unique key of streams and versions excludes others.
    let versions = "event_store.accounts WHERE version = 150 + 20 + 1";
    assert_eq!(count(&database, versions).await, 5);
}

#[tokio::test]
async fn locked_account_delays_no_other() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let (locked, other) = (
        testing::account(pool, 0).await,
        testing::account(pool, 0).await,
    );
    for account_id in [locked, other] {
        add_expiries(&database, account_id, 130).await;
    }
    let mut lock = PoolTransaction::begin(pool).await.unwrap();
    sqlx::query("SELECT FROM event_store.accounts WHERE account_id = $1 FOR UPDATE")
        .bind(locked.uuid())
        .execute(&mut *lock)
        .await
        .unwrap();
    assert!(!observer(&database).round().await);
    assert_eq!(payloads(&database, "LinkExpired").await.len(), 130);
    let left = format!(
        "event_store.link_expiries WHERE account_id = '{}'",
        locked.uuid()
    );
    assert_eq!(count(&database, &left).await, 130);
    lock.rollback().await.unwrap();
    observe(&database).await;
    assert_eq!(payloads(&database, "LinkExpired").await.len(), 260);
}

#[tokio::test]
async fn killed_observer_loses_and_repeats_nothing() {
    let (database, broker) = (TestDatabase::create().await, TestBroker::start().await);
    let account_id = testing::account(database.pool(), 0).await;
    for (fail_at, appended) in [("observer.claimed:1", 0), ("observer.committed:1", 1)] {
        add_first_click(&database, account_id, LinkId::from_uuid(fresh_key())).await;
        let before = payloads(&database, "LinkFirstClicked").await.len();
        let process = Process::start(&database, &broker.config(), "one", Some(fail_at));
        process.dies().await;
        let after = payloads(&database, "LinkFirstClicked").await.len();
        assert_eq!(after - before, appended, "{fail_at}");
        observe(&database).await;
        let at_last = payloads(&database, "LinkFirstClicked").await.len();
        assert_eq!(at_last - before, 1, "{fail_at}");
    }
}

#[tokio::test]
async fn first_click_is_announced_once() {
    let database = TestDatabase::create().await;
    let account_id = testing::account(database.pool(), 0).await;
    let link_id = LinkId::from_uuid(fresh_key());
    for _ in 0..2 {
        add_first_click(&database, account_id, link_id).await;
        observe(&database).await;
    }
    let expected = json!({
        "account_id": account_id, "link_id": link_id, "clicked_at": "2026-11-20T09:51:00.123Z",
    });
    assert_eq!(payloads(&database, "LinkFirstClicked").await, [expected]);
}

#[tokio::test]
async fn event_has_clicks_of_a_hundred_links_of_an_account_at_most() {
    let database = TestDatabase::create().await;
    let account_id = testing::account(database.pool(), 0).await;
    add_minutes(&database, account_id, LONG_AGO, 250).await;
    for _ in 0..3 {
        let other = testing::account(database.pool(), 0).await;
        add_minutes(&database, other, LONG_AGO, 40).await;
    }
    observe(&database).await;
    let clicked = payloads(&database, "LinksClicked").await;
    let links = clicked
        .iter()
        .map(|it| it["links"].as_array().unwrap().len());
    let mut links: Vec<usize> = links.collect();
    links.sort_unstable();
    assert_eq!(links, [40, 40, 40, 50, 100, 100]);
    let link = &clicked[0]["links"][0];
    assert_eq!((&link["clicks"], &link["bots"]), (&json!(2), &json!(1)));
    assert_eq!(count(&database, "clicks.link_minutes").await, 0);

    // Clicks that are counted late are a further event of the minute.
    add_minutes(&database, account_id, LONG_AGO, 1).await;
    observe(&database).await;
    assert_eq!(payloads(&database, "LinksClicked").await.len(), 7);
}

#[tokio::test]
async fn clicks_of_a_minute_are_sent_once_all_are_counted() {
    let database = TestDatabase::create().await;
    let account_id = testing::account(database.pool(), 0).await;
    let minute = "SELECT date_trunc('minute', now()) - interval '3 minutes'";
    let minute = sqlx::query_scalar::<_, OffsetDateTime>(minute);
    let minute = minute.fetch_one(database.pool()).await.unwrap();
    let minute = format!("timestamptz '{}'", timestamp::format(minute));
    let counted_until = async |seconds: i64| {
        let heartbeat = format!(
            "INSERT INTO clicks.heartbeats (recorder_id, recorded_until, sequences)
             SELECT recorder_id, {minute} + interval '{seconds} s', array_fill(0::bigint, ARRAY[16])
             FROM clicks.recorders"
        );
        execute(&database, &heartbeat).await;
    };
    execute(
        &database,
        "UPDATE clicks.positions SET read_to_end_at = now();
         INSERT INTO clicks.recorders (recorder_id, started_at)
         VALUES (gen_random_uuid(), now() - interval '1 hour')",
    )
    .await;
    add_minutes(&database, account_id, &minute, 1).await;
    for (seconds, events) in [(59, 0), (60, 1)] {
        counted_until(seconds).await;
        observe(&database).await;
        let clicked = payloads(&database, "LinksClicked").await;
        assert_eq!(clicked.len(), events, "{seconds} s");
    }
}

#[tokio::test]
async fn clicks_of_unknown_account_are_dropped() {
    let database = TestDatabase::create().await;
    let account_id = testing::account(database.pool(), 0).await;
    let unknown = testing::new_account_id();
    for of in [unknown, account_id] {
        add_first_click(&database, of, LinkId::from_uuid(fresh_key())).await;
        add_minutes(&database, of, LONG_AGO, 2).await;
    }
    observe(&database).await;
    assert_eq!(count(&database, "event_store.events").await, 2);
    let left = "clicks.first_clicks WHERE announced_at IS NULL";
    assert_eq!(count(&database, left).await, 0);
    assert_eq!(count(&database, "clicks.link_minutes").await, 0);
}

#[tokio::test]
async fn many_expiries_are_worked_off() {
    let database = TestDatabase::create().await;
    let account_id = testing::account(database.pool(), 0).await;
    add_expiries(&database, account_id, 5_000).await;
    observe(&database).await;
    let expired = "(SELECT DISTINCT payload->>'link_id' FROM event_store.events) AS expired";
    assert_eq!(count(&database, expired).await, 5_000);
    assert_eq!(count(&database, "event_store.link_expiries").await, 0);
}

#[tokio::test]
async fn database_of_the_log_alone_has_expiries() {
    let (database, _read) = TestDatabase::create_two().await;
    let account_id = testing::account(database.pool(), 0).await;
    add_expiries(&database, account_id, 1).await;
    observe(&database).await;
    assert_eq!(expiries(&database).await.len(), 1);
}

#[tokio::test]
async fn failing_source_leaves_the_others_alone_and_is_reported() {
    let metrics = PrometheusBuilder::new().build_recorder();
    let _recording = metrics::set_default_local_recorder(&metrics);
    let waiting = || {
        let rendered = metrics.handle().render();
        let mut lines = rendered.lines();
        let line = lines.find_map(|it| it.strip_prefix("linkledger_observations_waiting_seconds "));
        line.unwrap().parse::<f64>().unwrap()
    };
    let database = TestDatabase::create().await;
    let account_id = testing::account(database.pool(), 0).await;
    let mut observer = observer(&database);
    assert!(observer.round().await);
    assert!(waiting().abs() < f64::EPSILON);
    execute(
        &database,
        "ALTER TABLE clicks.first_clicks RENAME TO elsewhere",
    )
    .await;
    add_expiries(&database, account_id, 1).await;
    add_minutes(&database, account_id, LONG_AGO, 1).await;
    assert!(!observer.round().await);
    assert!(waiting() > 0.0);
    assert_eq!(count(&database, "event_store.events").await, 2);
    execute(
        &database,
        "ALTER TABLE clicks.elsewhere RENAME TO first_clicks",
    )
    .await;
    assert!(observer.round().await);
    assert!(waiting().abs() < f64::EPSILON);
}

#[tokio::test(flavor = "multi_thread")]
async fn expiry_leaves_version_of_the_link_as_it_is() {
    let app = TestApp::start().await;
    let (_, key) = app.account(2).await;
    let (_, soon) = after(3);
    let mut body = destination();
    body["expires_at"] = soon.into();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let created = send(&app.router, create(&key, fresh_key(), &body)).await;
        assert_eq!(created.header("etag"), "\"1\"", "{created:?}");
        ids.push(created.json()["id"].as_str().unwrap().to_owned());
    }
    testing::eventually("both links have expired", async || {
        (app.count("LinkExpired").await == 2).then_some(())
    })
    .await;
    // Links are changed and deleted after their expiry, by the version from before.
    let (_, later) = after(3_600);
    let patch = change(&key, &ids[0], &json!({ "expires_at": later }));
    let changed = send(&app.router, with(patch, "if-match", "\"1\"")).await;
    assert_eq!(
        (changed.status.as_u16(), changed.header("etag")),
        (200, "\"2\"")
    );
    let deletion = with(delete(&key, &ids[1]), "if-match", "\"1\"");
    assert_eq!(send(&app.router, deletion).await.status, 204);
    let rows = count(&app.database, "event_store.link_expiries").await;
    assert_eq!((rows, app.count("LinkExpired").await), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn clock_of_the_process_decides_nothing() {
    let (database, broker) = (TestDatabase::create().await, TestBroker::start().await);
    let account_id = testing::account(database.pool(), 0).await;
    expiring_link(&database, account_id, after(1_800).0).await;
    let (passed, text) = after(-1);
    expiring_link(&database, account_id, passed).await;
    let _service = start_by_clock(&database, broker.config(), Arc::new(HourAhead)).await;
    let expired = testing::eventually("a link has expired", async || {
        let expired = expiries(&database).await;
        (!expired.is_empty()).then_some(expired)
    });
    assert_eq!(expired.await, [text]);
    let early = "event_store.events WHERE type = 'LinkExpired' AND recorded_at > now()";
    assert_eq!(count(&database, early).await, 0);
}
