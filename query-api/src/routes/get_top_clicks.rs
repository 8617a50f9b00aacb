//! `GET /v1/links/{id}/clicks/top` and `GET /v1/clicks/top`: the most frequent values of clicks.

use axum::response::Response;
use linkledger_clicks::{Dimension, dimension::NO_VALUE, top::DayRequest};
use linkledger_core::{api_key::Scope, id::LinkId};
use linkledger_http::{problem::Problem, route_table};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use super::{
    click_range::answer,
    clicks_csv::CsvRow,
    get_link::owned_link,
    ranking::{PARAMETERS, Ranking, RankingParameters, RankingRequest},
    read_request::ReadRequest,
};
use crate::{
    consistency::TokenHeader,
    parameters::{ParameterError, Parameters, parse_name},
    read_model::clicks::{ClickSubject, TopValuesQuery},
};

const BY: &str = "by";
/// Value of `by` that a caller may expect, since links have a ranking too.
const BY_LINK: &str = "link";

/// Parameter in the OpenAPI document, beside those of every ranking.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its schema is used")]
struct ByDimension {
    /// Property of the clicks.
    #[param(inline)]
    by: Option<DimensionName>,
}

#[derive(ToSchema)]
#[schema(rename_all = "snake_case", default = "country")]
#[expect(dead_code, reason = "only its schema is used")]
enum DimensionName {
    Country,
    ReferrerHost,
    Browser,
    Os,
    Device,
}

/// Body of the answers, with a name of its own in the OpenAPI document.
type TopValues = Ranking<TopValue>;

/// Value with its clicks.
#[derive(Serialize, ToSchema)]
struct TopValue {
    /// Null for clicks without a value.
    #[schema(required)]
    value: Option<String>,
    /// Clicks of people.
    clicks: u64,
    /// Estimated distinct visitors of each UTC day, added over days.
    visitors: u64,
}

impl CsvRow for TopValue {
    const COLUMNS: &'static [&'static str] = &["value", "clicks", "visitors"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.value.clone().unwrap_or_default(),
            self.clicks.to_string(),
            self.visitors.to_string(),
        ]
    }
}

/// Parts of a request for the most frequent values.
struct ValuesRequest {
    by: Dimension,
    ranking: RankingRequest,
}

impl ValuesRequest {
    /// Parses the request, in the order of checks of `docs/api.md#order-of-checks`.
    fn parse(request: &ReadRequest) -> Result<Self, Problem> {
        let known = [&[BY], &PARAMETERS[..]].concat();
        let mut parameters = Parameters::of(&request.uri, &known);
        let by = parameters.take(BY, parse_dimension);
        Ok(Self {
            by: by.unwrap_or(Dimension::Country),
            ranking: RankingRequest::parse(request, parameters, DayRequest::days_of_values)?,
        })
    }
}

fn parse_dimension(text: &str) -> Result<Dimension, ParameterError> {
    let names = Dimension::ALL.map(Dimension::name);
    let mut parsed = parse_name(text, Dimension::of_name, &names);
    if let (BY_LINK, Err(error)) = (text, &mut parsed) {
        let path = route_table::TOP_LINKS;
        error.detail = format!(
            "The most clicked links of the account are at {path}. {}",
            error.detail
        );
    }
    parsed
}

/// Returns the most frequent values of a link's clicks.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::LINK_TOP_CLICKS,
    tag = "clicks",
    summary = "List the most frequent values of a link's clicks",
    description = "The values of a property with the most clicks of people, of the last 396 days. Clicks of a deleted \
                   link stay readable. With the header `Accept: text/csv` the items as CSV.",
    params(("id" = inline(LinkId), Path), ByDimension, RankingParameters, TokenHeader),
    responses(
        (status = 200, description = "The values.", body = TopValues, example = json!({
            "items": [
                { "value": "DE", "clicks": 9, "visitors": 7 },
                { "value": null, "clicks": 2, "visitors": 2 },
            ],
            "other": 1,
            "complete_until": "2026-11-20T09:51:00.123Z",
        })),
    ),
    security(("api_key" = [Scope::ClicksRead.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn get_top_link_clicks(request: ReadRequest) -> Result<Response, Problem> {
    let values = ValuesRequest::parse(&request)?;
    let link_id = owned_link(&request).await?.link_id;
    answer_values(&request, &values, Some(link_id)).await
}

/// Returns the most frequent values of the account's clicks.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::TOP_CLICKS,
    tag = "clicks",
    summary = "List the most frequent values of the account's clicks",
    description = "The values of a property with the most clicks of people, of the last 396 days, deleted links \
                   included. With the header `Accept: text/csv` the items as CSV.",
    params(ByDimension, RankingParameters, TokenHeader),
    responses(
        (status = 200, description = "The values.", body = TopValues, example = json!({
            "items": [
                { "value": "DE", "clicks": 12, "visitors": 9 },
                { "value": null, "clicks": 2, "visitors": 2 },
            ],
            "other": 3,
            "complete_until": "2026-11-20T09:51:00.123Z",
        })),
    ),
    security(("api_key" = [Scope::ClicksRead.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn get_top_clicks(request: ReadRequest) -> Result<Response, Problem> {
    let values = ValuesRequest::parse(&request)?;
    answer_values(&request, &values, None).await
}

async fn answer_values(
    request: &ReadRequest,
    values: &ValuesRequest,
    link_id: Option<LinkId>,
) -> Result<Response, Problem> {
    let ranking = &values.ranking;
    let query = TopValuesQuery {
        subject: ClickSubject {
            account_id: request.account_id,
            link_id,
        },
        dimension: values.by,
        days: ranking.days.clone(),
        limit: ranking.limit.into(),
    };
    let read = request.api.statistics.read(&query).await?;
    let items = read.statistics.items.iter().map(|item| TopValue {
        value: Some(item.key.clone()).filter(|value| value != NO_VALUE),
        clicks: item.clicks,
        visitors: item.visitors,
    });
    let body = TopValues::new(items.collect(), read.statistics.other, &read);
    Ok(answer(ranking.media_type, &body, &body.items))
}
