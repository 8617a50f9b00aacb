//! `GET /v1/links/{id}/clicks` and `GET /v1/clicks`: clicks over time.

mod body;

use axum::response::Response;
use linkledger_clicks::buckets::{Buckets, Interval, RangeRequest, Zone};
use linkledger_core::{api_key::Scope, id::LinkId};
use linkledger_http::{problem::Problem, request::MediaType, route_table};
use utoipa::{IntoParams, ToSchema};

use self::body::{ClicksBody, LinkClicksBody};
use super::{
    click_range::{FROM, TO, answer, media_type, range_problem, take_edge},
    get_link::owned_link,
    read_request::ReadRequest,
};
use crate::{
    consistency::TokenHeader,
    parameters::{ParameterError, Parameters, parse_name},
    read_model::clicks::{ClickSubject, SeriesQuery},
};

const INTERVAL: &str = "interval";
const TIMEZONE: &str = "timezone";

/// Parameters in the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its schema is used")]
struct SeriesParameters {
    /// Begin of the range, as an instant (`2026-11-20T09:00:00Z`) or a date (`2026-11-20`: the begin of the day
    /// in the time zone). Snaps to the begin of its bucket. Default: the last 30 days, the day of `to` included.
    #[param(format = "instant-or-date")]
    from: Option<String>,
    /// End of the range, exclusive, as an instant or a date. Snaps to the end of its bucket. Default: now.
    #[param(format = "instant-or-date")]
    to: Option<String>,
    /// Length of a bucket; weeks begin on Monday. Hours exist for the last 90 days.
    #[param(inline)]
    interval: Option<IntervalName>,
    /// IANA name of the time zone of hours, days, weeks and months. Default: `UTC`.
    #[param(format = "time-zone", example = "Europe/Berlin")]
    timezone: Option<String>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase", default = "day")]
#[expect(dead_code, reason = "only its schema is used")]
enum IntervalName {
    Hour,
    Day,
    Week,
    Month,
}

/// Parts of a request for a series.
struct SeriesRequest {
    buckets: Buckets,
    media_type: MediaType,
}

impl SeriesRequest {
    /// Parses the request, in the order of checks of `docs/api.md#order-of-checks`.
    fn parse(request: &ReadRequest) -> Result<Self, Problem> {
        let mut parameters = Parameters::of(&request.uri, &[FROM, TO, INTERVAL, TIMEZONE]);
        let range = RangeRequest {
            from: take_edge(&mut parameters, FROM),
            to: take_edge(&mut parameters, TO),
            interval: take_interval(&mut parameters),
            zone: take_zone(&mut parameters),
        };
        parameters.check()?;
        let buckets = Buckets::of(&range, request.api.clock.now());
        let buckets = buckets.map_err(|error| range_problem(&error))?;
        let media_type = media_type(&request.headers)?;
        // The token is only checked: statistics of clicks do not come from the event log, so there is no position to
        // wait for.
        request.position()?;
        Ok(Self {
            buckets,
            media_type,
        })
    }
}

fn take_interval(parameters: &mut Parameters) -> Interval {
    let names = Interval::ALL.map(Interval::name);
    let interval = parameters.take(INTERVAL, |text| parse_name(text, Interval::of_name, &names));
    interval.unwrap_or(Interval::Day)
}

fn take_zone(parameters: &mut Parameters) -> Zone {
    let zone = parameters.take(TIMEZONE, |text| {
        Zone::of_name(text).ok_or_else(|| {
            let detail = "Send the IANA name of a time zone, such as Europe/Berlin.";
            ParameterError::new("unknown_timezone", detail)
        })
    });
    zone.unwrap_or(Zone::UTC)
}

/// Returns the clicks of a link over time.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::LINK_CLICKS,
    tag = "clicks",
    summary = "Read the clicks of a link",
    description = "The clicks of a link over time: every bucket of the range, zeros included. Clicks of a \
                   deleted link stay readable. With the header `Accept: text/csv` the series as CSV.",
    params(("id" = inline(LinkId), Path), SeriesParameters, TokenHeader),
    responses(
        (status = 200, description = "The clicks.", body = LinkClicksBody, example = json!({
            "link_id": "lnk_01h455vb4pex5vsknk084sn02q",
            "interval": "day",
            "timezone": "UTC",
            "from": "2026-11-19T00:00:00.000Z",
            "to": "2026-11-21T00:00:00.000Z",
            "complete_until": "2026-11-20T09:51:00.123Z",
            "totals": { "clicks": 12, "bots": 3, "visitors": 9 },
            "series": [
                { "start": "2026-11-19T00:00:00.000Z", "clicks": 12, "bots": 2, "visitors": 9 },
                { "start": "2026-11-20T00:00:00.000Z", "clicks": 0, "bots": 1, "visitors": 0 },
            ],
        })),
    ),
    security(("api_key" = [Scope::ClicksRead.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn get_link_clicks(request: ReadRequest) -> Result<Response, Problem> {
    let series = SeriesRequest::parse(&request)?;
    let link_id = owned_link(&request).await?.link_id;
    let query = SeriesQuery {
        subject: ClickSubject {
            account_id: request.account_id,
            link_id: Some(link_id),
        },
        buckets: series.buckets,
    };
    let clicks = ClicksBody::new(request.api.statistics.read(&query).await?);
    let body = LinkClicksBody { link_id, clicks };
    Ok(answer(series.media_type, &body, &body.clicks.series))
}

/// Returns the clicks of all links of the account over time.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::CLICKS,
    tag = "clicks",
    summary = "Read the clicks of the account",
    description = "The clicks of all links of the account over time, deleted links included: every bucket of the \
                   range, zeros included. With the header `Accept: text/csv` the series as CSV.",
    params(SeriesParameters, TokenHeader),
    responses(
        (status = 200, description = "The clicks.", body = ClicksBody, example = json!({
            "interval": "day",
            "timezone": "UTC",
            "from": "2026-11-20T00:00:00.000Z",
            "to": "2026-11-21T00:00:00.000Z",
            "complete_until": "2026-11-20T09:51:00.123Z",
            "totals": { "clicks": 12, "bots": 3, "visitors": 9 },
            "series": [
                { "start": "2026-11-20T00:00:00.000Z", "clicks": 12, "bots": 3, "visitors": 9 },
            ],
        })),
    ),
    security(("api_key" = [Scope::ClicksRead.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn get_clicks(request: ReadRequest) -> Result<Response, Problem> {
    let series = SeriesRequest::parse(&request)?;
    let query = SeriesQuery {
        subject: ClickSubject {
            account_id: request.account_id,
            link_id: None,
        },
        buckets: series.buckets,
    };
    let body = ClicksBody::new(request.api.statistics.read(&query).await?);
    Ok(answer(series.media_type, &body, &body.series))
}
