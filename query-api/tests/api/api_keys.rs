//! API keys: their form in a request, the time for which they are cached, and floods of unknown keys.

use std::time::{Duration, Instant};

use axum::http::Method;
use futures::future::join_all;
use linkledger_core::{
    api_key::{ApiKey, KeyState, Scope},
    clock::{Clock as _, SystemClock},
    id::KeyId,
};
use linkledger_event_store::{
    api_keys::{self, KeySecret, ListedKey},
    transaction::PoolTransaction,
};
use linkledger_testing as testing;
use linkledger_testing::{TestDatabase, eventually, sessions_waiting_for_lock};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::service::{Answer, TestCaller, TestService};

const LINKS: &str = "/v1/links";
/// Bound on the delay of a revocation; see `docs/api.md#api-keys`.
const TRUSTED_FOR: Duration = Duration::from_secs(5);

async fn send(service: &TestService, authorization: &str) -> Answer {
    let headers = [("authorization", authorization)];
    service.call_api(Method::GET, LINKS, &headers).await
}

async fn with_key(service: &TestService, key: &ApiKey) -> Answer {
    send(service, &format!("Bearer {}", key.reveal())).await
}

async fn stored(pool: &PgPool, caller: &TestCaller) -> ListedKey {
    let mut keys = api_keys::list(pool, caller.account_id).await.unwrap();
    assert_eq!(keys.len(), 1);
    keys.remove(0)
}

#[tokio::test]
async fn authorization_ignores_case_and_white_space() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let key = caller.key.reveal();
    for authorization in [
        format!("bearer {key}"),
        format!("BEARER   {key}  "),
        format!("Bearer\t{key}"),
    ] {
        let answer = send(&service, &authorization).await;
        assert_eq!(answer.status, 200, "{authorization:?}");
    }
    for authorization in [
        format!("Bearer {key},{key}"),
        format!("Bearer {key} {key}"),
        format!("Bearer \"{key}\""),
        format!("Bearer {key}="),
    ] {
        let answer = send(&service, &authorization).await;
        answer.assert_problem(401, "api_key_invalid");
    }
}

#[tokio::test]
async fn api_key_in_query_is_ignored() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    for name in ["access_token", "api_key", "key", "authorization"] {
        let path = format!("{LINKS}?{name}={}", caller.key.reveal());
        let answer = service.call_api(Method::GET, &path, &[]).await;
        answer.assert_problem(401, "authentication_required");
        // The key in the query is not logged either, if another key authenticates the request.
        let answer = service.get(&caller, &path).await;
        answer.assert_problem(400, "invalid_parameter");
        assert!(!answer.body.contains(caller.key.reveal()));
    }
}

#[tokio::test]
async fn unusable_api_keys_get_same_answer() {
    let service = TestService::start().await;
    let unknown = ApiKey::generate();
    let mut mistyped = unknown.reveal().to_owned();
    let last = if mistyped.pop() == Some('0') {
        '1'
    } else {
        '0'
    };
    mistyped.push(last);
    let answers = join_all(
        [
            "Bearer x",
            &format!("Bearer {mistyped}"),
            &format!("Bearer {}", unknown.reveal()),
        ]
        .map(async |authorization| send(&service, authorization).await),
    )
    .await;
    for answer in &answers {
        answer.assert_problem(401, "api_key_invalid");
        assert_eq!(
            answer.body_without_request_id(),
            answers[0].body_without_request_id()
        );
        let challenge = "Bearer realm=\"linkledger\", error=\"invalid_token\"";
        assert_eq!(answer.header("www-authenticate"), Some(challenge));
    }
}

