//! Pages of the log: of one account, of all, of one type.

use linkledger_core::{envelope::RecordedEvent, id::AccountId, shard::Shard, timestamp};
use linkledger_event_store::log::{self, ReadFrom};
use linkledger_testing as testing;
use linkledger_testing::events;
use serde_json::{Value, json};

use super::{ACCOUNTS, ACTOR, Fixture, key_issued, renamed};

const EVENTS: &str = "/admin/v1/events";

/// Returns the events of the log, each shard in its order, as answers show them.
pub(super) async fn log_of(fixture: &Fixture) -> Vec<Value> {
    let from: Vec<ReadFrom> = Shard::all()
        .map(|shard| ReadFrom { shard, after: 0 })
        .collect();
    let events = log::read_after(fixture.pool(), &from, 1_000).await;
    let body = |event: RecordedEvent| {
        let payload: Value = serde_json::from_str(&event.payload).unwrap();
        let subject = event.decode().unwrap().subject().to_string();
        json!({
            "id": event.event_id, "type": event.event_type, "schema_version": event.schema_version,
            "time": timestamp::format(event.recorded_at), "account_id": event.account_id,
            "subject": subject, "version": event.version, "shard": event.shard.number(),
            "position": event.position, "payload": payload, "metadata": event.metadata,
        })
    };
    by_shard(events.unwrap().into_iter().map(body).collect())
}

/// Returns the items in the order of the log.
fn by_shard(mut items: Vec<Value>) -> Vec<Value> {
    items.sort_by_key(|it| (it["shard"].as_i64(), it["position"].as_i64()));
    items
}

fn of_shard(items: &[Value], shard: Shard) -> Vec<Value> {
    let of_shard = items.iter().filter(|it| it["shard"] == shard.number());
    of_shard.cloned().collect()
}

/// Creates accounts with links, keys and credits.
async fn fill(fixture: &Fixture) -> Vec<AccountId> {
    let mut accounts = Vec::new();
    for number in 0..4 {
        let account_id = fixture.account("test", None).await;
        let granted = events::granted(account_id, 100, 107);
        fixture.append(account_id, granted).await;
        fixture.append(account_id, key_issued(account_id)).await;
        let slug = format!("slug-{number}");
        let links = [(slug.as_str(), "https://a.example/")];
        let links = testing::append_links(fixture.pool(), account_id, &links).await;
        let moved = events::destination_changed(&links[0].link, "https://b.example/");
        testing::append_events(fixture.pool(), account_id, &[moved]).await;
        fixture.append(account_id, renamed(account_id)).await;
        accounts.push(account_id);
    }
    accounts
}

#[tokio::test]
async fn pages_have_the_whole_log_in_order() {
    let fixture = Fixture::new().await;
    fill(&fixture).await;
    let log = log_of(&fixture).await;
    assert_eq!(log.len(), 4 * 6);
    for limit in [1, 5, 100] {
        let (items, pages) = fixture.items(&format!("{EVENTS}?limit={limit}")).await;
        // Within a shard, pages are in order without sorting.
        for shard in Shard::all() {
            assert_eq!(of_shard(&items, shard), of_shard(&log, shard), "{shard}");
        }
        assert_eq!(by_shard(items), log);
        assert_eq!(pages, log.len().div_ceil(limit));
    }
    for event in ["ApiKeyIssued", "LinkDestinationChanged"] {
        let path = format!("{EVENTS}?type={event}&limit=3");
        let (items, _) = fixture.items(&path).await;
        let expected = log.iter().filter(|it| it["type"] == event).cloned();
        assert_eq!(by_shard(items), expected.collect::<Vec<_>>(), "{event}");
    }
}

