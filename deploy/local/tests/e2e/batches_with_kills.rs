//! Batches while command-api is killed again and again: each key has one link and one charge, in
//! whatever groups the creates are sent, and an atomic batch has all its links or none.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use futures::future::join_all;
use linkledger_testing::{Random, eventually, record};
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::{
    http::{Answer, Http},
    services::{OWNER, Service, Settings, program, until_listens},
};

/// Number of creates that are sent alone and in partial batches.
const CREATES: usize = 280;
/// Number of atomic batches. Their keys occur in no other request.
const ATOMIC_BATCHES: usize = 40;
const ATOMIC_ITEMS: usize = 3;
/// Every atomic batch of this interval has an item with a slug that is taken.
const REFUSED_INTERVAL: usize = 5;
const TAKEN_SLUG: &str = "taken";
const GROUPINGS: usize = 1_000;
const KILLS: usize = 24;
const ITEMS_MAX: usize = 100;
const CONNECTIONS: usize = 8;
const CREDITS: u32 = 1_000;
const SEED: u64 = 20_261_126;

/// One create, the same in every request.
struct Create {
    key: String,
    body: Value,
}

impl Create {
    /// Returns a create; some have a slug, and some have tags.
    fn new(number: usize) -> Self {
        let mut body = json!({ "destination_url": format!("https://example.com/{number}") });
        if number.is_multiple_of(3) {
            body["slug"] = format!("Batch-{number}").into();
        }
        if number.is_multiple_of(4) {
            body["tags"] = json!(["kills", format!("tag-{}", number % 7)]);
        }
        let key = format!("00000000-0000-4000-8000-{number:012}");
        record::create(&key, &body);
        Self { key, body }
    }

    fn with_slug(mut self, slug: &str) -> Self {
        self.body["slug"] = slug.into();
        self
    }
}

enum Grouping<'a> {
    Single(&'a Create),
    Partial(Vec<&'a Create>),
    Atomic(&'a [Create]),
}

struct Load {
    creates: Vec<Create>,
    atomic: Vec<Vec<Create>>,
}

impl Load {
    fn new() -> Self {
        let batch = |nth: usize| {
            let first = CREATES + nth * ATOMIC_ITEMS;
            let mut batch: Vec<_> = (first..first + ATOMIC_ITEMS).map(Create::new).collect();
            if nth.is_multiple_of(REFUSED_INTERVAL) {
                let last = batch.pop().unwrap();
                batch.push(last.with_slug(TAKEN_SLUG));
            }
            batch
        };
        Self {
            creates: (0..CREATES).map(Create::new).collect(),
            atomic: (0..ATOMIC_BATCHES).map(batch).collect(),
        }
    }

    /// Returns the random grouping with this number, the same in every run. Later groupings contain
    /// later creates, so that until the last kill some creates are sent for the first time.
    fn grouping(&self, number: usize) -> Grouping<'_> {
        let mut random = Random::new(SEED + u64::try_from(number).unwrap());
        let known = |count: usize| 1 + number * count / GROUPINGS;
        match random.below(8) {
            0 => Grouping::Single(&self.creates[random.below(known(CREATES))]),
            1 => Grouping::Atomic(&self.atomic[random.below(known(ATOMIC_BATCHES))]),
            _ => {
                let known = &self.creates[..known(CREATES)];
                let mut items: Vec<_> = known[random.below(known.len())..].iter().collect();
                random.shuffle(&mut items);
                items.truncate(1 + random.below(ITEMS_MAX));
                Grouping::Partial(items)
            }
        }
    }

    /// Returns groupings that contain everything.
    fn everything(&self) -> impl Iterator<Item = Grouping<'_>> {
        let chunks = self.creates.chunks(ITEMS_MAX);
        let partial = chunks.map(|chunk| Grouping::Partial(chunk.iter().collect()));
        partial.chain(self.atomic.iter().map(|batch| Grouping::Atomic(batch)))
    }
}

fn is_refused(batch: &[Create]) -> bool {
    batch.iter().any(|create| create.body["slug"] == TAKEN_SLUG)
}

/// Links of the answers, by key.
#[derive(Default)]
struct Answers {
    first: Mutex<HashMap<String, Value>>,
    /// Keys with an answer that is not a replay.
    not_replayed: Mutex<HashSet<String>>,
}

impl Answers {
    /// Takes the link of an answer, and asserts that all answers to the key have the same link, and
    /// all except one are replays.
    fn take(&self, create: &Create, link: &Value, is_replayed: bool) {
        let key = &create.key;
        if !is_replayed {
            let is_first = self.not_replayed.lock().unwrap().insert(key.clone());
            assert!(is_first, "{key} is created twice");
        }
        let mut first = self.first.lock().unwrap();
        let first = first.entry(key.clone()).or_insert_with(|| link.clone());
        assert_eq!(first, link, "{key}");
    }

    /// Returns the number of links whose first answer was lost: all answers that arrived are replays.
    fn lost(&self) -> usize {
        self.first.lock().unwrap().len() - self.not_replayed.lock().unwrap().len()
    }
}

#[derive(PartialEq)]
enum Outcome {
    /// Every create has its final outcome.
    Final,
    /// A create has to be sent again.
    Retry,
    ConnectionFailed,
}

struct Client<'a> {
    http: Http,
    answers: &'a Answers,
}

