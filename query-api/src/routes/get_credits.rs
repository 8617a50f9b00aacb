//! `GET /v1/credits`: the balance of the account, and the price of a link.

use axum::{
    Json,
    http::header::CACHE_CONTROL,
    response::{IntoResponse, Response},
};
use linkledger_core::{api_key::Scope, projection::Projection, shard::Shard};
use linkledger_http::{problem::Problem, request::check_no_query, route_table};
use serde::Serialize;
use utoipa::ToSchema;

use super::read_request::ReadRequest;
use crate::{
    cache_control::NOT_SHARED,
    consistency::{TokenHeader, VisibilityWait},
    read_model::{credits, read_in_time},
};

#[derive(Serialize, ToSchema)]
#[schema(as = Credits)]
struct CreditsBody {
    #[schema(minimum = 0)]
    balance: i64,
    /// Price of a link.
    #[schema(minimum = 0)]
    link_price: i64,
}

/// Returns the balance of the account; 0 before the first entry.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::CREDITS,
    tag = "credits",
    summary = "Read the balance and the price of a link",
    description = "The balance of the account, the credits left to spend, and the price of a link.",
    params(TokenHeader),
    responses(
        (status = 200, description = "The balance, and the price of a link.", body = CreditsBody,
         example = json!({ "balance": 999, "link_price": 1 })),
    ),
    security(("api_key" = [Scope::CreditsRead.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn get_credits(request: ReadRequest) -> Result<Response, Problem> {
    check_no_query(&request.uri)?;
    let position = request.position_for_json()?;

    let (api, account_id) = (&request.api, request.account_id);
    let wait = VisibilityWait::begin(&api.watcher, Projection::Credits, Shard::of(account_id));
    let replica = api.read.replica_of(account_id);
    let snapshot = api
        .read
        .read_containing(&wait, replica, position, |server| {
            read_in_time(|| credits::balance(&server.pool, account_id))
        })
        .await?;
    let body = CreditsBody {
        balance: snapshot.value,
        link_price: api.watcher.link_price(),
    };
    Ok(([(CACHE_CONTROL, NOT_SHARED)], Json(body)).into_response())
}
