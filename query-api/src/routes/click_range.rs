//! Parts that the routes of clicks share: parameters of a range, and the form of the answer.

use axum::{
    http::{
        HeaderMap, HeaderValue,
        header::{CACHE_CONTROL, CONTENT_TYPE, VARY},
    },
    response::{IntoResponse, Response},
};
use linkledger_clicks::buckets::{RangeEdge, RangeError};
use linkledger_http::{
    problem::Problem,
    request::{MediaType, accepted},
};
use serde::Serialize;

use super::clicks_csv::CsvRow;
use crate::{
    cache_control::NOT_SHARED,
    parameters::{ParameterError, Parameters},
};

pub(super) const FROM: &str = "from";
pub(super) const TO: &str = "to";

/// Media types of the routes of clicks, the default first.
const MEDIA_TYPES: [MediaType; 2] = [MediaType::Json, MediaType::Csv];

/// Takes an edge of a range from the parameters.
pub(super) fn take_edge(parameters: &mut Parameters, name: &str) -> Option<RangeEdge> {
    parameters.take(name, |text| {
        RangeEdge::parse(text).ok_or_else(|| {
            let detail = format!(
                "Send {name} as a date such as 2026-11-20, or as an instant such as 2026-11-20T09:00:00Z, of a \
                 year from 2000 to 2099."
            );
            ParameterError::new("invalid_time", detail)
        })
    })
}

/// Returns the problem of a range without statistics.
pub(super) fn range_problem(error: &RangeError) -> Problem {
    Problem::invalid_parameter(error.parameter, error.code, &error.detail)
}

/// Returns the media type of the answer.
///
/// # Errors
/// Returns `not_acceptable`.
pub(super) fn media_type(headers: &HeaderMap) -> Result<MediaType, Problem> {
    accepted(headers, &MEDIA_TYPES)
}

/// Returns the answer with statistics: the body as JSON, or its rows as CSV.
pub(super) fn answer<R: CsvRow>(
    media_type: MediaType,
    body: &impl Serialize,
    rows: &[R],
) -> Response {
    let (content_type, text) = match media_type {
        MediaType::Csv => (
            "text/csv; charset=utf-8; header=present",
            super::clicks_csv::rows(rows),
        ),
        // The routes of clicks have no images.
        MediaType::Json | MediaType::Svg | MediaType::Png => {
            let json = serde_json::to_vec(body).expect("texts and numbers");
            ("application/json", json)
        }
    };
    let headers = [
        (CACHE_CONTROL, HeaderValue::from_static(NOT_SHARED)),
        (CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (VARY, HeaderValue::from_static("accept")),
    ];
    (headers, text).into_response()
}