#[tokio::test]
async fn events_of_account_are_those_of_its_links_and_keys_too() {
    let fixture = Fixture::new().await;
    let accounts = fill(&fixture).await;
    let log = log_of(&fixture).await;
    let account_id = accounts[1];
    let of_account = log
        .iter()
        .filter(|it| it["account_id"] == account_id.to_string());
    let of_account: Vec<Value> = of_account.cloned().collect();
    let path = format!("{ACCOUNTS}/{account_id}/events");
    for limit in [1, 4, 100] {
        let (items, _) = fixture.items(&format!("{path}?limit={limit}")).await;
        assert_eq!(items, of_account, "{limit}");
    }
    let types: Vec<&str> = of_account
        .iter()
        .map(|it| it["type"].as_str().unwrap())
        .collect();
    let expected = [
        "CreditsGranted",
        "ApiKeyIssued",
        "LinkCreated",
        "CreditsCharged",
        "LinkDestinationChanged",
        "AccountChanged",
    ];
    assert_eq!(types, expected);
    assert_eq!(of_account[0]["metadata"], json!({ "actor": ACTOR }));
    assert_eq!(
        of_account[4]["metadata"]["link"]["destination_url"],
        "https://b.example/"
    );
    let (links, _) = fixture.items(&format!("{path}?type=LinkCreated")).await;
    assert_eq!(links, of_account[2..3]);
}

#[tokio::test]
async fn latest_page_has_the_newest_events_of_each_shard() {
    let fixture = Fixture::new().await;
    fill(&fixture).await;
    let log = log_of(&fixture).await;
    for limit in [1, 5, 100] {
        let answer = fixture
            .get(&format!("{EVENTS}?latest=true&limit={limit}"))
            .await;
        assert_eq!(answer.header("link"), None);
        let page = answer.json();
        assert_eq!(page["has_more"], false);
        let items = page["items"].as_array().unwrap();
        assert_eq!(items.len(), limit.min(log.len()));
        for shard in Shard::all() {
            let (shown, all) = (of_shard(items, shard), of_shard(&log, shard));
            assert!(all.ends_with(&shown), "{shard}: {shown:?}");
        }
    }
    let path = format!("{EVENTS}?latest=true&type=ApiKeyIssued");
    let page = fixture.get(&path).await.json();
    let items = page["items"].as_array().unwrap().clone();
    let expected = log.iter().filter(|it| it["type"] == "ApiKeyIssued");
    assert_eq!(by_shard(items), expected.cloned().collect::<Vec<_>>());
}

#[tokio::test]
async fn latest_page_of_account_ends_its_log() {
    let fixture = Fixture::new().await;
    let accounts = fill(&fixture).await;
    let account_id = accounts[1];
    let path = format!("{ACCOUNTS}/{account_id}/events");
    let (of_account, _) = fixture.items(&path).await;
    assert_eq!(of_account.len(), 6);
    for (query, expected) in [
        ("", &of_account[..]),
        ("&limit=2", &of_account[4..]),
        ("&type=LinkCreated", &of_account[2..3]),
        ("&type=LinkDeleted", &[]),
    ] {
        let page = fixture.get(&format!("{path}?latest=true{query}")).await;
        assert_eq!(page.json()["items"], json!(expected), "{query}");
    }
    for query in [
        "latest=false",
        "latest=1",
        "latest",
        "latest=true&latest=true",
    ] {
        let answer = fixture.get(&format!("{path}?{query}")).await;
        answer.assert_problem(400, "invalid_parameter");
        assert_eq!(answer.json()["errors"][0]["parameter"], "latest", "{query}");
    }
}

#[tokio::test]
async fn latest_page_leads_to_later_events() {
    let fixture = Fixture::new().await;
    let accounts = fill(&fixture).await;
    for (path, filter) in [
        (EVENTS.to_owned(), ""),
        (EVENTS.to_owned(), "&type=ApiKeyIssued"),
        (format!("{ACCOUNTS}/{}/events", accounts[0]), ""),
    ] {
        let latest = format!("{path}?latest=true{filter}");
        let page = fixture.get(&latest).await.json();
        let cursor = page["next_cursor"].as_str().unwrap();
        let later = format!("{path}?after={cursor}{filter}");
        assert_eq!(fixture.get(&later).await.json()["items"], json!([]));
        let event_id = fixture.append(accounts[0], key_issued(accounts[0])).await;
        let page = fixture.get(&later).await.json();
        assert_eq!(page["items"].as_array().unwrap().len(), 1, "{page}");
        assert_eq!(page["items"][0]["id"], event_id.to_string());

        let both = format!("{latest}&after={cursor}");
        let answer = fixture.get(&both).await;
        answer.assert_problem(400, "invalid_parameter");
        assert_eq!(answer.json()["errors"][0]["parameter"], "latest");
    }
}