impl Client<'_> {
    async fn send(&self, grouping: &Grouping<'_>) -> Outcome {
        let outcome = match grouping {
            Grouping::Single(create) => self.send_single(create).await,
            Grouping::Partial(creates) => self.send_partial(creates).await,
            Grouping::Atomic(batch) => self.send_atomic(batch).await,
        };
        outcome.unwrap_or(Outcome::ConnectionFailed)
    }

    async fn send_single(&self, create: &Create) -> Option<Outcome> {
        let key = [("idempotency-key", create.key.as_str())];
        let answer = self.http.try_post("/v1/links", &key, &create.body).await?;
        if answer.status != 201 {
            return Some(retry_after(&answer.json()));
        }
        let is_replayed = answer.header("idempotent-replayed") == "true";
        self.answers.take(create, &answer.json(), is_replayed);
        Some(Outcome::Final)
    }

    async fn send_partial(&self, creates: &[&Create]) -> Option<Outcome> {
        let answer = self.send_batch("partial", creates).await?;
        let body = answer.json();
        if answer.status != 207 {
            return Some(retry_after(&body));
        }
        let mut outcome = Outcome::Final;
        for (create, item) in creates.iter().zip(body["items"].as_array().unwrap()) {
            if item["status"] == 201 {
                self.take_item(create, item);
            } else {
                outcome = retry_after(&item["problem"]);
            }
        }
        Some(outcome)
    }

    async fn send_atomic(&self, batch: &[Create]) -> Option<Outcome> {
        let creates: Vec<_> = batch.iter().collect();
        let answer = self.send_batch("atomic", &creates).await?;
        let body = answer.json();
        if is_refused(batch) && body["code"] == "slug_taken" {
            return Some(Outcome::Final);
        }
        if answer.status != 201 {
            return Some(retry_after(&body));
        }
        assert!(!is_refused(batch), "{body}");
        for (create, item) in batch.iter().zip(body["items"].as_array().unwrap()) {
            self.take_item(create, item);
        }
        Some(Outcome::Final)
    }

    async fn send_batch(&self, mode: &str, creates: &[&Create]) -> Option<Answer> {
        let item = |create: &&Create| {
            let mut item = create.body.clone();
            item["idempotency_key"] = create.key.as_str().into();
            item
        };
        let items: Vec<_> = creates.iter().map(item).collect();
        let body = json!({ "mode": mode, "items": items });
        self.http.try_post("/v1/links/batch", &[], &body).await
    }

    fn take_item(&self, create: &Create, item: &Value) {
        let is_replayed = item["replayed"].as_bool().unwrap();
        self.answers.take(create, &item["link"], is_replayed);
    }
}

/// Asserts that the problem asks for a retry: after a kill, the account can stay locked for a while.
fn retry_after(problem: &Value) -> Outcome {
    let code = problem["code"].as_str().unwrap_or_default();
    let retried = [
        "overloaded",
        "storage_unavailable",
        "deadline_exceeded",
        "idempotency_key_in_use",
    ];
    assert!(retried.contains(&code), "{problem}");
    Outcome::Retry
}

/// Sends the groupings that no other connection has begun to send.
async fn send_groupings(client: &Client<'_>, load: &Load, begun: &AtomicUsize, address: &str) {
    loop {
        let number = begun.fetch_add(1, Relaxed);
        if number >= GROUPINGS {
            return;
        }
        if client.send(&load.grouping(number)).await == Outcome::ConnectionFailed {
            until_listens(address).await;
        }
    }
}

/// Kills command-api and starts the next process, again and again: between a commit and the answers to
/// its creates, and in turn at a random time. Returns the last process.
async fn kill_again_and_again(settings: &Settings, load: &Load, begun: &AtomicUsize) -> Service {
    let mut random = Random::new(SEED);
    for kill in 0..KILLS {
        let due = (kill * GROUPINGS + random.below(GROUPINGS)) / KILLS;
        if kill.is_multiple_of(2) {
            let fail_at = format!("writer.committed:{}", 1 + random.below(2));
            let mut service = settings.start_command_api(Some(&fail_at));
            assert_eq!(service.exit_code().await, None, "killed by a signal");
        } else {
            let _service = settings.start_command_api(None);
            until_listens(&settings.command_api).await;
            eventually("the next kill is due", async || {
                (begun.load(Relaxed) >= due).then_some(())
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
    let taken = Create::new(CREATES + ATOMIC_BATCHES * ATOMIC_ITEMS).with_slug(TAKEN_SLUG);
    let service = settings.start_command_api(None);
    eventually("the slug is taken", async || {
        let outcome = connect().send(&Grouping::Single(&taken)).await;
        (outcome == Outcome::Final).then_some(())
    })
    .await;
    drop(service);

    let begun = AtomicUsize::new(0);
    let clients: Vec<_> = (0..CONNECTIONS).map(|_| connect()).collect();
    let sending = clients
        .iter()
        .map(|client| send_groupings(client, &load, &begun, &settings.command_api));
    let (_, _service) = tokio::join!(
        join_all(sending),
        kill_again_and_again(&settings, &load, &begun)
    );
    assert!(answers.lost() >= KILLS / 2, "{} lost", answers.lost());

    let client = connect();
    for grouping in load.everything() {
        eventually("every create has its outcome", async || {
            (client.send(&grouping).await == Outcome::Final).then_some(())
        })
        .await;
    }
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