#[tokio::test]
async fn revocation_reaches_all_processes_within_5s() {
    let one = TestService::start().await;
    let other = one.another().await;
    let (revoked, suspended) = (one.caller().await, one.caller().await);
    for service in [&one, &other] {
        for caller in [&revoked, &suspended] {
            assert_eq!(with_key(service, &caller.key).await.status, 200);
        }
    }
    let key_id = stored(one.pool(), &revoked).await.key_id;
    // Processes whose clocks lag refuse the key too.
    for service in [&one, &other] {
        assert!(service.clock.now() < SystemClock.now());
    }
    revoke(one.pool(), key_id, 0).await;
    sqlx::query("UPDATE event_store.accounts SET status = 'suspended' WHERE account_id = $1")
        .bind(suspended.account_id.uuid())
        .execute(one.pool())
        .await
        .unwrap();
    let withdrawn_at = Instant::now();
    for service in [&one, &other] {
        for (caller, status, code) in [
            (&revoked, 401, "api_key_revoked"),
            (&suspended, 403, "account_suspended"),
        ] {
            let refusal = eventually("the key is refused", || async {
                let sent_after = withdrawn_at.elapsed();
                let answer = with_key(service, &caller.key).await;
                if answer.status != 200 {
                    return Some(answer);
                }
                assert!(sent_after < TRUSTED_FOR, "accepted after {sent_after:?}");
                None
            })
            .await;
            refusal.assert_problem(status, code);
        }
    }
}

#[tokio::test]
async fn rotated_key_ends_and_successor_works() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let pool = service.pool();
    let key_id = stored(pool, &caller).await.key_id;
    let successor = testing::api_key(pool, caller.account_id, &Scope::ALL).await;
    let expiring = ApiKey::generate();
    // A rotation ends the old key like this.
    let end = revoke(pool, key_id, 1).await;
    insert(pool, &caller, &expiring, Some(end)).await;

    let rest = Duration::from_millis(1);
    let almost = end - rest - service.clock.now();
    service.clock.advance(almost.try_into().unwrap());
    for key in [&caller.key, &expiring, &successor] {
        assert_eq!(with_key(&service, key).await.status, 200);
    }
    service.clock.advance(rest);
    for (key, code) in [
        (&caller.key, "api_key_revoked"),
        (&expiring, "api_key_expired"),
    ] {
        let answer = with_key(&service, key).await;
        answer.assert_problem(401, code);
        let challenge = answer.header("www-authenticate").unwrap();
        assert!(
            challenge.ends_with("error=\"invalid_token\""),
            "{challenge}"
        );
    }
    assert_eq!(with_key(&service, &successor).await.status, 200);
}

async fn insert(
    pool: &PgPool,
    caller: &TestCaller,
    secret: &ApiKey,
    expires_at: Option<OffsetDateTime>,
) {
    let key = KeyState {
        key_id: KeyId::from_uuid(Uuid::from_u128(u128::MAX)),
        account_id: caller.account_id,
        name: "test".to_owned(),
        scopes: Scope::names(&Scope::ALL),
        created_at: OffsetDateTime::UNIX_EPOCH,
        expires_at,
        revoked_at: None,
    };
    let mut session = pool.acquire().await.unwrap();
    api_keys::insert_in_tx(&mut session, &key, &KeySecret::of(secret))
        .await
        .unwrap();
}

/// Revokes a key after some hours, by the clock of the database. Returns the time.
async fn revoke(pool: &PgPool, key_id: KeyId, hours: i32) -> OffsetDateTime {
    sqlx::query_scalar(
        "UPDATE event_store.api_keys SET revoked_at = now() + make_interval(hours => $2)
         WHERE key_id = $1 RETURNING revoked_at",
    )
    .bind(key_id.uuid())
    .bind(hours)
    .fetch_one(pool)
    .await
    .unwrap()
}

#[tokio::test]
async fn key_used_before_issue_works_soon_after() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let early = ApiKey::generate();
    let answer = with_key(&service, &early).await;
    answer.assert_problem(401, "api_key_invalid");
    insert(service.pool(), &caller, &early, None).await;
    eventually("the key is known", || async {
        (with_key(&service, &early).await.status == 200).then_some(())
    })
    .await;
}

/// Number of keys that no statement has looked up yet: more than one statement takes.
const UNSEEN: usize = 400;

