//! The query parameters of lists, `limit` and `cursor` (contract §6).

use axum::http::Uri;
use linkledger_core::{
    http::request::{query_parameters, unknown_parameter},
    problem::{Code, Problem},
};
use serde_json::json;

const LIMIT_MIN: u8 = 1;
const LIMIT_MAX: u8 = 100;
const LIMIT_DEFAULT: u8 = 50;

/// Which part of a list is asked for.
#[derive(Debug, PartialEq)]
pub(crate) struct PageRequest {
    /// Most items on the page.
    pub(crate) limit: u8,
    /// Where the page begins, as the caller has it.
    pub(crate) cursor: Option<String>,
}

impl PageRequest {
    /// The request of that address.
    ///
    /// # Errors
    /// `invalid_parameter` names the first parameter that is unknown, repeated or out of range.
    pub(crate) fn parse(uri: &Uri) -> Result<Self, Problem> {
        let mut limit = None;
        let mut cursor = None;
        for (name, value) in query_parameters(uri) {
            let place = match name.as_str() {
                "limit" => &mut limit,
                "cursor" => &mut cursor,
                _ => return Err(unknown_parameter(&name)),
            };
            if place.replace(value).is_some() {
                let detail = "The query parameter may stand there only once.";
                return Err(Problem::invalid_parameter(
                    &name,
                    "repeated_parameter",
                    detail,
                ));
            }
        }
        let limit = match limit {
            None => LIMIT_DEFAULT,
            Some(text) => parse_limit(&text).ok_or_else(limit_out_of_range)?,
        };
        Ok(Self { limit, cursor })
    }
}

/// Only the one usual spelling: the parser alone would take `+5` and `05`.
fn parse_limit(text: &str) -> Option<u8> {
    let limit: u8 = text.parse().ok()?;
    ((LIMIT_MIN..=LIMIT_MAX).contains(&limit) && limit.to_string() == text).then_some(limit)
}

fn limit_out_of_range() -> Problem {
    let detail = format!("The limit is a number from {LIMIT_MIN} to {LIMIT_MAX}.");
    Problem::invalid_parameter("limit", "out_of_range", &detail)
        .with("minimum", LIMIT_MIN)
        .with("maximum", LIMIT_MAX)
}

/// The problem of a cursor that this account was not given for this list.
pub(crate) fn invalid_cursor() -> Problem {
    let detail = "Send next_cursor of the page before as it is, or begin without a cursor.";
    let error = json!({ "parameter": "cursor", "code": "invalid_cursor", "detail": detail });
    Problem::new(Code::InvalidCursor, detail).with("errors", vec![error])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Result<PageRequest, Problem> {
        PageRequest::parse(&format!("/v1/links{query}").parse().unwrap())
    }

    fn limit(text: &str) -> Option<u8> {
        parse(&format!("?limit={text}")).ok().map(|page| page.limit)
    }

    #[test]
    fn the_default_is_fifty_from_the_beginning() {
        for query in ["", "?", "?&&"] {
            let page = parse(query).unwrap();
            assert_eq!(
                page,
                PageRequest {
                    limit: 50,
                    cursor: None
                },
                "{query}"
            );
        }
        let page = parse("?cursor=a%2Bb&limit=7").unwrap();
        assert_eq!(
            page,
            PageRequest {
                limit: 7,
                cursor: Some("a+b".to_owned())
            }
        );
    }

    #[test]
    fn a_limit_is_a_number_in_its_usual_spelling() {
        for (text, number) in [("1", 1), ("9", 9), ("50", 50), ("100", 100), ("%31", 1)] {
            assert_eq!(limit(text), Some(number), "{text}");
        }
        for text in [
            "",
            "0",
            "101",
            "256",
            "1000",
            "-1",
            "+5",
            "%2B5",
            "05",
            "005",
            "5%20",
            "%205",
            "5.0",
            "1e1",
            "0x5",
            "%D9%A5",
            "five",
            "5,6",
            "18446744073709551617",
        ] {
            assert_eq!(limit(text), None, "{text}");
        }
    }

    #[test]
    fn a_wrong_limit_is_told_the_range() {
        let problem = parse("?limit=0").unwrap_err();
        assert_eq!(problem.code, Code::InvalidParameter);
        assert_eq!(problem.members["minimum"], 1);
        assert_eq!(problem.members["maximum"], 100);
        assert_eq!(problem.members["errors"][0]["parameter"], "limit");
    }

    #[test]
    fn unknown_and_repeated_parameters_are_refused() {
        for (query, parameter, code) in [
            ("?Limit=5", "Limit", "unknown_parameter"),
            ("?limit=5&page=2", "page", "unknown_parameter"),
            ("?slug=abc", "slug", "unknown_parameter"),
            ("?=", "", "unknown_parameter"),
            ("?limit=5&limit=5", "limit", "repeated_parameter"),
            ("?cursor=&cursor=", "cursor", "repeated_parameter"),
        ] {
            let problem = parse(query).unwrap_err();
            assert_eq!(problem.code, Code::InvalidParameter, "{query}");
            assert_eq!(
                problem.members["errors"][0]["parameter"], parameter,
                "{query}"
            );
            assert_eq!(problem.members["errors"][0]["code"], code, "{query}");
        }
    }
}
