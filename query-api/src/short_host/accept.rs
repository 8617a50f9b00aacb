//! Whether a caller of the short host would rather read JSON than HTML.

use axum::http::{HeaderMap, header::ACCEPT};

/// Whether JSON is accepted with a higher weight than HTML, or with the same but by name, where
/// HTML is only included in a wildcard.
pub(super) fn prefers_json(headers: &HeaderMap) -> bool {
    let json = preference(headers, "application/json");
    json.max(preference(headers, "application/problem+json")) > preference(headers, "text/html")
}

/// Weight in thousandths, then exactness, of the range in `Accept` that decides on a media type.
fn preference(headers: &HeaderMap, media_type: &str) -> (u16, Exactness) {
    let ranges = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    ranges
        .filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let exactness = Exactness::of(parts.next().unwrap_or_default(), media_type)?;
            Some((exactness, parts.find_map(weight).unwrap_or(1_000)))
        })
        .max()
        .filter(|(_, weight)| *weight > 0)
        .map_or((0, Exactness::All), |(exactness, weight)| {
            (weight, exactness)
        })
}

/// How exactly a media range names a type; the most exact range decides (RFC 9110, 12.5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Exactness {
    All,
    Family,
    Type,
}

impl Exactness {
    fn of(range: &str, media_type: &str) -> Option<Self> {
        let family = media_type.split('/').next().unwrap_or_default();
        if range.eq_ignore_ascii_case(media_type) {
            Some(Self::Type)
        } else if range
            .strip_suffix("/*")
            .is_some_and(|of| of.eq_ignore_ascii_case(family))
        {
            Some(Self::Family)
        } else {
            (range == "*/*").then_some(Self::All)
        }
    }
}

/// The value of `q`, in thousandths; malformed ones weigh nothing.
fn weight(parameter: &str) -> Option<u16> {
    let value = parameter
        .strip_prefix("q=")
        .or_else(|| parameter.strip_prefix("Q="))?;
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    let digits = fraction.len() <= 3 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    match whole {
        "1" if fraction.bytes().all(|byte| byte == b'0') => Some(1_000),
        "0" if digits => format!("{fraction:0<3}").parse().ok(),
        _ => Some(0),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn prefers_json_with(accept: &str) -> bool {
        let value = HeaderValue::from_str(accept).unwrap();
        prefers_json(&HeaderMap::from_iter([(ACCEPT, value)]))
    }

    #[test]
    fn people_get_pages() {
        assert!(!prefers_json(&HeaderMap::new()));
        for accept in [
            "",
            "*/*",
            "text/html",
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8",
            "text/html, application/json",
            "application/json;q=0.9, text/html",
            "application/json;q=0.5, */*;q=0.8",
            "application/json;q=0",
            "application/json;q=2",
            "image/png",
        ] {
            assert!(!prefers_json_with(accept), "{accept}");
        }
    }

    #[test]
    fn programs_get_problem_details() {
        for accept in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/problem+json",
            "application/json, text/plain, */*",
            "application/*",
            "text/html;q=0.5, application/json;q=0.501",
            "text/html;q=0, */*",
            "*/*;q=0.1, application/problem+json;q=0.2",
        ] {
            assert!(prefers_json_with(accept), "{accept}");
        }
    }
}
