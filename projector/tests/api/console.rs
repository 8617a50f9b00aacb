//! Operators' console over HTTP: pages, refusals, and read-only sessions.

mod pages;
mod refusals;
mod sessions;

use std::net::Ipv4Addr;

use http_body_util::{BodyExt as _, Empty};
use hyper::{
    HeaderMap, Method, Request, StatusCode,
    body::Bytes,
    header::{CONTENT_TYPE, HOST},
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use linkledger_projector::console;
use linkledger_service::databases::DatabaseSettings;
use linkledger_service::internal_listener::InternalHosts;
use linkledger_service::lifecycle::{self, Tasks};
use linkledger_testing::{self as testing, TestDatabase};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Console on a listener.
pub(crate) struct TestConsole {
    address: String,
    client: Client<HttpConnector, Empty<Bytes>>,
    _tasks: Tasks,
}

/// Answer of the console.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl TestConsole {
    pub(crate) async fn start(database: &TestDatabase) -> Self {
        Self::start_on(database.url()).await
    }

    pub(crate) async fn start_on(database_url: &str) -> Self {
        let mut tasks = Tasks::new(CancellationToken::new());
        let names = vec!["ops.example".to_owned()];
        let hosts = InternalHosts { names };
        let pages = console::router(&DatabaseSettings::one(database_url), hosts).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        lifecycle::serve(&mut tasks, "console", listener, pages);
        Self {
            address,
            client: Client::builder(TokioExecutor::new()).build_http(),
            _tasks: tasks,
        }
    }

    /// Requests a page, again while the database takes too long for one, as on a slow machine.
    pub(crate) async fn ask(&self, method: Method, path: &str, host: &str) -> Answer {
        testing::eventually(path, async || {
            let answer = self.ask_once(&method, path, host).await;
            (answer.status != 503).then_some(answer)
        })
        .await
    }

    async fn ask_once(&self, method: &Method, path: &str, host: &str) -> Answer {
        let request = Request::builder()
            .method(method.clone())
            .uri(format!("http://{}{path}", self.address))
            .header(HOST, host)
            .body(Empty::new())
            .unwrap();
        let response = self.client.request(request).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Answer {
            status,
            headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    /// Requests a page that exists.
    pub(crate) async fn page(&self, path: &str) -> String {
        let answer = self.ask(Method::GET, path, &self.address).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert_eq!(answer.headers[CONTENT_TYPE], "text/html; charset=utf-8");
        answer.body
    }

    /// Requests a page that is refused.
    pub(crate) async fn refusal(&self, path: &str, status: u16) -> String {
        let answer = if status == 503 {
            self.ask_once(&Method::GET, path, &self.address).await
        } else {
            self.ask(Method::GET, path, &self.address).await
        };
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        answer.body
    }
}

/// Asserts that the page has the text.
#[track_caller]
fn assert_shows(page: &str, text: &str) {
    let (_, content) = page.split_once("<main").unwrap_or(("", page));
    let start: String = content.chars().take(2_000).collect();
    assert!(page.contains(text), "there is no {text} in {start}…");
}

/// Asserts that the page lacks the text.
#[track_caller]
fn assert_lacks(page: &str, text: &str) {
    let place = page.find(text);
    let around = place.map(|at| page.get(at.saturating_sub(100)..at + text.len()));
    assert_eq!(around, None, "{text}");
}

/// Returns the address of the next page, if any.
fn older(page: &str) -> Option<String> {
    let (_, rest) = page.split_once("rel=\"next\" href=\"")?;
    let (address, _) = rest.split_once('"')?;
    Some(address.replace("&amp;", "&"))
}
