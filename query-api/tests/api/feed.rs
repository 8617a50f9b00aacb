//! `GET /v1/events`: the feed of the events of an account.

mod waits;

use std::time::Duration;

use futures::future::join_all;
use linkledger_core::{
    api_key::Scope,
    cursor::{CursorScope, Place},
    envelope::RecordedEvent,
    id::AccountId,
    shard::{Position, Shard},
    timestamp,
};
use linkledger_event_store::log;
use linkledger_testing as testing;
use linkledger_testing::{LaterEvent, append_later_event, events};
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::service::{TestCaller, TestService, token_of};

const FEED: &str = "/v1/events";

/// Returns an account whose part of the log has an event of every type.
async fn account_with_every_type(service: &TestService, name: &str) -> TestCaller {
    let (pool, account_id) = (service.pool(), testing::new_account_id());
    testing::created_account(pool, account_id, name).await;
    testing::append_events(pool, account_id, &[events::granted(account_id, 100, 100)]).await;
    let changes = events::every_change(pool, account_id, name).await;
    testing::append_events(pool, account_id, &changes).await;
    let key = testing::api_key(pool, account_id, &Scope::ALL).await;
    TestCaller { account_id, key }
}

/// Returns a caller whose account is in the shard.
async fn caller_of(service: &TestService, shard: Shard) -> TestCaller {
    let account_id = testing::account_of(service.pool(), shard, 1_000).await;
    let key = testing::api_key(service.pool(), account_id, &Scope::ALL).await;
    TestCaller { account_id, key }
}

/// Appends a grant, as the last event of the account.
async fn grant(pool: &PgPool, account_id: AccountId) {
    let grant = events::granted(account_id, 1, 1_000);
    testing::append_events(pool, account_id, &[grant]).await;
}

/// Returns the account's part of the log.
async fn log_of(pool: &PgPool, account_id: AccountId) -> Vec<RecordedEvent> {
    let positions: Vec<Position> = sqlx::query_scalar(
        "SELECT position FROM event_store.events WHERE account_id = $1 ORDER BY position",
    )
    .bind(account_id.uuid())
    .fetch_all(pool)
    .await
    .unwrap();
    let events = log::read_at(pool, Shard::of(account_id), &positions).await;
    events.unwrap()
}

/// Returns the item of an event.
fn item(event: &RecordedEvent) -> Value {
    json!({
        "id": event.event_id.to_string(),
        "type": event.event_type,
        "time": timestamp::format(event.recorded_at),
        "sequence": event.position,
        "data": event.decode().unwrap().owner_payload(),
    })
}

/// Returns the items of the account's part of the log.
async fn items_of(service: &TestService, caller: &TestCaller) -> Vec<Value> {
    let log = log_of(service.pool(), caller.account_id).await;
    log.iter().map(item).collect()
}