#[tokio::test]
async fn flood_of_unknown_keys_spares_known_keys() {
    let service = TestService::start().await;
    let (known, fresh) = (service.caller().await, service.caller().await);
    assert_eq!(with_key(&service, &known.key).await.status, 200);
    // The look-ups are blocked, so they hold the most sessions that they can ever hold. The known key is used before
    // it is stale.
    let lock = lock_keys(&service).await;
    let flood = join_all((0..UNSEEN).map(async |_| with_key(&service, &ApiKey::generate()).await));
    let watch = async {
        eventually("look-ups wait", async || {
            (waiting_look_ups(&service).await == 2).then_some(())
        })
        .await;
        assert_eq!(with_key(&service, &known.key).await.status, 200);
        assert_eq!(waiting_look_ups(&service).await, 2);
        lock.rollback().await.unwrap();
    };
    let (answers, ()) = tokio::join!(flood, watch);
    for answer in &answers {
        answer.assert_problem(401, "api_key_invalid");
    }
    assert_eq!(with_key(&service, &fresh.key).await.status, 200);
}

#[tokio::test]
async fn unseen_keys_among_invented_keys_are_found() {
    let database = TestDatabase::create().await;
    let service = TestService::start_with(database, |config| config.api_keys_cached_max = 1).await;
    let callers = join_all((0..8).map(async |_| service.caller().await)).await;
    let lock = lock_keys(&service).await;
    let flood = join_all((0..UNSEEN).map(async |_| with_key(&service, &ApiKey::generate()).await));
    let customers = join_all(callers.iter().map(|caller| with_key(&service, &caller.key)));
    let release = async {
        eventually("look-ups wait", async || {
            (waiting_look_ups(&service).await == 2).then_some(())
        })
        .await;
        lock.rollback().await.unwrap();
    };
    let (strangers, answers, ()) = tokio::join!(flood, customers, release);
    for answer in strangers {
        answer.assert_problem(401, "api_key_invalid");
    }
    for answer in answers {
        assert_eq!(answer.status, 200);
    }
}

#[tokio::test]
async fn stale_key_does_not_wait_behind_unseen_keys() {
    let service = TestService::start().await;
    let known = service.caller().await;
    assert_eq!(with_key(&service, &known.key).await.status, 200);
    let loaded_at = Instant::now();
    eventually("the cached key is stale", async || {
        (loaded_at.elapsed() > TRUSTED_FOR).then_some(())
    })
    .await;
    let lock = lock_keys(&service).await;
    let flood = join_all((0..UNSEEN).map(async |_| with_key(&service, &ApiKey::generate()).await));
    let customer = async {
        eventually("look-ups wait", async || {
            (waiting_look_ups(&service).await == 2).then_some(())
        })
        .await;
        with_key(&service, &known.key).await
    };
    let release = async {
        eventually("the look-up of the stale key waits too", async || {
            (waiting_look_ups(&service).await == 3).then_some(())
        })
        .await;
        lock.rollback().await.unwrap();
    };
    let (strangers, customer, ()) = tokio::join!(flood, customer, release);
    for answer in strangers {
        answer.assert_problem(401, "api_key_invalid");
    }
    assert_eq!(customer.status, 200);
}

#[tokio::test]
async fn unreadable_key_fails_only_its_own_requests() {
    let service = TestService::start().await;
    let unreadable = service.caller().await;
    // Postgres has timestamps that Rust has not; decoding one panics.
    sqlx::query("UPDATE event_store.api_keys SET expires_at = 'infinity' WHERE account_id = $1")
        .bind(unreadable.account_id.uuid())
        .execute(service.pool())
        .await
        .unwrap();
    let lock = lock_keys(&service).await;
    let keys = (0..UNSEEN).map(|_| ApiKey::generate()).collect::<Vec<_>>();
    // Two requests among many others.
    let with = |n: usize| {
        if n == 255 || n == 256 {
            &unreadable.key
        } else {
            &keys[n]
        }
    };
    let requests = join_all((0..UNSEEN).map(async |n| with_key(&service, with(n)).await));
    let release = async {
        eventually("look-ups wait", async || {
            (waiting_look_ups(&service).await == 2).then_some(())
        })
        .await;
        lock.rollback().await.unwrap();
    };
    let (answers, ()) = tokio::join!(requests, release);
    for (n, answer) in answers.iter().enumerate() {
        if n == 255 || n == 256 {
            answer.assert_problem(503, "storage_unavailable");
        } else {
            answer.assert_problem(401, "api_key_invalid");
        }
    }
    // No task has failed.
    service.shut_down().await.unwrap();
}

