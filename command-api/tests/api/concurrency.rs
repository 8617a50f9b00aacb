use std::{
    collections::HashSet,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use futures::future::join_all;
use linkledger_core::api_key::ApiKey;
use linkledger_event_store::transaction::PoolTransaction;
use linkledger_testing as testing;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Answer, TestApp, create, destination, fresh_key, link, send};

const REQUESTS: usize = 200;
/// Time for which a command waits for its commit group.
const WAITING_TIME_MAX: Duration = Duration::from_secs(4);

fn with_status(answers: &[Answer], status: u16) -> Vec<&Answer> {
    answers
        .iter()
        .filter(|answer| answer.status == status)
        .collect()
}

/// Retries, as a client does, while the first request with the key takes longer than the other
/// requests wait.
async fn answer_to(app: &TestApp, key: &ApiKey, idempotency_key: Uuid, body: &Value) -> Answer {
    testing::eventually("the key is not in use any more", async || {
        let answer = send(&app.router, create(key, idempotency_key, body)).await;
        let is_in_use = answer.status == 409 && answer.problem() == "idempotency_key_in_use";
        (!is_in_use).then_some(answer)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creates_with_one_key_create_once() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(1_000).await;
    let idempotency_key = fresh_key();
    let body = destination();
    let requests = (0..REQUESTS).map(|_| answer_to(&app, &key, idempotency_key, &body));
    let answers = join_all(requests).await;

    assert_eq!(with_status(&answers, 201).len(), REQUESTS);
    let bodies: HashSet<_> = answers.iter().map(|answer| answer.body.clone()).collect();
    assert_eq!(bodies.len(), 1);
    let firsts = answers
        .iter()
        .filter(|answer| !answer.headers.contains_key("idempotent-replayed"));
    assert_eq!(firsts.count(), 1);
    assert_eq!(app.balance(account_id).await, 999);
    assert_eq!(app.count("LinkCreated").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_bodies_under_one_key_create_once() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(1_000).await;
    let idempotency_key = fresh_key();
    let bodies = [link("spring"), link("summer")];
    let requests =
        (0..REQUESTS).map(|n| answer_to(&app, &key, idempotency_key, &bodies[n % bodies.len()]));
    let answers = join_all(requests).await;
    assert_eq!(with_status(&answers, 201).len(), REQUESTS / 2);
    let refused = with_status(&answers, 422);
    assert_eq!(refused.len(), REQUESTS / 2);
    assert!(
        refused
            .iter()
            .all(|answer| answer.problem() == "idempotency_key_reused")
    );
    assert_eq!(app.balance(account_id).await, 999);
}

#[tokio::test(flavor = "multi_thread")]
async fn contended_slug_charges_only_the_winner() {
    let app = TestApp::start().await;
    let (first_id, first) = app.account(1_000).await;
    let (second_id, second) = app.account(1_000).await;
    let requests = (0..REQUESTS).map(|n| {
        let key = if n % 2 == 0 { &first } else { &second };
        send(&app.router, create(key, fresh_key(), &link("spring")))
    });
    let answers = join_all(requests).await;
    assert_eq!(with_status(&answers, 201).len(), 1);
    assert_eq!(with_status(&answers, 409).len(), REQUESTS - 1);
    assert_eq!(
        app.balance(first_id).await + app.balance(second_id).await,
        1_999
    );
    let slug_of_link: (i64,) = sqlx::query_as(
        "SELECT count(*) FROM event_store.slugs AS s
         JOIN event_store.events AS e ON e.stream_id = s.link_id AND e.shard = s.shard",
    )
    .fetch_one(app.database.pool())
    .await
    .unwrap();
    assert_eq!(slug_of_link.0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn five_credits_buy_five_links() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(5).await;
    let requests =
        (0..REQUESTS).map(|_| send(&app.router, create(&key, fresh_key(), &destination())));
    let answers = join_all(requests).await;
    let created = with_status(&answers, 201);
    assert_eq!(created.len(), 5);
    assert_eq!(with_status(&answers, 402).len(), REQUESTS - 5);
    let balances: HashSet<i64> = created
        .iter()
        .map(|it| it.json()["credits_balance"].as_i64().unwrap())
        .collect();
    assert_eq!(balances, HashSet::from([0, 1, 2, 3, 4]));
    assert_eq!(app.balance(account_id).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn unpayable_create_writes_no_slug() {
    let app = TestApp::start().await;
    let (_, key) = app.account(1).await;
    let answer = send(&app.router, create(&key, fresh_key(), &link("spring"))).await;
    assert_eq!(answer.status, 201);
    let forbid = "CREATE FUNCTION forbid() RETURNS trigger LANGUAGE plpgsql AS
                      $$ BEGIN RAISE EXCEPTION 'a refused create writes'; END $$;
                  CREATE TRIGGER forbid BEFORE INSERT OR DELETE ON event_store.slugs
                      FOR EACH ROW EXECUTE FUNCTION forbid()";
    sqlx::raw_sql(forbid)
        .execute(app.database.pool())
        .await
        .unwrap();
    for (body, status) in [
        (destination(), 402),
        (link("free"), 402),
        (link("SPRING"), 409),
    ] {
        let answer = send(&app.router, create(&key, fresh_key(), &body)).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_account_leaves_room_for_others() {
    let app = TestApp::start().await;
    let (busy_id, busy) = app.account(10_000).await;
    let (_, quiet) = app.account(10).await;
    // Sessions are connected and statements prepared.
    for key in [&busy, &quiet] {
        let answer = send(&app.router, create(key, fresh_key(), &destination())).await;
        assert_eq!(answer.status, 201);
    }
    let mut holder = PoolTransaction::begin(app.database.pool()).await.unwrap();
    linkledger_event_store::accounts::lock_in_tx(&mut holder, &[busy_id])
        .await
        .unwrap();
    // More requests than a writer has room for. On a slow machine some are late, or their key cannot be
    // looked up.
    let (overloaded, unavailable, late) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    let requests = (0..9_000).map(async |_| {
        let answer = send(&app.router, create(&busy, fresh_key(), &destination())).await;
        if answer.status != 201 {
            let count = match answer.problem().as_str() {
                "overloaded" => &overloaded,
                "storage_unavailable" => &unavailable,
                "deadline_exceeded" => &late,
                other => panic!("{other}"),
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let (_, ()) = tokio::join!(join_all(requests), async {
        let is_full = async || (overloaded.load(Ordering::Relaxed) > 0).then_some(());
        testing::eventually("the busy account is refused", is_full).await;
        let is_created = async || {
            let sent_at = Instant::now();
            let answer = send(&app.router, create(&quiet, fresh_key(), &destination())).await;
            let is_created = answer.status == 201;
            // A command that expires on a slow machine is `overloaded` too.
            let is_refused_at_once = sent_at.elapsed() < WAITING_TIME_MAX
                && !is_created
                && answer.problem() == "overloaded";
            assert!(!is_refused_at_once, "{answer:?}");
            is_created.then_some(())
        };
        testing::eventually("the quiet account creates a link", is_created).await;
        holder.rollback().await.unwrap();
    });
    let not_refused = 9_000 - overloaded.into_inner() - unavailable.into_inner();
    let not_refused = i64::try_from(not_refused).unwrap();
    let late = i64::try_from(late.into_inner()).unwrap();
    // The outcome of a late request is unknown.
    let charged = 9_999 - app.balance(busy_id).await;
    assert!(
        (not_refused - late..=not_refused).contains(&charged),
        "{charged} of {not_refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_share_accounts_keys_and_slugs() {
    let app = TestApp::start().await;
    let (other, _tasks) = app.another().await;
    let (account_id, key) = app.account(1_000).await;
    let keys: Vec<_> = (0..REQUESTS / 2).map(|_| fresh_key()).collect();
    // On a slow machine some are refused for now, and are sent again.
    let send_until_created = async |router, idempotency_key, body: Value| {
        testing::eventually("the link is created", async || {
            let answer = send(router, create(&key, idempotency_key, &body)).await;
            (answer.status == 201).then_some(answer)
        })
        .await
    };
    // Each key is sent to both processes concurrently.
    let requests = keys.iter().enumerate().flat_map(|(n, idempotency_key)| {
        let body = link(&format!("slug-{n}"));
        [&app.router, &other]
            .map(|router| send_until_created(router, *idempotency_key, body.clone()))
    });
    let answers = join_all(requests.collect::<Vec<_>>()).await;
    for pair in answers.chunks_exact(2) {
        assert_eq!(pair[0].body, pair[1].body);
    }
    let expected = 1_000 - i64::try_from(REQUESTS / 2).unwrap();
    assert_eq!(app.balance(account_id).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn any_mix_of_requests_leaves_log_sound() {
    let app = TestApp::start().await;
    let (other, _tasks) = app.another().await;
    let mut accounts = Vec::new();
    for balance in [0, 3, 20, 1_000] {
        accounts.push((app.account(balance).await, balance));
    }
    let keys: Vec<_> = (0..40).map(|_| fresh_key()).collect();
    let requests = (0..600_usize).map(|n| {
        // A pseudo-random mix, the same in every run.
        let mixed = n.wrapping_mul(2_654_435_761) >> 7;
        let ((_, key), _) = &accounts[mixed % accounts.len()];
        let body = match mixed % 5 {
            0 => destination(),
            1 => json!({ "destination_url": "ftp://example.com/" }),
            _ => link(&format!("slug-{}", mixed % 90)),
        };
        let router = if mixed % 3 == 0 { &other } else { &app.router };
        send(router, create(key, keys[mixed % keys.len()], &body))
    });
    let answers = join_all(requests.collect::<Vec<_>>()).await;
    assert!(with_status(&answers, 500).is_empty());
    assert!(!with_status(&answers, 201).is_empty());
    for ((account_id, _), granted) in &accounts {
        assert_sound(&app, *account_id, *granted).await;
    }
    assert_positions_have_no_gaps(&app).await;
}

/// Asserts that the events of the account add up to the row of the account, version by version.
async fn assert_sound(app: &TestApp, account_id: linkledger_core::id::AccountId, granted: i64) {
    let rows: Vec<(i64, i64, i64)> = sqlx::query_as(
        "SELECT version, (payload->>'amount')::bigint, (payload->>'balance_after')::bigint
         FROM event_store.events WHERE stream_id = $1 ORDER BY version",
    )
    .bind(account_id.uuid())
    .fetch_all(app.database.pool())
    .await
    .unwrap();
    let mut balance = granted;
    for (expected_version, (version, amount, balance_after)) in (1..).zip(&rows) {
        balance -= amount;
        assert_eq!((*version, *balance_after), (expected_version, balance));
        assert!(balance >= 0);
    }
    assert_eq!(app.balance(account_id).await, balance);
    let links: (i64,) = sqlx::query_as(
        "SELECT count(*) FROM event_store.events WHERE account_id = $1 AND type = 'LinkCreated'",
    )
    .bind(account_id.uuid())
    .fetch_one(app.database.pool())
    .await
    .unwrap();
    assert_eq!(links.0, i64::try_from(rows.len()).unwrap());
}

async fn assert_positions_have_no_gaps(app: &TestApp) {
    let gaps: (i64,) = sqlx::query_as(
        "SELECT count(*) FROM event_store.log_shards AS s
         LEFT JOIN LATERAL (
             SELECT count(*) AS events, coalesce(max(position), 0) AS last
             FROM event_store.events AS e WHERE e.shard = s.shard
         ) AS e ON true
         WHERE e.events <> s.head OR e.last <> s.head",
    )
    .fetch_one(app.database.pool())
    .await
    .unwrap();
    assert_eq!(gaps.0, 0);
    // Each charge follows its link in the log.
    let unpaired: (i64,) = sqlx::query_as(
        "SELECT count(*) FROM event_store.events AS link
         LEFT JOIN event_store.events AS charge
             ON charge.shard = link.shard AND charge.position = link.position + 1
            AND charge.payload->>'link_id' = link.payload->>'link_id'
            AND charge.type = 'CreditsCharged'
         WHERE link.type = 'LinkCreated' AND charge.position IS NULL",
    )
    .fetch_one(app.database.pool())
    .await
    .unwrap();
    assert_eq!(unpaired.0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn create_waits_for_account_locked_elsewhere() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(5).await;
    let (_, free) = app.account(5).await;
    // Sessions are connected and statements prepared, so the request only waits for the account.
    let answer = send(&app.router, create(&free, fresh_key(), &destination())).await;
    assert_eq!(answer.status, 201);
    let mut holder = PoolTransaction::begin(app.database.pool()).await.unwrap();
    linkledger_event_store::accounts::lock_in_tx(&mut holder, &[account_id])
        .await
        .unwrap();
    let request = send(&app.router, create(&key, fresh_key(), &destination()));
    let (answer, ()) = tokio::join!(request, async {
        // A create of another account succeeds meanwhile; then the holder releases the lock.
        let answer = send(&app.router, create(&free, fresh_key(), &destination())).await;
        assert_eq!(answer.status, 201);
        holder.rollback().await.unwrap();
    });
    assert_eq!(answer.status, 201);
    testing::eventually("all links are there", || async {
        (app.count("LinkCreated").await == 3).then_some(())
    })
    .await;
}
