//! Query parameters, decoded strictly: invalid encodings are refused, never repaired.

use axum::http::Uri;

use crate::problem::Problem;
use linkledger_core::percent;

/// Checks that the request has no query parameters.
///
/// # Errors
/// Returns `invalid_parameter` for the first parameter.
pub fn check_no_query(uri: &Uri) -> Result<(), Problem> {
    let problem = match query_parameters(uri).next() {
        None => return Ok(()),
        Some(Ok((name, _))) => Problem::invalid_parameter(
            &shown(&name),
            "unknown_parameter",
            "There is no such query parameter.",
        ),
        Some(Err(BadlyEncoded { name })) => {
            Problem::invalid_parameter(&name, BadlyEncoded::CODE, BadlyEncoded::DETAIL)
        }
    };
    Err(problem)
}

/// A parameter that is not percent-encoded UTF-8, or that contains U+0000, which no stored text
/// contains.
#[derive(Debug, PartialEq, Eq)]
pub struct BadlyEncoded {
    /// Start of the parameter's name, as sent.
    pub name: String,
}

impl BadlyEncoded {
    /// Code of the error in the `errors` of `invalid_parameter`.
    pub const CODE: &str = "invalid_encoding";
    /// Advice for people.
    pub const DETAIL: &str = "Percent-encode the parameter as UTF-8, without U+0000.";
}

/// Decodes the query parameters, in order.
pub fn query_parameters(uri: &Uri) -> impl Iterator<Item = Result<(String, String), BadlyEncoded>> {
    uri.query()
        .unwrap_or_default()
        .split('&')
        .filter(|parameter| !parameter.is_empty())
        .map(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let decoded = decode(name).zip(decode(value));
            decoded.ok_or_else(|| BadlyEncoded { name: shown(name) })
        })
}

/// Returns the first characters of a name, enough for the sender to recognise it.
fn shown(name: &str) -> String {
    name.chars().take(64).collect()
}

fn decode(part: &str) -> Option<String> {
    let bytes = percent::decode(&part.replace('+', " "))?;
    String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Code;

    fn parse(query: &str) -> Result<Vec<(String, String)>, BadlyEncoded> {
        query_parameters(&format!("/v1/links?{query}").parse().unwrap()).collect()
    }

    #[test]
    fn parameters_are_decoded_in_order() {
        let parameters = parse("a=1&b=x%20y+z&&c&=d&%C3%A4=%2B%3d&e=f=g").unwrap();
        let expected = [
            ("a", "1"),
            ("b", "x y z"),
            ("c", ""),
            ("", "d"),
            ("\u{e4}", "+="),
            ("e", "f=g"),
        ];
        assert_eq!(
            parameters,
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }

    #[test]
    fn unknown_parameter_is_named() {
        let check = |uri: &'static str| {
            let problem = check_no_query(&Uri::from_static(uri)).err()?;
            assert_eq!(problem.code, Code::InvalidParameter);
            let error = &problem.members["errors"][0];
            Some(format!("{} {}", error["code"], error["parameter"]))
        };
        assert_eq!(check("/"), None);
        assert_eq!(check("/?&"), None);
        let unknown = Some("\"unknown_parameter\" \"\u{e4}\"".to_owned());
        assert_eq!(check("/?%C3%A4=1&b"), unknown);
        let bad = Some(r#""invalid_encoding" "%""#.to_owned());
        assert_eq!(check("/?%=1&b"), bad);
    }

    #[test]
    fn undecodable_parameters_are_refused() {
        for query in [
            "limit=%",
            "limit=%5",
            "limit=%zz",
            "limit=%+5",
            "limit=%ff",
            "limit=%C3",
            "limit=%ED%A0%80",
            "limit=a%00b",
            "limi%ff=5",
        ] {
            let name = query.split('=').next().unwrap().to_owned();
            assert_eq!(parse(query), Err(BadlyEncoded { name }), "{query}");
        }
    }
}
