//! `GET /v1/webhooks/{webhook_id}/deliveries` and the same of the admin API: a page of deliveries, newest first.

use axum::response::Response;
use linkledger_core::{api_key::Scope, id::DeliveryId, webhook::DeliveryState};
use linkledger_event_store::webhooks::deliveries::{self, StoredDelivery};
use linkledger_http::{problem::Problem, route_table, webhook_views::DeliveryView};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::webhook_read::WebhookRead;
use crate::{
    consistency::TokenHeader,
    paging::{CURSOR, LIMIT, Page, PageRequest},
    parameters::{Parameters, parse_name},
};

const STATE: &str = "state";

/// Body of the answer, with a name of its own in the OpenAPI document.
type DeliveryPage = Page<DeliveryView>;

/// Parameters in the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its schema is used")]
struct FilterParameters {
    /// Only deliveries in this state.
    #[param(inline)]
    state: Option<StateValue>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum StateValue {
    Waiting,
    Failed,
    Delivered,
}

/// Lists the deliveries that wait or have failed, the newest of those that succeeded, and tests.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::WEBHOOK_DELIVERIES,
    tag = "webhooks",
    summary = "List the deliveries of a webhook",
    description = "A page of deliveries, newest first: all that wait for a retry or have failed, and about 100 of the \
                   newest that succeeded.",
    params(
        ("webhook_id" = String, Path, description = "Id of the webhook."),
        PageRequest,
        FilterParameters,
        TokenHeader,
    ),
    responses(
        (status = 200, description = "A page of deliveries.", body = DeliveryPage, headers(("Link")),
         example = json!({ "items": [DeliveryView::example()], "next_cursor": null, "has_more": false })),
    ),
    security(("api_key" = [Scope::WebhooksRead.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn list_deliveries(request: WebhookRead) -> Result<Response, Problem> {
    let mut parameters = Parameters::of(&request.uri, &[STATE, LIMIT, CURSOR]);
    let page = PageRequest::take(&mut parameters);
    let names = DeliveryState::ALL.map(DeliveryState::name);
    let state = parameters.take(STATE, |text| {
        parse_name(text, DeliveryState::of_name, &names)
    });
    parameters.check()?;
    let filters = state.map_or_else(String::new, |state| format!("{STATE}={state}"));
    let list = request.list(filters);
    let after: Option<u128> = list.start_of(&page)?;
    request.check_headers()?;

    let webhook_id = request.webhook().await?.webhook.webhook_id;
    let after = after.map(|id| DeliveryId::from_uuid(Uuid::from_u128(id)));
    let pool = request.pool();
    let read = || deliveries::list(pool, webhook_id, state, after, page.count_max());
    let deliveries = request.read(read).await?;
    Ok(list.answer(&page, deliveries.into(), place_of, DeliveryView::from))
}

fn place_of(delivery: &StoredDelivery) -> u128 {
    delivery.delivery_id.uuid().as_u128()
}
