//! The query parameters of a request: each parameter must be known, sent at most once, and valid.

use std::{collections::BTreeMap, ops::RangeInclusive, str::FromStr};

use axum::http::Uri;
use linkledger_clicks::buckets::RangeEdge;
use linkledger_core::{id::InvalidId, timestamp};
use linkledger_http::{
    problem::{Code, Problem},
    request::{BadlyEncoded, query_parameters},
};
use serde_json::{Value, json};
use time::OffsetDateTime;

/// Maximum number of errors about unknown parameters in one answer.
const ERRORS_MAX: usize = 20;
/// Maximum number of characters of an unknown name that an answer shows.
const NAME_SHOWN_MAX: usize = 64;

/// Error in the value of a parameter.
#[derive(Debug, Clone)]
pub(crate) struct ParameterError {
    pub(crate) code: &'static str,
    /// Advice to the caller.
    pub(crate) detail: String,
    /// Additional members of the problem.
    pub(crate) members: Vec<(&'static str, Value)>,
}

impl ParameterError {
    /// Returns an error without additional members.
    pub(crate) fn new(code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            members: Vec::new(),
        }
    }
}

/// Values by name, and the errors in them. The answer names all errors at once.
#[derive(Debug)]
pub(crate) struct Parameters {
    values: BTreeMap<String, String>,
    errors: Vec<Value>,
    members: Vec<(&'static str, Value)>,
}

impl Parameters {
    /// Reads the parameters of `uri`; every parameter that is not in `known` is an error.
    pub(crate) fn of(uri: &Uri, known: &[&str]) -> Self {
        let mut parameters = Self {
            values: BTreeMap::new(),
            errors: Vec::new(),
            members: Vec::new(),
        };
        for parameter in query_parameters(uri) {
            let (name, value) = match parameter {
                Ok(decoded) => decoded,
                Err(BadlyEncoded { name }) => {
                    parameters.refuse_unknown(&name, BadlyEncoded::CODE, BadlyEncoded::DETAIL);
                    continue;
                }
            };
            if !known.contains(&name.as_str()) {
                let shown: String = name.chars().take(NAME_SHOWN_MAX).collect();
                let detail = format!("There is no such parameter; use {}.", known.join(", "));
                parameters.refuse_unknown(&shown, "unknown_parameter", &detail);
            } else if parameters.values.insert(name.clone(), value).is_some() {
                let detail = "Send the query parameter only once.";
                parameters.refuse(&name, "repeated_parameter", detail);
            }
        }
        parameters
    }

    /// Takes the value of the named parameter. Returns `None` if the parameter was not sent or is
    /// invalid; [`Self::check`] reports the error.
    pub(crate) fn take<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, ParameterError>,
    ) -> Option<T> {
        let text = self.values.remove(name)?;
        match parse(&text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.refuse(name, error.code, &error.detail);
                self.members.extend(error.members);
                None
            }
        }
    }

    /// Returns the errors of all parameters. Callers take all parameters before they call `check`.
    ///
    /// # Errors
    /// Returns `invalid_parameter` with every error.
    pub(crate) fn check(self) -> Result<(), Problem> {
        let detail = match self.errors.as_slice() {
            [] => return Ok(()),
            [error] => error["detail"].as_str().unwrap_or_default().to_owned(),
            errors if errors.len() >= ERRORS_MAX => {
                format!("{ERRORS_MAX} or more query parameters are not valid.")
            }
            errors => format!("{} query parameters are not valid.", errors.len()),
        };
        let problem = Problem::new(Code::InvalidParameter, detail).with("errors", self.errors);
        let members = self.members.into_iter();
        Err(members.fold(problem, |problem, (name, value)| problem.with(name, value)))
    }

    /// Records the error of an unknown parameter, up to `ERRORS_MAX` errors.
    fn refuse_unknown(&mut self, parameter: &str, code: &str, detail: &str) {
        if self.errors.len() < ERRORS_MAX {
            self.refuse(parameter, code, detail);
        }
    }

    /// Records the error, unless the parameter already has an error.
    fn refuse(&mut self, parameter: &str, code: &str, detail: &str) {
        let is_named = |error: &Value| error["parameter"] == parameter;
        if !self.errors.iter().any(is_named) {
            self.errors
                .push(json!({ "parameter": parameter, "code": code, "detail": detail }));
        }
    }
}

/// Parses an instant, or a date as the begin of its UTC day.
pub(crate) fn parse_instant(name: &str, text: &str) -> Result<OffsetDateTime, ParameterError> {
    let instant = match RangeEdge::parse(text) {
        Some(RangeEdge::Instant(instant)) => Some(instant),
        Some(RangeEdge::Date(date)) => timestamp::parse(&format!("{date}T00:00:00Z")),
        None => None,
    };
    instant.ok_or_else(|| {
        let detail = format!(
            "Send {name} as an instant such as 2026-11-20T09:00:00Z, or as a date such as 2026-11-20, of a year from \
             2000 to 2099."
        );
        ParameterError::new("invalid_time", detail)
    })
}