#[tokio::test]
async fn cursor_of_last_page_leads_to_later_events() {
    let fixture = Fixture::new().await;
    let accounts = fill(&fixture).await;
    for path in [
        EVENTS.to_owned(),
        format!("{ACCOUNTS}/{}/events", accounts[0]),
    ] {
        let page = fixture.get(&format!("{path}?limit=100")).await.json();
        assert_eq!(page["has_more"], false);
        let cursor = page["next_cursor"].as_str().unwrap();
        let next = format!("{path}?after={cursor}");
        let empty = fixture.get(&next).await.json();
        assert_eq!(
            (&empty["items"], &empty["has_more"]),
            (&json!([]), &json!(false))
        );
        let event_id = fixture.append(accounts[0], key_issued(accounts[0])).await;
        let page = fixture.get(&next).await.json();
        let items = page["items"].as_array().unwrap();
        assert_eq!(items.len(), 1, "{page}");
        assert_eq!(items[0]["id"], event_id.to_string());

        let other = format!("{ACCOUNTS}/{}/events?after={cursor}", accounts[1]);
        let answer = fixture.get(&other).await;
        answer.assert_problem(400, "invalid_cursor");
        let filtered = format!("{next}&type=LinkCreated");
        let answer = fixture.get(&filtered).await;
        answer.assert_problem(400, "invalid_cursor");
    }
}

#[tokio::test]
async fn cursor_of_earlier_epoch_is_refused() {
    let fixture = Fixture::new().await;
    fill(&fixture).await;
    let page = fixture.get(&format!("{EVENTS}?limit=1")).await.json();
    let cursor = page["next_cursor"].as_str().unwrap();
    sqlx::query("UPDATE event_store.log_meta SET epoch = 2")
        .execute(fixture.pool())
        .await
        .unwrap();
    let answer = fixture.get(&format!("{EVENTS}?after={cursor}")).await;
    answer.assert_problem(400, "invalid_cursor");
    assert!(answer.body.contains("restored"), "{}", answer.body);
}

/// Appends more events of other accounts than a page looks at after the first event of a shard; no code reads their
/// payloads.
async fn append_others(fixture: &Fixture, shard: Shard) {
    sqlx::query(
        "WITH inserted AS (
             INSERT INTO event_store.events
                 (shard, position, stream_id, version, account_id, event_id, type, schema_version, payload,
                  metadata, recorded_at)
             SELECT $1, 1 + n, gen_random_uuid(), 1, gen_random_uuid(), gen_random_uuid(), 'LinkCreated', 1, '{}',
                    '{}', now()
             FROM generate_series(1, 20000) AS n
         )
         UPDATE event_store.log_shards SET head = 20001 WHERE shard = $1",
    )
    .bind(shard.number())
    .execute(fixture.pool())
    .await
    .unwrap();
}

#[tokio::test]
async fn rare_events_are_found_over_empty_pages() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account("test", None).await;
    fixture
        .append(account_id, events::granted(account_id, 1, 8))
        .await;
    append_others(&fixture, Shard::of(account_id)).await;
    let path = format!("{ACCOUNTS}/{account_id}/events");
    let latest = fixture.get(&format!("{path}?latest=true")).await.json();
    assert_eq!(
        (&latest["items"], &latest["has_more"]),
        (&json!([]), &json!(false))
    );
    let event_id = fixture.append(account_id, key_issued(account_id)).await;
    let (items, pages) = fixture.items(&path).await;
    assert_eq!((items.len(), pages), (2, 2));
    assert_eq!(items[1]["id"], event_id.to_string());
    let (items, pages) = fixture.items(&format!("{EVENTS}?type=ApiKeyIssued")).await;
    assert_eq!(items.len(), 1);
    assert_eq!(pages, 21, "1,000 events of each shard");
}
