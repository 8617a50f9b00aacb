//! Batches while command-api is killed again and again: each key has one link and one charge, in
//! whatever groups the creates are sent, and an atomic batch has all its links or none.

mod client;
mod load;

use std::{
    collections::HashSet,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use futures::future::join_all;
use linkledger_testing::{Random, eventually};
use serde_json::Value;
use sqlx::PgPool;

use crate::{
    http::Http,
    services::{Service, program},
    settings::{OWNER, Settings, until_listens},
};
use client::{Answers, Client, Outcome};
use load::{
    ATOMIC_BATCHES, ATOMIC_ITEMS, CREATES, Create, GROUPINGS, Grouping, Load, SEED, is_refused,
};

const CONNECTIONS: usize = 8;
const KILLS: usize = 24;
const CREDITS: u32 = 1_000;

/// Progress of the groupings, which wait for the kills: each kill has groupings with new creates.
#[derive(Default)]
struct Progress {
    begun: AtomicUsize,
    allowed: AtomicUsize,
}

/// Sends the groupings that no other connection has begun to send.
async fn send_groupings(client: &Client<'_>, load: &Load, progress: &Progress, address: &str) {
    loop {
        let number = progress.begun.fetch_add(1, Relaxed);
        if number >= GROUPINGS {
            return;
        }
        eventually("the grouping may be sent", async || {
            (number < progress.allowed.load(Relaxed)).then_some(())
        })
        .await;
        if client.send(&load.grouping(number)).await == Outcome::ConnectionFailed {
            until_listens(address).await;
        }
    }
}

/// Kills command-api and starts the next process, again and again: between a commit and the answers to
/// its creates, and in turn at a random time. Returns the last process.
async fn kill_again_and_again(settings: &Settings, load: &Load, progress: &Progress) -> Service {
    let mut random = Random::new(SEED);
    for kill in 0..KILLS {
        let due = (kill * GROUPINGS + random.below(GROUPINGS)) / KILLS;
        let allowed = (kill + 1) * GROUPINGS / KILLS;
        progress.allowed.store(allowed, Relaxed);
        if kill.is_multiple_of(2) {
            let mut service = settings.start_command_api(Some("writer.committed:1"));
            assert_eq!(service.exit_code().await, None, "killed by a signal");
        } else {
            let _service = settings.start_command_api(None);
            until_listens(&settings.command_api).await;
            eventually("the next kill is due", async || {
                (progress.begun.load(Relaxed) >= due).then_some(())
            })
            .await;
        }
        assert_atomic_batches_are_whole(settings.log.pool(), load).await;
    }
    settings.start_command_api(None)
}

async fn assert_atomic_batches_are_whole(pool: &PgPool, load: &Load) {
    let used = "SELECT idempotency_key FROM event_store.events WHERE type = 'LinkCreated'";
    let used: Vec<String> = sqlx::query_scalar(used).fetch_all(pool).await.unwrap();
    let used: HashSet<&str> = used.iter().map(|key| &key["create:".len()..]).collect();
    for batch in &load.atomic {
        let is_used = |create: &&Create| used.contains(create.key.as_str());
        let count = batch.iter().filter(is_used).count();
        let is_whole = count == batch.len() && !is_refused(batch);
        assert!(count == 0 || is_whole, "{count} of {}", batch[0].key);
    }
}

/// Asserts that the log has exactly the answered links, one for each key, with one charge each.
async fn assert_each_key_has_one_link_and_charge(pool: &PgPool, answers: &Answers) {
    let mut logged: Vec<(String, String, i64)> = sqlx::query_as(
        "SELECT link.idempotency_key, link.payload->>'link_id', count(charge.position)
         FROM event_store.events AS link
         LEFT JOIN event_store.events AS charge ON charge.type = 'CreditsCharged'
              AND charge.payload->>'link_id' = link.payload->>'link_id'
         WHERE link.type = 'LinkCreated'
         GROUP BY link.position, link.idempotency_key, link.payload->>'link_id'",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    let first = answers.first.lock().unwrap().clone();
    let row = |(key, link): (String, Value)| {
        let id = link["id"].as_str().unwrap().to_owned();
        (format!("create:{key}"), id, 1)
    };
    let mut answered: Vec<_> = first.into_iter().map(row).collect();
    logged.sort();
    answered.sort();
    assert_eq!(logged, answered);
}

/// Asserts that the balance is what was granted minus all charges: one credit for each link.
async fn assert_balance(pool: &PgPool, links: usize) {
    let (balance, by_events): (i64, i64) = sqlx::query_as(
        "SELECT (SELECT balance FROM event_store.accounts),
                sum(CASE type WHEN 'CreditsGranted' THEN 1 WHEN 'CreditsCharged' THEN -1 ELSE 0 END
                    * (payload->>'amount')::bigint)::bigint
         FROM event_store.events",
    )
    .fetch_one(pool)
    .await
    .unwrap();
    assert_eq!(balance, by_events);
    assert_eq!(balance, i64::from(CREDITS) - i64::try_from(links).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_with_kills_create_each_link_once() {
    let settings = Settings::new().await;
    let command_api = program("command-api");
    let api_key = settings.account(&command_api, OWNER, CREDITS);
    let (load, answers) = (Load::new(), Answers::default());
    let connect = || Client {
        http: Http::new(format!("http://{}", settings.command_api), api_key.clone()),
        answers: &answers,
    };
    let taken = Create::of_taken_slug();
    let service = settings.start_command_api(None);
    eventually("the slug is taken", async || {
        let outcome = connect().send(&Grouping::Single(&taken)).await;
        (outcome == Outcome::Final).then_some(())
    })
    .await;
    drop(service);

    let progress = Progress::default();
    let clients: Vec<_> = (0..CONNECTIONS).map(|_| connect()).collect();
    let sending = clients
        .iter()
        .map(|client| send_groupings(client, &load, &progress, &settings.command_api));
    let (_, _service) = tokio::join!(
        join_all(sending),
        kill_again_and_again(&settings, &load, &progress)
    );

    let client = connect();
    for grouping in load.everything() {
        eventually("every create has its outcome", async || {
            (client.send(&grouping).await == Outcome::Final).then_some(())
        })
        .await;
    }
    assert!(answers.lost() >= KILLS / 2, "{} lost", answers.lost());
    let refused = load.atomic.iter().filter(|batch| is_refused(batch)).count();
    let links = 1 + CREATES + (ATOMIC_BATCHES - refused) * ATOMIC_ITEMS;
    assert_eq!(answers.first.lock().unwrap().len(), links);
    let pool = settings.log.pool();
    assert_atomic_batches_are_whole(pool, &load).await;
    assert_each_key_has_one_link_and_charge(pool, &answers).await;
    assert_balance(pool, links).await;
    let verified = settings.run(&command_api, OWNER, &["log", "verify"]);
    assert_eq!(verified["links"], links);
    assert_eq!(verified["finding_count"], 0, "{verified}");
}