/// Returns the page of a query.
async fn page(service: &TestService, caller: &TestCaller, query: &str) -> Value {
    let answer = service.get(caller, &format!("{FEED}?{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.body);
    answer.json()
}

fn items(page: &Value) -> &[Value] {
    page["items"].as_array().unwrap()
}

fn cursor(page: &Value) -> String {
    page["next_cursor"].as_str().unwrap().to_owned()
}

/// Returns the items of all pages from that of the query on, by the `Link` headers.
async fn all_items(service: &TestService, caller: &TestCaller, query: &str) -> Vec<Value> {
    let (mut found, mut next) = (Vec::new(), Some(format!("{FEED}?{query}")));
    while let Some(path) = next {
        let answer = service.get(caller, &path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert_eq!(answer.header("cache-control"), Some("private, no-cache"));
        let page = answer.json();
        found.extend_from_slice(items(&page));
        next = answer.header("link").map(|link| {
            let link = link.strip_suffix(">; rel=\"next\"").unwrap();
            link.strip_prefix('<').unwrap().to_owned()
        });
        assert_eq!(page["has_more"], next.is_some());
        let after = format!("&after={}", cursor(&page));
        assert!(next.iter().all(|next| next.ends_with(&after)), "{next:?}");
    }
    found
}

#[tokio::test]
async fn feed_has_every_event_of_the_account_once_in_order() {
    let service = TestService::start().await;
    let caller = account_with_every_type(&service, "first").await;
    let other = account_with_every_type(&service, "second").await;
    for caller in [&caller, &other] {
        let expected = items_of(&service, caller).await;
        for limit in [1, 2, 3, 100] {
            let found = all_items(&service, caller, &format!("limit={limit}")).await;
            assert_eq!(found, expected, "{limit}");
        }
        let by_operators = expected.iter().filter(|it| it["type"] != "WebhookDisabled");
        for item in by_operators.map(Value::to_string) {
            for member in ["reason", "reference", "fingerprint", "actor", "metadata"] {
                assert!(!item.contains(&format!("\"{member}\"")), "{item}");
            }
        }
    }
}

#[tokio::test]
async fn fresh_write_is_in_the_feed() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "fresh").await;
    let token = token_of(&link, 1);
    let headers = [("consistency-token", token.as_str())];
    let answer = service.get_with(&caller, FEED, &headers).await.json();
    assert_eq!(items(&answer)[0]["data"]["slug"], "fresh");
    assert_eq!(items(&answer)[1]["type"], "CreditsCharged");
}

/// Appends a link, changes it and deletes it.
async fn write(service: &TestService, caller: &TestCaller, number: usize) {
    let slug = format!("at-once-{number}");
    let link = service.append_link(caller, &slug).await.link;
    for change in [
        events::destination_changed(&link, "https://elsewhere.example/"),
        events::deleted(&link),
    ] {
        testing::append_events(service.pool(), caller.account_id, &[change]).await;
    }
}

/// Items of a scan, and the cursors between its pages, each with the number of items before.
#[derive(Default)]
struct Scan {
    items: Vec<Value>,
    cursors: Vec<(usize, String)>,
}

impl Scan {
    /// Reads the feed to its end after everything is written.
    async fn run(service: &TestService, caller: &TestCaller, written: &CancellationToken) -> Self {
        let (mut scan, mut query) = (Self::default(), "from=beginning".to_owned());
        for limit in [1, 2, 3, 7, 100].into_iter().cycle() {
            let is_written = written.is_cancelled();
            let page = page(service, caller, &format!("limit={limit}&{query}")).await;
            if !items(&page).is_empty() {
                scan.items.extend_from_slice(items(&page));
                scan.cursors.push((scan.items.len(), cursor(&page)));
            } else if is_written {
                break;
            }
            query = format!("after={}", cursor(&page));
            tokio::task::yield_now().await;
        }
        scan
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_miss_nothing_while_writers_append() {
    const WRITERS: usize = 64;
    let service = TestService::start().await;
    let shards: Vec<Shard> = Shard::all().collect();
    // Two accounts in one shard.
    let callers = [shards[0], shards[0], shards[1]].map(|shard| caller_of(&service, shard));
    let callers = join_all(callers).await;
    let written = CancellationToken::new();
    let writing = async {
        let writers = callers.iter().cycle().take(WRITERS).enumerate();
        join_all(writers.map(|(number, caller)| write(&service, caller, number))).await;
        written.cancel();
    };
    let reading = callers
        .iter()
        .map(|caller| Scan::run(&service, caller, &written));
    let (scans, ()) = tokio::join!(join_all(reading), writing);

    for (caller, scan) in callers.iter().zip(scans) {
        let expected = items_of(&service, caller).await;
        assert_eq!(scan.items, expected);
        for (before, cursor) in scan.cursors.iter().step_by(5) {
            let query = format!("limit=50&after={cursor}");
            let found = all_items(&service, caller, &query).await;
            assert_eq!(found, expected[*before..]);
        }
    }
}

#[tokio::test]
async fn filter_by_types_leaves_the_others_out() {
    let service = TestService::start().await;
    let caller = account_with_every_type(&service, "typed").await;
    let all = items_of(&service, &caller).await;
    for types in [
        "LinkCreated",
        "ApiKeyIssued,CreditsRefunded",
        "LinkDeleted,AccountCreated,LinkEnabled",
    ] {
        let wanted: Vec<&str> = types.split(',').collect();
        let is_wanted = |item: &&Value| wanted.contains(&item["type"].as_str().unwrap());
        let expected: Vec<Value> = all.iter().filter(is_wanted).cloned().collect();
        assert!(expected.len() >= wanted.len());
        for limit in [1, 2, 100] {
            let query = format!("types={types}&limit={limit}");
            let found = all_items(&service, &caller, &query).await;
            assert_eq!(found, expected, "{query}");
        }
    }
}

#[tokio::test]
async fn page_with_a_filter_looks_at_a_thousand_events() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let account_id = caller.account_id;
    let grants: Vec<_> = (1..=1_050)
        .map(|number| events::granted(account_id, 1, 1_000 + number))
        .collect();
    testing::append_events(service.pool(), account_id, &grants).await;
    service.append_link(&caller, "last").await;
    let first = page(&service, &caller, "types=LinkCreated").await;
    assert_eq!(items(&first), [] as [Value; 0]);
    assert_eq!(first["has_more"], true);
    let found = all_items(&service, &caller, "types=LinkCreated").await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["data"]["slug"], "last");
}

#[tokio::test]
async fn feed_starts_where_the_request_says() {
    let service = TestService::start().await;
    let (caller, other) = (service.caller().await, service.caller().await);
    for slug in ["one", "two", "three"] {
        service.append_link(&caller, slug).await;
        service.append_link(&other, &format!("other-{slug}")).await;
        // The next events have a later millisecond.
        sleep(Duration::from_millis(5)).await;
    }
    let time = items_of(&service, &caller).await[2]["time"].clone();
    // The number of events before the start; none for a start at the end.
    for (from, before) in [
        ("beginning", Some(0)),
        ("2000-01-01", Some(0)),
        (time.as_str().unwrap(), Some(2)),
        ("now", None),
        ("2099-12-31T23:59:59Z", None),
    ] {
        let all = items_of(&service, &caller).await;
        let first = page(&service, &caller, &format!("from={from}&limit=100")).await;
        let expected = &all[before.unwrap_or(all.len())..];
        assert_eq!(items(&first), expected, "{from}");
        assert_eq!(first["has_more"], false, "{from}");
        // What comes later follows each last page.
        grant(service.pool(), caller.account_id).await;
        let later = page(&service, &caller, &format!("after={}", cursor(&first))).await;
        let with_grant = items_of(&service, &caller).await;
        assert_eq!(items(&later), &with_grant[all.len()..], "{from}");
    }
}

#[tokio::test]
async fn invalid_parameters_are_named() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    for (query, parameter, code) in [
        ("limit=0", "limit", "out_of_range"),
        ("wait=26", "wait", "out_of_range"),
        ("wait=-1", "wait", "out_of_range"),
        ("wait=01", "wait", "out_of_range"),
        ("wait=1.5", "wait", "out_of_range"),
        ("wait=99999999999999999999", "wait", "out_of_range"),
        ("types=", "types", "unknown_value"),
        ("types=LinkCreated,LinkFrozen", "types", "unknown_value"),
        ("types=%27%3B--", "types", "unknown_value"),
        ("from=", "from", "invalid_time"),
        ("from=yesterday", "from", "invalid_time"),
        ("from=%00", "from", "invalid_encoding"),
        ("from=now&from=now", "from", "repeated_parameter"),
        ("from=now&after=x", "from", "not_with_after"),
        ("cursor=x", "cursor", "unknown_parameter"),
    ] {
        let answer = service.get(&caller, &format!("{FEED}?{query}")).await;
        answer.assert_problem(400, "invalid_parameter");
        let error = &answer.json()["errors"][0];
        assert_eq!(error["parameter"], parameter, "{query}");
        assert_eq!(error["code"], code, "{query}");
    }
}

