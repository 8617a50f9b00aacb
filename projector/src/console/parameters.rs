//! Query parameters of a page.

use std::collections::BTreeMap;

use axum::http::Uri;
use linkledger_http::request::{BadlyEncoded, query_parameters};

use super::error_page::ErrorPage;

/// Values by name, without empty ones.
#[derive(Debug)]
pub(super) struct Parameters(BTreeMap<&'static str, String>);

impl Parameters {
    /// Parses the parameters; refuses an unknown one.
    pub(super) fn of(uri: &Uri, known: &[&'static str]) -> Result<Self, ErrorPage> {
        let mut values = BTreeMap::new();
        for parameter in query_parameters(uri) {
            let (name, value) = parameter.map_err(|BadlyEncoded { name }| {
                ErrorPage::bad_parameter(&name, BadlyEncoded::DETAIL)
            })?;
            let Some(known_name) = known.iter().find(|known| **known == name) else {
                let detail = match known {
                    [] => "this page has no parameters.".to_owned(),
                    known => format!("there is no such parameter; there is {}.", known.join(", ")),
                };
                return Err(ErrorPage::bad_parameter(&name, &detail));
            };
            let value = value.trim().to_owned();
            if !value.is_empty() && values.insert(*known_name, value).is_some() {
                let detail = "may stand there only once.";
                return Err(ErrorPage::bad_parameter(&name, detail));
            }
        }
        Ok(Self(values))
    }

    /// Takes the value of a parameter, if given.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Takes and parses the value of a parameter.
    pub(super) fn take_parsed<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Option<T>,
        expected: &str,
    ) -> Result<Option<T>, ErrorPage> {
        let Some(text) = self.take(name) else {
            return Ok(None);
        };
        let parsed = parse(&text);
        let parsed = parsed.ok_or_else(|| ErrorPage::bad_parameter(name, expected))?;
        Ok(Some(parsed))
    }
}
