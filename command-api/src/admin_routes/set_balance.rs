//! `POST /admin/v1/accounts/{account_id}/balance`: sets the balance, as one adjustment.

use axum::{http::StatusCode, response::Response};
use linkledger_core::{
    api_key::AdminScope,
    credits::BALANCE_MAX,
    field::{FieldCode, FieldError},
    json::JsonObject,
};
use linkledger_http::{admin_views::EntryView, problem::Problem, route_table};
use serde_json::{Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::{
    admin_request::{AdminRequest, outcome},
    answer,
    members::{BALANCE, Members, REASON, number, text},
    schema::{self, AccountIdInPath, IdempotencyKey},
};
use crate::admin::{author::EffectKind, credits};

/// Body of the request in the OpenAPI document.
struct BalanceSet;

impl PartialSchema for BalanceSet {
    fn schema() -> RefOr<Schema> {
        let balance = schema::number(
            "Balance to set, in credits.",
            (Some(0), Some(BALANCE_MAX)),
            500,
        );
        let reason = schema::reason("monthly plan");
        schema::body(&[(BALANCE, balance), (REASON, reason)], &[BALANCE, REASON])
    }
}

impl ToSchema for BalanceSet {}

/// Balance that a valid body requests.
struct WantedBalance {
    balance: i64,
    reason: String,
}

/// Sets the balance.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::ADMIN_BALANCE,
    tag = "credits",
    summary = "Set the balance",
    description = "Sets the balance by one entry of the type `adjustment`, decided while no charge is; its amount \
                   is 0 if the account has this balance.",
    params(
        ("account_id" = inline(AccountIdInPath), Path),
        ("Idempotency-Key" = inline(IdempotencyKey), Header),
    ),
    request_body(content = BalanceSet, example = json!({ "balance": 500, "reason": "monthly plan" })),
    responses(
        (status = 201, description = "The entry of the adjustment.", body = EntryView,
         headers(("Consistency-Token"), ("Idempotent-Replayed")), example = json!(example_entry())),
    ),
    security(("admin_key" = [AdminScope::Credits.name()])),
)]
pub async fn set_balance(mut request: AdminRequest) -> Result<Response, Problem> {
    let (key, object) = request.keyed_object().await?;
    let wanted = request
        .valid((EffectKind::Balance, &key), parse(&object))
        .await?;
    let account_id = request.account_id()?;
    let command = request.command(Some(key));
    let set = credits::set_balance(&command, account_id, wanted.balance, &wanted.reason);
    let set = outcome(set).await?;
    Ok(answer::done(
        &request.state,
        StatusCode::CREATED,
        account_id,
        &set,
    ))
}

fn parse(object: &JsonObject) -> Result<WantedBalance, Vec<FieldError>> {
    let mut members = Members::of(object, &[BALANCE, REASON]);
    let balance = members.required(BALANCE, |value| {
        number(value, FieldCode::BalanceInvalid, |balance| {
            (0..=BALANCE_MAX).contains(&balance)
        })
    });
    let reason = members.required(REASON, text);
    members.finish(|| {
        Some(WantedBalance {
            balance: balance?,
            reason: reason?,
        })
    })
}

fn example_entry() -> Value {
    schema::example_entry(json!({
        "type": "adjustment",
        "amount": -500,
        "balance_after": 500,
        "reason": "monthly plan",
    }))
}