/// Place of a forged cursor.
struct ForgedPlace(Vec<u8>);

impl Place for ForgedPlace {
    fn to_bytes(&self) -> Vec<u8> {
        self.0.clone()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.to_vec()))
    }
}

fn scope_of(list: &str, account_id: AccountId) -> CursorScope {
    CursorScope {
        list: list.to_owned(),
        filters: String::new(),
        account_id,
    }
}

#[tokio::test]
async fn cursor_works_for_its_own_feed_only() {
    let service = TestService::start().await;
    let (caller, other) = (service.caller().await, service.caller().await);
    service.append_link(&caller, "own").await;
    let own = cursor(&page(&service, &caller, "limit=1").await);
    assert_eq!(
        items(&page(&service, &caller, &format!("after={own}")).await).len(),
        1
    );
    let of_type = cursor(&page(&service, &caller, "types=LinkCreated,LinkDeleted").await);
    let in_other_order = format!("types=LinkDeleted,LinkCreated&after={of_type}");
    page(&service, &caller, &in_other_order).await;
    let of_links = scope_of("/v1/links", caller.account_id).cursor_after(&ForgedPlace(vec![0; 20]));
    for (caller, query) in [
        (&other, format!("after={own}")),
        (&caller, format!("after={of_type}")),
        (&caller, format!("types=LinkCreated&after={own}")),
        (&caller, format!("types=LinkCreated&after={of_type}")),
        (&caller, format!("after={of_links}")),
        (&caller, format!("after=A{own}")),
        (&caller, format!("after={}", &own[..own.len() - 1])),
        (&caller, "after=".to_owned()),
    ] {
        let answer = service.get(caller, &format!("{FEED}?{query}")).await;
        answer.assert_problem(400, "invalid_cursor");
        assert_eq!(answer.json()["errors"][0]["parameter"], "after", "{query}");
    }
}