#[tokio::test]
async fn concurrent_requests_share_key_look_ups() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let lock = lock_keys(&service).await;
    // Rejected right after authentication, so that only the key is looked up.
    let path = format!("{LINKS}?unknown=1");
    let burst = join_all((0..400).map(async |_| service.get(&caller, &path).await));
    let watch = async {
        eventually("a look-up waits", async || {
            (waiting_look_ups(&service).await > 0).then_some(())
        })
        .await;
        assert!(waiting_look_ups(&service).await <= 2);
        lock.rollback().await.unwrap();
    };
    let (answers, ()) = tokio::join!(burst, watch);
    for answer in &answers {
        answer.assert_problem(400, "invalid_parameter");
    }
}

/// Blocks every look-up of a key until the transaction ends.
async fn lock_keys(service: &TestService) -> PoolTransaction {
    let mut lock = PoolTransaction::begin(service.pool()).await.unwrap();
    sqlx::query("LOCK TABLE event_store.api_keys IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *lock)
        .await
        .unwrap();
    lock
}

async fn waiting_look_ups(service: &TestService) -> i64 {
    sessions_waiting_for_lock(service.pool()).await
}

#[tokio::test]
async fn key_use_is_recorded_once_a_minute() {
    let mut service = TestService::start().await;
    let caller = service.caller().await;
    let begun = service.clock.now();
    assert_eq!(stored(service.pool(), &caller).await.last_used_at, None);
    let mut last_used_at = begun;
    for (seconds, is_written) in [(0, true), (59, false), (60, true)] {
        let now = begun + Duration::from_secs(seconds);
        service.clock.advance(Duration::from_secs(seconds));
        assert_eq!(with_key(&service, &caller.key).await.status, 200);
        let database = service.shut_down().await.unwrap();
        if is_written {
            last_used_at = now;
        }
        let stored = stored(database.pool(), &caller).await;
        assert_eq!(stored.last_used_at, Some(last_used_at), "{seconds} s");
        service = TestService::start_with(database, |_| {}).await;
    }
}

#[tokio::test]
async fn key_use_during_shutdown_is_recorded() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    service.begin_shutdown();
    assert_eq!(with_key(&service, &caller.key).await.status, 200);
    let now = service.clock.now();
    let database = service.shut_down().await.unwrap();
    let stored = stored(database.pool(), &caller).await;
    assert_eq!(stored.last_used_at, Some(now));
}

#[tokio::test]
async fn recording_of_key_use_waits_for_no_standby() {
    let database = TestDatabase::create().await;
    sqlx::raw_sql(
        "CREATE TABLE settings (synchronous_commit text);
         CREATE FUNCTION keep_setting() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             INSERT INTO settings VALUES (current_setting('synchronous_commit'));
             RETURN NEW;
         END $$;
         CREATE TRIGGER keep_setting BEFORE UPDATE OF last_used_at ON event_store.api_keys
             FOR EACH ROW EXECUTE FUNCTION keep_setting();
         DO $$ BEGIN
             EXECUTE format('ALTER DATABASE %I SET synchronous_commit = on', current_database());
         END $$",
    )
    .execute(database.pool())
    .await
    .unwrap();
    let service = TestService::start_with(database, |_| {}).await;
    let caller = service.caller().await;
    assert_eq!(with_key(&service, &caller.key).await.status, 200);
    let database = service.shut_down().await.unwrap();
    let settings = sqlx::query_scalar::<_, String>("SELECT synchronous_commit FROM settings");
    let settings = settings.fetch_all(database.pool()).await.unwrap();
    assert_eq!(settings, ["off"]);
}

#[tokio::test]
async fn refused_key_is_not_recorded_as_used() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let key_id = stored(service.pool(), &caller).await.key_id;
    revoke(service.pool(), key_id, 0).await;
    assert_eq!(with_key(&service, &caller.key).await.status, 401);
    let database = service.shut_down().await.unwrap();
    assert_eq!(stored(database.pool(), &caller).await.last_used_at, None);
}

#[tokio::test]
async fn failed_recording_of_key_use_delays_nobody() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    sqlx::query("ALTER TABLE event_store.api_keys DROP COLUMN last_used_at")
        .execute(service.pool())
        .await
        .unwrap();
    assert_eq!(with_key(&service, &caller.key).await.status, 200);
    service.shut_down().await.unwrap();
}
