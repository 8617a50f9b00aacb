//! Parts that the rankings of clicks share: parameters with their defaults and limits, and the form of the answer.

use std::{borrow::Cow, ops::Range};

use linkledger_clicks::{buckets::RangeError, top::DayRequest};
use linkledger_core::timestamp;
use linkledger_http::{problem::Problem, request::MediaType};
use serde::Serialize;
use serde_json::json;
use time::{Date, OffsetDateTime};
use utoipa::{
    IntoParams, PartialSchema, ToSchema,
    openapi::{Ref, RefOr, Schema},
};

use super::{
    click_range::{FROM, TO, media_type, range_problem, take_edge},
    read_request::ReadRequest,
};
use crate::{
    paging::{LIMIT, parse_limit},
    parameters::Parameters,
    read_model::LogPosition,
    statistics_reads::CompleteStatistics,
};

/// Names of the parameters of every ranking.
pub(super) const PARAMETERS: [&str; 3] = [LIMIT, FROM, TO];
const LIMIT_DEFAULT: u8 = 10;

/// Parameters of a ranking of links in the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct RankingParameters {
    /// Most items in the answer.
    #[param(minimum = 1, maximum = 100, default = 10)]
    limit: Option<u8>,
    /// Begin of the range, as an instant or a date. Snaps to the begin of its UTC day. Default: the last 30 days, the
    /// day of `to` included.
    #[param(format = "instant-or-date")]
    from: Option<String>,
    /// End of the range, exclusive, as an instant or a date. Snaps to the end of its UTC day. Default: now.
    #[param(format = "instant-or-date")]
    to: Option<String>,
}

/// Parts of a request for a ranking.
pub(super) struct RankingRequest {
    pub(super) limit: u8,
    pub(super) days: Range<Date>,
    pub(super) media_type: MediaType,
    pub(super) position: LogPosition,
}

impl RankingRequest {
    /// Parses the request, in the order of checks of `docs/api.md#order-of-checks`, after the caller has taken its own
    /// parameters. `days_of` returns the days of a range, as far back as the statistics are kept.
    pub(super) fn parse(
        request: &ReadRequest,
        mut parameters: Parameters,
        days_of: fn(DayRequest, OffsetDateTime) -> Result<Range<Date>, RangeError>,
    ) -> Result<Self, Problem> {
        let limit = parameters.take(LIMIT, parse_limit);
        let range = DayRequest {
            from: take_edge(&mut parameters, FROM),
            to: take_edge(&mut parameters, TO),
        };
        parameters.check()?;
        let days = days_of(range, request.api.clock.now());
        Ok(Self {
            limit: limit.unwrap_or(LIMIT_DEFAULT),
            days: days.map_err(|error| range_problem(&error))?,
            media_type: media_type(&request.headers)?,
            position: request.position()?,
        })
    }
}

/// Values or links with the most clicks of people, as sent to the client.
#[derive(Serialize)]
pub(super) struct Ranking<T> {
    pub(super) items: Vec<T>,
    other: u64,
    complete_until: String,
}

impl<T> Ranking<T> {
    /// Returns the answer with these items. `other` is the number of clicks beyond them.
    pub(super) fn new<F>(items: Vec<T>, other: u64, read: &CompleteStatistics<F>) -> Self {
        Self {
            items,
            other,
            complete_until: timestamp::format(read.complete_until),
        }
    }
}

impl<T: ToSchema> ToSchema for Ranking<T> {
    /// Returns the plural of the items' name, without which all rankings would be one schema.
    fn name() -> Cow<'static, str> {
        format!("{}s", T::name()).into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(schemas);
    }
}

impl<T: ToSchema> PartialSchema for Ranking<T> {
    fn schema() -> RefOr<Schema> {
        let schema = json!({
            "type": "object",
            "description": "Values or links with the most clicks of people.",
            "required": ["items", "other", "complete_until"],
            "properties": {
                "items": {
                    "type": "array",
                    "description": "Most clicks first; with equal numbers in the order of the values or ids.",
                    "items": Ref::from_schema_name(T::name()),
                },
                "other": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                    "description": "Clicks of people beyond these items: beyond the limit, or beyond the 100 values \
                                    that are kept for each link and day.",
                },
                "complete_until": {
                    "type": "string",
                    "format": "date-time",
                    "description": "Every click before this instant is in the statistics, except clicks that were lost.",
                },
            },
        });
        serde_json::from_value(schema).expect("a schema")
    }
}