#[tokio::test]
async fn cursor_from_before_a_restore_is_refused() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    service.append_link(&caller, "restored").await;
    let before = cursor(&page(&service, &caller, "limit=1").await);
    sqlx::query("UPDATE event_store.log_meta SET epoch = epoch + 1")
        .execute(service.pool())
        .await
        .unwrap();
    // At once, although the process learns other things of the epoch some seconds later.
    for wait in [0, 25] {
        let path = format!("{FEED}?after={before}&wait={wait}");
        let answer = service.get(&caller, &path).await;
        answer.assert_problem(409, "log_restored");
    }
    let first = page(&service, &caller, "from=2000-01-01").await;
    assert_eq!(items(&first).len(), 2);
    page(&service, &caller, &format!("after={}", cursor(&first))).await;
}

#[tokio::test]
async fn forged_cursor_reaches_own_events_only() {
    const NUMBERS: [i64; 5] = [i64::MIN, -1, 0, 2, i64::MAX];
    let service = TestService::start().await;
    let shard = Shard::all().next().unwrap();
    let (caller, other) = (
        caller_of(&service, shard).await,
        caller_of(&service, shard).await,
    );
    for number in 0..3 {
        service.append_link(&caller, &format!("own-{number}")).await;
        service
            .append_link(&other, &format!("other-{number}"))
            .await;
    }
    let scope = scope_of(FEED, caller.account_id);
    let own = items_of(&service, &caller).await;
    let mut shown = 0;
    for (position, version) in NUMBERS
        .iter()
        .flat_map(|it| NUMBERS.map(|other| (*it, other)))
    {
        let epoch = 1_i32.to_be_bytes();
        let place = [&epoch[..], &position.to_be_bytes(), &version.to_be_bytes()].concat();
        let cursor = scope.cursor_after(&ForgedPlace(place));
        let found = page(&service, &caller, &format!("after={cursor}")).await;
        assert!(
            items(&found).iter().all(|item| own.contains(item)),
            "{position} {version}"
        );
        shown += items(&found).len();
    }
    assert!(shown > 0);
    let short = scope.cursor_after(&ForgedPlace(vec![0; 19]));
    let answer = service.get(&caller, &format!("{FEED}?after={short}")).await;
    answer.assert_problem(400, "invalid_cursor");
}

#[tokio::test]
async fn unreadable_event_stops_its_readers_only() {
    let service = TestService::start().await;
    let other = service.caller().await;
    service.append_link(&other, "other").await;
    for event_type in ["CreditsFrozen", "LinkFrozen"] {
        let caller = service.caller().await;
        let link = service.append_link(&caller, event_type).await;
        let stream_id = match event_type {
            "LinkFrozen" => link.link.link_id.uuid(),
            _ => caller.account_id.uuid(),
        };
        let later = LaterEvent {
            account_id: caller.account_id,
            stream_id,
            event_type,
            schema_version: 1,
            payload: json!({}),
            metadata: json!({}),
            idempotency_key: None,
        };
        append_later_event(service.pool(), later).await;
        let answer = service.get(&caller, FEED).await;
        answer.assert_read_model_behind();
        // A page before the event, and pages without events of its type.
        assert_eq!(items(&page(&service, &caller, "limit=2").await).len(), 2);
        let created = page(&service, &caller, "types=LinkCreated").await;
        assert_eq!(items(&created).len(), 1);
    }
    assert_eq!(items(&page(&service, &other, "").await).len(), 2);
}
