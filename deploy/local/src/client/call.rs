//! The requests of the client, without any I/O.

use linkledger_core::config::BaseUrl;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

use super::batch::BatchMode;

/// A request to the API.
#[derive(Debug, Clone)]
pub(crate) struct ApiCall {
    pub(super) method: Method,
    /// Segments of the path, below the address of the API.
    pub(super) path: Vec<String>,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Option<Value>,
    /// False if a repetition of the request has a second effect.
    pub(super) is_repeatable: bool,
    /// The only status that means success.
    pub(super) expected: StatusCode,
}

impl ApiCall {
    pub(crate) fn new(method: Method, path: &[&str], expected: StatusCode) -> Self {
        Self {
            method,
            path: path.iter().map(|&segment| segment.to_owned()).collect(),
            query: Vec::new(),
            headers: Vec::new(),
            body: None,
            is_repeatable: true,
            expected,
        }
    }

    pub(crate) fn get(path: &[&str]) -> Self {
        Self::new(Method::GET, path, StatusCode::OK)
    }

    /// Makes a call that is sent again only if no attempt before may have taken effect.
    pub(crate) fn unrepeatable(method: Method, path: &[&str], expected: StatusCode) -> Self {
        Self {
            is_repeatable: false,
            ..Self::new(method, path, expected)
        }
    }

    /// Makes the call that creates a link. However often the call is sent, the service creates one
    /// link for one idempotency key.
    pub(crate) fn create_link(key: Uuid, body: Value) -> Self {
        Self::new(Method::POST, &["v1", "links"], StatusCode::CREATED)
            .header("idempotency-key", Some(key.hyphenated().to_string()))
            .body(body)
    }

    /// Makes the call that creates the links of these items, each with its idempotency key as a member.
    /// Each item is decided on its own.
    pub(crate) fn create_links(items: &[&Value], mode: BatchMode) -> Self {
        let (body, expected) = match mode {
            BatchMode::Partial => (json!({ "items": items }), StatusCode::MULTI_STATUS),
            BatchMode::DryRun => (json!({ "mode": "dry_run", "items": items }), StatusCode::OK),
        };
        Self::new(Method::POST, &["v1", "links", "batch"], expected).body(body)
    }

    /// Adds a query parameter, if `value` is present.
    pub(crate) fn query(mut self, name: &'static str, value: Option<String>) -> Self {
        self.query.extend(value.map(|value| (name, value)));
        self
    }

    /// Adds a header, if `value` is present.
    pub(crate) fn header(mut self, name: &'static str, value: Option<String>) -> Self {
        self.headers.extend(value.map(|value| (name, value)));
        self
    }

    pub(crate) fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    pub(super) fn url(&self, base: &BaseUrl) -> Url {
        let mut url = base.url().clone();
        url.path_segments_mut()
            .expect("an http address has a path")
            .pop_if_empty()
            .extend(&self.path);
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }
        url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(base: &str, call: &ApiCall) -> String {
        call.url(&base.parse().unwrap()).into()
    }

    #[test]
    fn path_segments_are_escaped_behind_the_address() {
        let call = ApiCall::get(&["v1", "links", "a/b?c"]).query("cursor", Some("=&".to_owned()));
        assert_eq!(
            url("http://127.0.0.1:8080", &call),
            "http://127.0.0.1:8080/v1/links/a%2Fb%3Fc?cursor=%3D%26"
        );
        let call = ApiCall::get(&["v1", "credits"]).query("limit", None);
        for base in ["https://example.com/api", "https://example.com/api/"] {
            assert_eq!(url(base, &call), "https://example.com/api/v1/credits");
        }
    }
}
