//! Clients that send groupings, and what all answers together must fulfil.

use std::{
    collections::{HashMap, HashSet},
    sync::Mutex,
};

use serde_json::{Value, json};

use super::load::{Create, Grouping, is_refused};
use crate::http::{Answer, Http};

/// Links of the answers, by key.
#[derive(Default)]
pub(super) struct Answers {
    pub(super) first: Mutex<HashMap<String, Value>>,
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
    pub(super) fn lost(&self) -> usize {
        self.first.lock().unwrap().len() - self.not_replayed.lock().unwrap().len()
    }
}

#[derive(PartialEq)]
pub(super) enum Outcome {
    /// Every create has its final outcome.
    Final,
    /// A create has to be sent again.
    Retry,
    ConnectionFailed,
}

pub(super) struct Client<'a> {
    pub(super) http: Http,
    pub(super) answers: &'a Answers,
}

impl Client<'_> {
    pub(super) async fn send(&self, grouping: &Grouping<'_>) -> Outcome {
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
