//! `GET /v1/credits`: the balance of the account, and the price of a link.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, Uri, header::CACHE_CONTROL},
    response::{IntoResponse, Response},
};
use linkledger_core::{
    api_key::Scope,
    http::{
        authentication::Caller,
        request::{check_accept, check_no_query},
        route_table,
    },
    problem::Problem,
    projection::Projection,
    shard::Shard,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::ApiState;
use crate::{
    cache_control::NOT_SHARED,
    consistency::{TokenHeader, VisibilityWait, position_of_consistency_token},
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
    security(("api_key" = [Scope::CreditsRead.as_str()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn get_credits(
    State(api): State<Arc<ApiState>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let account_id = caller.account_id;
    check_no_query(&uri)?;
    check_accept(&headers)?;
    let position = position_of_consistency_token(&headers, account_id, api.watcher.log_epoch())?;

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