/// Parses an id.
pub(crate) fn parse_id<T: FromStr<Err = InvalidId>>(text: &str) -> Result<T, ParameterError> {
    text.parse().map_err(|error: InvalidId| {
        ParameterError::new("id_invalid", format!("Send an id: {error}."))
    })
}

/// Parses one of a few names.
pub(crate) fn parse_name<T>(
    text: &str,
    of_name: impl Fn(&str) -> Option<T>,
    names: &[&str],
) -> Result<T, ParameterError> {
    of_name(text).ok_or_else(|| {
        let detail = format!("Send one of: {}.", names.join(", "));
        ParameterError::new("unknown_value", detail)
    })
}

/// Parses a number in its canonical spelling only: the parser of the standard library would accept `+5` and `05`.
pub(crate) fn parse_number(
    name: &str,
    range: RangeInclusive<u8>,
    text: &str,
) -> Result<u8, ParameterError> {
    let number = text.parse().ok();
    let number = number.filter(|it: &u8| range.contains(it) && it.to_string() == text);
    let (minimum, maximum) = (range.start(), range.end());
    number.ok_or_else(|| ParameterError {
        code: "out_of_range",
        detail: format!("The {name} is a number from {minimum} to {maximum}."),
        members: vec![("minimum", json!(minimum)), ("maximum", json!(maximum))],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str) -> Result<Option<String>, Problem> {
        let uri: Uri = format!("/v1/links{query}").parse().unwrap();
        let mut parameters = Parameters::of(&uri, &["a", "b"]);
        let a = parameters.take("a", |text| Ok(text.to_owned()));
        parameters.take("b", |text| match text {
            "wrong" => Err(ParameterError {
                code: "out_of_range",
                detail: "Send another.".to_owned(),
                members: vec![("minimum", json!(1))],
            }),
            _ => Ok(()),
        });
        parameters.check().map(|()| a)
    }

    /// Parameter and code of each error.
    fn errors(query: &str) -> Vec<[String; 2]> {
        let problem = check(query).unwrap_err();
        assert_eq!(problem.code, Code::InvalidParameter, "{query}");
        let errors = problem.members["errors"].as_array().unwrap().iter();
        errors
            .map(|error| {
                ["parameter", "code"].map(|member| error[member].as_str().unwrap().to_owned())
            })
            .collect()
    }

    #[test]
    fn optional_parameters_are_decoded() {
        for (query, value) in [
            ("", None),
            ("?", None),
            ("?&&", None),
            ("?a", Some("")),
            ("?a=x%2By+z&b=1", Some("x+y z")),
        ] {
            assert_eq!(check(query).unwrap().as_deref(), value, "{query}");
        }
    }

    #[test]
    fn unknown_repeated_and_invalid_parameters_are_named() {
        for (query, expected) in [
            ("?A=5", &[["A", "unknown_parameter"]][..]),
            ("?a=5&c=2", &[["c", "unknown_parameter"]]),
            ("?=", &[["", "unknown_parameter"]]),
            ("?a=5&a=5&a=5", &[["a", "repeated_parameter"]]),
            ("?a=&%61=", &[["a", "repeated_parameter"]]),
            (
                "?a=%ff&b=%",
                &[["a", "invalid_encoding"], ["b", "invalid_encoding"]],
            ),
            (
                "?b=wrong&c=1&a=1&c=2&a=2",
                &[
                    ["c", "unknown_parameter"],
                    ["a", "repeated_parameter"],
                    ["b", "out_of_range"],
                ],
            ),
        ] {
            assert_eq!(errors(query), expected, "{query}");
        }
        assert_eq!(errors("?b=1&b=wrong"), [["b", "repeated_parameter"]]);
        let problem = check("?c&b=wrong").unwrap_err();
        assert_eq!(problem.detail, "2 query parameters are not valid.");
        assert_eq!(problem.members["minimum"], 1);
    }

    #[test]
    fn number_of_errors_and_shown_names_is_bounded() {
        let sent: Vec<String> = (0..5_000).map(|n| n.to_string()).collect();
        assert_eq!(errors(&format!("?{}", sent.join("&"))).len(), ERRORS_MAX);
        let query = format!("?{}&b=wrong", sent.join("&"));
        let last = errors(&query).pop().unwrap();
        assert_eq!(last, ["b", "out_of_range"]);
        let detail = check(&query).unwrap_err().detail;
        assert_eq!(detail, "20 or more query parameters are not valid.");
        let long = "x".repeat(5_000);
        let shown = errors(&format!("?{long}"));
        assert_eq!(shown[0][0].len(), NAME_SHOWN_MAX);
    }
}
