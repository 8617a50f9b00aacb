//! The requests of the client. Pure.

use linkledger_core::config::BaseUrl;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

/// A request that can be sent more than once.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(super) method: Method,
    /// Below the address of the API.
    pub(super) path: Vec<String>,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Option<Value>,
    /// The one status that means success.
    pub(super) expected: StatusCode,
}

impl Call {
    pub(crate) fn new(method: Method, path: &[&str], expected: StatusCode) -> Self {
        Self {
            method,
            path: path.iter().map(|&segment| segment.to_owned()).collect(),
            query: Vec::new(),
            headers: Vec::new(),
            body: None,
            expected,
        }
    }

    pub(crate) fn get(path: &[&str]) -> Self {
        Self::new(Method::GET, path, StatusCode::OK)
    }

    /// The create of a link; under one key it is done once, however often it is sent.
    pub(crate) fn create_link(key: Uuid, destination_url: &str, slug: Option<&str>) -> Self {
        let mut body = json!({ "destination_url": destination_url });
        if let Some(slug) = slug {
            body["slug"] = slug.into();
        }
        Self::new(Method::POST, &["v1", "links"], StatusCode::CREATED)
            .header("idempotency-key", Some(key.hyphenated().to_string()))
            .body(body)
    }

    /// The same with a query parameter, if there is one.
    pub(crate) fn query(mut self, name: &'static str, value: Option<String>) -> Self {
        self.query.extend(value.map(|value| (name, value)));
        self
    }

    /// The same with a header, if there is one.
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

    fn url(base: &str, call: &Call) -> String {
        call.url(&base.parse().unwrap()).into()
    }

    #[test]
    fn a_path_is_put_behind_the_address_and_its_segments_stay_whole() {
        let call = Call::get(&["v1", "links", "a/b?c"]).query("cursor", Some("=&".to_owned()));
        assert_eq!(
            url("http://127.0.0.1:8080", &call),
            "http://127.0.0.1:8080/v1/links/a%2Fb%3Fc?cursor=%3D%26"
        );
        let call = Call::get(&["v1", "credits"]).query("limit", None);
        for base in ["https://example.com/api", "https://example.com/api/"] {
            assert_eq!(url(base, &call), "https://example.com/api/v1/credits");
        }
    }
}
