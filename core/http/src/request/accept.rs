//! `Accept`: the media types that a caller accepts and prefers (RFC 9110, 12.5.1).

use axum::http::{HeaderMap, header::ACCEPT};

use crate::problem::Problem;

const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

linkledger_core::named_enum! {
    /// Media type of an answer, by its name without parameters.
    pub enum MediaType {
        /// JSON, the default.
        Json = JSON,
        /// Comma-separated values with a header row (RFC 4180).
        Csv = "text/csv",
        /// Vector image.
        Svg = "image/svg+xml",
        /// Raster image.
        Png = "image/png",
    }
}

/// Preference of a caller for a media type; greater values are preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MediaTypePreference {
    /// Weight in thousandths; 0 is a refusal.
    weight: u16,
    exactness: Exactness,
}

/// Precision of a media range; the most exact range decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Exactness {
    All,
    Family,
    Type,
}

impl MediaTypePreference {
    const REFUSAL: Self = Self {
        weight: 0,
        exactness: Exactness::All,
    };

    /// Returns the preference for a media type. Parameters of the ranges are ignored.
    pub fn of(headers: &HeaderMap, media_type: &str) -> Self {
        Self::if_named(headers, media_type).unwrap_or(Self::REFUSAL)
    }

    /// Returns `None` if no range matches the type.
    fn if_named(headers: &HeaderMap, media_type: &str) -> Option<Self> {
        let named = ranges(headers).filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let exactness = Exactness::of(parts.next().unwrap_or_default(), media_type)?;
            Some((exactness, parts.find_map(weight).unwrap_or(1_000)))
        });
        named.max().map(|(exactness, weight)| match weight {
            0 => Self::REFUSAL,
            _ => Self { weight, exactness },
        })
    }
}

/// Checks that `Accept` allows JSON. Only if the header does not mention JSON, accepting the media
/// type of problems is enough. A header without any media range allows everything.
///
/// # Errors
/// Returns `not_acceptable`.
pub fn check_accept(headers: &HeaderMap) -> Result<(), Problem> {
    accepted(headers, &[MediaType::Json]).map(|_| ())
}

/// Returns the media type that the caller prefers among those of the route; the first one if the caller
/// has no preference. A caller who accepts problems, and does not mention JSON, accepts JSON too.
///
/// # Errors
/// Returns `not_acceptable` with the media types of the route.
pub fn accepted(headers: &HeaderMap, of_route: &[MediaType]) -> Result<MediaType, Problem> {
    let mut best = (MediaTypePreference::REFUSAL, None);
    for media_type in of_route {
        let preference = MediaTypePreference::of(headers, media_type.name());
        if preference > best.0 {
            best = (preference, Some(*media_type));
        }
    }
    let by_default = || {
        let is_open = ranges(headers).next().is_none();
        let json = MediaTypePreference::if_named(headers, JSON);
        let problem = MediaTypePreference::of(headers, PROBLEM);
        let accepts_problems = json.is_none() && problem != MediaTypePreference::REFUSAL;
        let first = of_route.first().copied();
        first.filter(|first| is_open || accepts_problems && *first == MediaType::Json)
    };
    best.1.or_else(by_default).ok_or_else(|| {
        let names: Vec<&str> = of_route.iter().map(|it| it.name()).collect();
        Problem::not_acceptable(&names)
    })
}

/// Returns the media ranges of all `Accept` headers together.
fn ranges(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|range| range.contains('/'))
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

/// Parses the parameter `q`, in thousandths. Malformed values count as 0.
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

    use super::{super::tests::headers, *};

    #[test]
    fn accept_must_allow_json() {
        for (accept, is_acceptable) in [
            ("*/*", true),
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/problem+json", true),
            ("text/html, application/*;q=0.1", true),
            ("text/html;q=0.9,\tapplication/json ; q=0.001", true),
            (";;;", true),
            ("", true),
            ("text/html", false),
            ("application/json;q=0", false),
            (
                "application/json;q=0.000, application/problem+json; q=0",
                false,
            ),
            ("application/*;q=0, */*", false),
            ("application/json;q=0, */*", false),
            ("*/*, application/json;q=0, application/*", false),
            ("application/json;q=0.1, */*;q=0", true),
            ("application/xml, text/*", false),
            ("application/jsonp", false),
        ] {
            let result = check_accept(&headers(&[(ACCEPT, accept)]));
            assert_eq!(result.is_ok(), is_acceptable, "{accept}");
        }
        assert!(check_accept(&HeaderMap::new()).is_ok());
    }

    #[test]
    fn caller_chooses_among_the_types_of_a_route() {
        let of_route = [MediaType::Json, MediaType::Csv];
        for (accept, chosen) in [
            ("*/*", Some(MediaType::Json)),
            ("", Some(MediaType::Json)),
            ("application/json", Some(MediaType::Json)),
            ("application/problem+json", Some(MediaType::Json)),
            ("text/csv", Some(MediaType::Csv)),
            ("Text/CSV; header=present", Some(MediaType::Csv)),
            ("text/*", Some(MediaType::Csv)),
            ("text/csv, */*", Some(MediaType::Csv)),
            ("text/csv, application/json", Some(MediaType::Json)),
            ("text/csv, application/problem+json", Some(MediaType::Csv)),
            ("text/csv;q=0.9, application/json", Some(MediaType::Json)),
            ("text/csv, application/json;q=0.9", Some(MediaType::Csv)),
            ("text/csv, application/json;q=0", Some(MediaType::Csv)),
            ("text/csv;q=0, */*", Some(MediaType::Json)),
            ("text/html", None),
            ("text/csv;q=0", None),
            ("image/*, application/xml", None),
        ] {
            let given = headers(&[(ACCEPT, accept)]);
            let result = accepted(&given, &of_route);
            assert_eq!(result.as_ref().ok(), chosen.as_ref(), "{accept}");
        }
        let refused = accepted(&headers(&[(ACCEPT, "text/html")]), &of_route).unwrap_err();
        assert_eq!(
            refused.detail,
            "Send Accept: application/json or text/csv, or leave it out."
        );
        assert_eq!(
            check_accept(&headers(&[(ACCEPT, "text/csv")])).map_err(|problem| problem.detail),
            Err("Send Accept: application/json, or leave it out.".to_owned())
        );
    }

    #[test]
    fn several_headers_are_one_list() {
        let mut several = headers(&[(ACCEPT, "text/html")]);
        several.append(ACCEPT, HeaderValue::from_static("application/json;q=0.1"));
        assert!(check_accept(&several).is_ok());
    }

    #[test]
    fn most_exact_range_decides_before_weight() {
        let preference = |accept: &str, media_type| {
            MediaTypePreference::of(&headers(&[(ACCEPT, accept)]), media_type)
        };
        let (json, html) = ("application/json", "text/html");
        let accept = "application/json;q=0.2, application/*;q=0.9, */*";
        assert!(preference(accept, json) < preference(accept, html));
        let accept = "application/json, */*";
        assert!(preference(accept, json) > preference(accept, html));
        let accept = "text/html;q=0.5, application/json;q=0.501";
        assert!(preference(accept, json) > preference(accept, html));
        assert_eq!(
            preference("application/json;q=2", json),
            MediaTypePreference::REFUSAL
        );
    }
}
