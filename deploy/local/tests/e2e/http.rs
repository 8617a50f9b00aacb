//! An HTTP client for tests: returns status, headers and body of every response.

use std::error::Error;

use axum::body::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use linkledger_testing::{eventually, record};
use serde_json::Value;

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

/// A client with one API key.
pub(crate) struct Http {
    client: Client<HttpConnector, Full<Bytes>>,
    pub(crate) api_url: String,
    pub(crate) api_key: String,
}

impl Http {
    pub(crate) fn new(api_url: String, api_key: String) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        record::secret(record::Secret::ApiKey, &api_key);
        Self {
            client,
            api_url,
            api_key,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], None).await
    }

    pub(crate) async fn create(&self, idempotency_key: &str, body: &Value) -> Answer {
        record::create(idempotency_key, body);
        let headers = [
            ("content-type", "application/json"),
            ("idempotency-key", idempotency_key),
        ];
        self.request("POST", "/v1/links", &headers, Some(body))
            .await
    }

    pub(crate) async fn change(&self, id: &str, if_match: &str, body: &Value) -> Answer {
        let headers = [
            ("content-type", "application/merge-patch+json"),
            ("if-match", if_match),
        ];
        let path = format!("/v1/links/{id}");
        self.request("PATCH", &path, &headers, Some(body)).await
    }

    pub(crate) async fn delete(&self, id: &str) -> Answer {
        let path = format!("/v1/links/{id}");
        self.request("DELETE", &path, &[], None).await
    }

    /// Sends a request to the API, with the API key of the client.
    pub(crate) async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Answer {
        let request = self.api_request(method, path, headers, body);
        self.ask_while_unavailable(&request).await
    }

    /// Sends JSON to the API; `None` if the connection fails before the whole answer has arrived.
    pub(crate) async fn try_post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Option<Answer> {
        let headers = [&[("content-type", "application/json")], headers].concat();
        let request = self.api_request("POST", path, &headers, Some(body));
        self.try_send(request).await.ok()
    }

    fn api_request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.api_url))
            .header("authorization", self.bearer());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        request.body(Full::new(Bytes::from(body))).unwrap()
    }

    /// Sends a request without a body, with another API key.
    pub(crate) async fn call(&self, method: &str, path: &str, api_key: &str) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.api_url))
            .header("authorization", format!("Bearer {api_key}"));
        self.send(request.body(Full::default()).unwrap()).await
    }

    pub(crate) async fn follow(&self, short_url: &str) -> Answer {
        let request = Request::get(short_url).body(Full::default()).unwrap();
        self.ask_while_unavailable(&request).await
    }

    /// Lists every link of the account, page by page.
    pub(crate) async fn list_all(&self) -> Vec<Value> {
        let mut links = Vec::new();
        let mut path = "/v1/links?limit=100".to_owned();
        loop {
            let answer = self.get(&path).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            let page = answer.json();
            links.extend(page["items"].as_array().unwrap().iter().cloned());
            match page["next_cursor"].as_str() {
                Some(cursor) => path = format!("/v1/links?limit=100&cursor={cursor}"),
                None => return links,
            }
        }
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.api_key)
    }

    /// Sends a request, and retries it while the service answers 503, as a client would: on a busy machine
    /// the read tables can lag for longer than a read waits, and a write can wait for too long. A POST
    /// without an idempotency key and a PATCH without a precondition are sent once.
    async fn ask_while_unavailable(&self, request: &Request<Full<Bytes>>) -> Answer {
        let is_safe = [Method::GET, Method::DELETE].contains(request.method())
            || ["idempotency-key", "if-match"]
                .iter()
                .any(|name| request.headers().contains_key(*name));
        eventually("the service is available", async || {
            let answer = self.send(request.clone()).await;
            let is_retried = is_safe && answer.status == 503;
            (!is_retried).then_some(answer)
        })
        .await
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Answer {
        self.try_send(request).await.unwrap()
    }

    async fn try_send(&self, request: Request<Full<Bytes>>) -> Result<Answer, Box<dyn Error>> {
        let response = self.client.request(request).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        record::answer(&head.headers, &body);
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body,
        })
    }
}
