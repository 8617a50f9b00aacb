//! Read models are rebuilt, swapped and rolled back while clients write and read: at every moment
//! each earlier response is still true.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use linkledger_event_store::SessionKind;
use linkledger_projector::{
    operations::rebuild::{self, CONNECTIONS_MAX, RebuildSettings, generation, rollback},
    progress::ProgressReport,
    read_models::Projection,
};
use linkledger_testing::eventually;
use serde_json::json;
use sqlx::PgPool;

use crate::{
    http::{Answer, Http},
    process::{Stack, data_folder},
};

/// Number of links that exist before the test, so that a list has pages.
const LINKS_BEFORE: u32 = 150;
/// Number of swaps and rollbacks of each read model.
const ROUNDS: i32 = 2;

async fn create(http: &Http, number: u32) -> Answer {
    let key = format!("00000000-0000-4000-8000-{number:012}");
    let body = json!({ "destination_url": "https://example.com/old" });
    let created = http.create(&key, &body).await;
    assert_eq!(created.status, 201, "{created:?}");
    created
}

/// Creates and changes links, and asserts that every read returns the new state.
async fn write_and_check(http: &Http, is_over: &AtomicBool) -> u32 {
    let mut number = LINKS_BEFORE;
    while !is_over.load(Relaxed) {
        number += 1;
        let created = create(http, number).await;
        let token = ("consistency-token", created.header("consistency-token"));
        let link = created.json();
        let (id, short_url) = (&link["id"], link["short_url"].as_str().unwrap());
        let path = format!("/v1/links/{}", id.as_str().unwrap());
        let read = http.get(&path).await;
        assert_eq!(read.status, 200, "{read:?}");
        let listed = http
            .request("GET", "/v1/links?limit=1", &[token], None)
            .await;
        assert_eq!(listed.json()["items"][0]["id"], *id);
        let credits = http.request("GET", "/v1/credits", &[token], None).await;
        assert_eq!(credits.json()["balance"], link["credits_balance"]);
        let followed = http.follow(short_url).await;
        assert_eq!(followed.header("location"), "https://example.com/old");

        let body = json!({ "destination_url": "https://example.com/new" });
        let changed = http.change(id.as_str().unwrap(), "\"1\"", &body).await;
        assert_eq!(changed.status, 200, "{changed:?}");
        let token = ("consistency-token", changed.header("consistency-token"));
        let read = http.request("GET", &path, &[token], None).await;
        assert_eq!(read.json()["destination_url"], "https://example.com/new");
        eventually("the short host follows the change", async || {
            let followed = http.follow(short_url).await;
            (followed.header("location") == "https://example.com/new").then_some(())
        })
        .await;
    }
    number
}

/// Lists the links, and asserts that every listed link stays listed exactly once.
async fn list_and_check(http: &Http, is_over: &AtomicBool) -> u32 {
    let mut scans = 0;
    let mut seen = BTreeSet::new();
    while !is_over.load(Relaxed) {
        let listed = http.list_all().await;
        let ids: BTreeSet<String> = listed
            .iter()
            .map(|link| link["id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(ids.len(), listed.len(), "a link is listed twice");
        let missing: Vec<_> = seen.difference(&ids).collect();
        assert!(missing.is_empty(), "no longer listed: {missing:?}");
        seen = ids;
        scans += 1;
    }
    scans
}

/// Lists the credit entries, and asserts that entries are only added, one by one.
async fn read_entries_and_check(http: &Http, is_over: &AtomicBool) {
    let mut balance = i64::MAX;
    while !is_over.load(Relaxed) {
        let page = http.get("/v1/credits/entries?limit=100").await.json();
        let entries = page["items"].as_array().unwrap();
        let balances: Vec<i64> = entries
            .iter()
            .map(|entry| entry["balance_after"].as_i64().unwrap())
            .collect();
        assert!(balances[0] <= balance, "the newest entries are missing");
        assert!(balances.windows(2).all(|pair| pair[0] + 1 == pair[1]));
        balance = balances[0];
    }
}

async fn swap_and_roll_back(pool: &PgPool) {
    let settings = RebuildSettings {
        max_rate: None,
        swap: true,
    };
    for round in 1..=ROUNDS {
        let progress = Arc::new(ProgressReport::silent());
        let all_rebuilt =
            rebuild::rebuild(&pool.clone().into(), &Projection::ALL, settings, progress).await;
        for rebuilt in all_rebuilt.unwrap() {
            assert!(rebuilt.verified_events > 0);
            assert_eq!(rebuilt.generation, 1 + round);
        }
        for projection in Projection::ALL {
            let progress = Arc::new(ProgressReport::silent());
            let back = rollback::rollback(&pool.clone().into(), projection, None, progress)
                .await
                .unwrap();
            assert!(back.verified_events > 0);
        }
    }
    for projection in Projection::ALL {
        assert_eq!(generation::active(pool, projection).await.unwrap(), 1);
    }
}

#[tokio::test]
async fn reads_are_correct_during_swaps() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &[]);
    let http = stack.http();
    for number in 1..=LINKS_BEFORE {
        create(&http, number).await;
    }
    let url = &stack.environment()["DATABASE_URL"];
    let pool = linkledger_event_store::pool(url, SessionKind::Projector, CONNECTIONS_MAX).unwrap();
    let is_over = AtomicBool::new(false);
    let swaps = async {
        swap_and_roll_back(&pool).await;
        is_over.store(true, Relaxed);
    };
    let ((), number, scans, ()) = tokio::join!(
        swaps,
        write_and_check(&http, &is_over),
        list_and_check(&http, &is_over),
        read_entries_and_check(&http, &is_over)
    );
    assert!(scans > 0 && number > LINKS_BEFORE);
    assert_eq!(
        http.list_all().await.len(),
        usize::try_from(number).unwrap()
    );
    assert_eq!(stack.interrupt(), Some(0));
}
