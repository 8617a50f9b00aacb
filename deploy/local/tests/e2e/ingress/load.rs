//! Clients that send requests through the ingress while a test restarts or kills processes.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use futures::future::join_all;
use linkledger_core::clock::{Clock as _, SystemClock, new_uuid};
use linkledger_testing::{eventually, record};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};

use super::nginx::Nginx;

/// Number of clients; each client waits for the response before the next request.
pub(crate) const CLIENTS: usize = 6;

/// The clients, and the failures that the clients have seen.
pub(crate) struct Load<'a> {
    client: Client,
    nginx: &'a Nginx,
    api_key: &'a str,
    is_over: AtomicBool,
    rounds: AtomicUsize,
    pub(crate) created: AtomicUsize,
    /// Method and description of each failed request.
    failures: Mutex<Vec<(Method, String)>>,
}

/// A link that was created before.
struct Link {
    path: String,
    short_url: String,
}

impl<'a> Load<'a> {
    pub(crate) fn new(nginx: &'a Nginx, api_key: &'a str) -> Self {
        let client = nginx.client();
        Self {
            client,
            nginx,
            api_key,
            is_over: AtomicBool::new(false),
            rounds: AtomicUsize::new(0),
            created: AtomicUsize::new(0),
            failures: Mutex::default(),
        }
    }

    /// Sends requests until [`Load::end`] is called.
    pub(crate) async fn run(&self) {
        let link = self.create().await;
        self.is_listed(&link.expect("nothing has happened yet"))
            .await;
        join_all((0..CLIENTS).map(|_| self.client_of_its_own())).await;
    }

    /// Waits until the list contains the link.
    async fn is_listed(&self, link: &Link) {
        let (_, slug) = link.short_url.rsplit_once('/').unwrap();
        // A read by id may answer 503 until the projectors share the shards, so the list is read.
        eventually("the link is in the list", async || {
            let list = self.request(Method::GET, &format!("/v1/links?slug={slug}"));
            let page = list.send().await.unwrap().bytes().await.unwrap();
            let page: Value = serde_json::from_slice(&page).unwrap();
            let items = page["items"].as_array()?;
            (!items.is_empty()).then_some(())
        })
        .await;
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Waits until every client has finished some more rounds.
    pub(crate) async fn goes_on(&self) {
        let rounds = || self.rounds.load(Ordering::Relaxed);
        let until = rounds() + 5 * CLIENTS;
        eventually("every client finishes more rounds", async || {
            (rounds() >= until).then_some(())
        })
        .await;
    }

    pub(crate) fn failures(&self) -> Vec<(Method, String)> {
        self.failures.lock().unwrap().clone()
    }

    async fn client_of_its_own(&self) {
        let Some(own) = self.create().await else {
            return;
        };
        self.is_listed(&own).await;
        while !self.is_over.load(Ordering::Relaxed) {
            if let Some(new) = self.create().await {
                let delete = self.request(Method::DELETE, &new.path);
                self.send(Method::DELETE, delete, 204).await;
            }
            let change = self.request(Method::PATCH, &own.path);
            let body = json!({ "destination_url": format!("https://example.com/{}", new_key()) });
            let change = change.header("content-type", "application/json");
            self.send(Method::PATCH, change.body(body.to_string()), 200)
                .await;
            self.send(
                Method::GET,
                self.request(Method::GET, "/v1/links?limit=2"),
                200,
            )
            .await;
            self.send(Method::GET, self.client.get(&own.short_url), 302)
                .await;
            self.rounds.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn create(&self) -> Option<Link> {
        let body = json!({ "destination_url": "https://example.com/" }).to_string();
        let key = new_key();
        record::secret(record::Secret::IdempotencyKey, &key);
        let create = self
            .request(Method::POST, "/v1/links")
            .header("content-type", "application/json")
            .header("idempotency-key", key)
            .body(body);
        let answer = self.send(Method::POST, create, 201).await?;
        self.created.fetch_add(1, Ordering::Relaxed);
        let body: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        Some(Link {
            path: format!("/v1/links/{}", body["id"].as_str().unwrap()),
            short_url: body["short_url"].as_str().unwrap().to_owned(),
        })
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self
            .client
            .request(method, format!("{}{path}", self.nginx.api_url));
        request.bearer_auth(self.api_key)
    }

    /// Sends a request. Returns the response if status and headers are as documented.
    async fn send(&self, method: Method, request: RequestBuilder, status: u16) -> Option<Response> {
        let failure = match request.send().await {
            Ok(answer) if answer.status() == status => {
                record::answer(answer.headers(), &[]);
                return Some(answer);
            }
            Ok(answer) => format!("{}: {}", answer.status(), answer.text().await.unwrap()),
            Err(error) => format!("{error:?}"),
        };
        self.failures.lock().unwrap().push((method, failure));
        None
    }
}

fn new_key() -> String {
    new_uuid(SystemClock.now()).to_string()
}
