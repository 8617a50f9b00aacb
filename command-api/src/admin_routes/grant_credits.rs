//! `POST /admin/v1/accounts/{account_id}/grants` and `…/adjustments`: add credits, or correct the balance by an amount,
//! once per idempotency key.

use axum::{http::StatusCode, response::Response};
use linkledger_core::{
    api_key::AdminScope,
    credits::GrantRequest,
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
    members::{AMOUNT, DESCRIPTION, Members, REASON, REFERENCE, number, text, text_of},
    schema::{self, AccountIdInPath, IdempotencyKey},
};
use crate::admin::{author::EffectKind, credits};

/// Body of a grant in the OpenAPI document.
struct CreditGrant;

/// Body of an adjustment in the OpenAPI document.
struct CreditAdjustment;

impl PartialSchema for CreditGrant {
    fn schema() -> RefOr<Schema> {
        let amount = schema::number("Number of credits to add.", (Some(1), None), 1_000);
        body(amount, "invoice paid")
    }
}

impl PartialSchema for CreditAdjustment {
    fn schema() -> RefOr<Schema> {
        let amount = "Number of credits to add; a negative number is subtracted. Never 0.";
        body(schema::number(amount, (None, None), -50), "sold twice")
    }
}

impl ToSchema for CreditGrant {}

impl ToSchema for CreditAdjustment {}

/// Grants credits.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::ADMIN_GRANTS,
    tag = "credits",
    summary = "Grant credits",
    description = "Adds credits to the account: an entry of the type `grant`.",
    params(
        ("account_id" = inline(AccountIdInPath), Path),
        ("Idempotency-Key" = inline(IdempotencyKey), Header),
    ),
    request_body(content = CreditGrant, example = json!(example(1_000, "invoice paid"))),
    responses(
        (status = 201, description = "The entry of the grant.", body = EntryView,
         headers(("Consistency-Token"), ("Idempotent-Replayed")),
         example = json!(example_entry("grant", 1_000, "invoice paid"))),
    ),
    security(("admin_key" = [AdminScope::Credits.name()])),
)]
pub async fn grant_credits(mut request: AdminRequest) -> Result<Response, Problem> {
    let (key, object) = request.keyed_object().await?;
    let parsed = parse(&object, |amount| amount > 0);
    let wanted = request.valid((EffectKind::Grant, &key), parsed).await?;
    let account_id = request.account_id()?;
    let command = request.command(Some(key));
    let granted = outcome(credits::grant(&command, account_id, &wanted)).await?;
    Ok(answer::done(
        &request.state,
        StatusCode::CREATED,
        account_id,
        &granted,
    ))
}

/// Corrects the balance by an amount.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::ADMIN_ADJUSTMENTS,
    tag = "credits",
    summary = "Adjust the balance",
    description = "Corrects the balance, upwards or downwards, but never below 0: an entry of the type \
                   `adjustment`.",
    params(
        ("account_id" = inline(AccountIdInPath), Path),
        ("Idempotency-Key" = inline(IdempotencyKey), Header),
    ),
    request_body(content = CreditAdjustment, example = json!(example(-50, "sold twice"))),
    responses(
        (status = 201, description = "The entry of the adjustment.", body = EntryView,
         headers(("Consistency-Token"), ("Idempotent-Replayed")),
         example = json!(example_entry("adjustment", -50, "sold twice"))),
    ),
    security(("admin_key" = [AdminScope::Credits.name()])),
)]
pub async fn adjust_credits(mut request: AdminRequest) -> Result<Response, Problem> {
    let (key, object) = request.keyed_object().await?;
    let parsed = parse(&object, |amount| amount != 0);
    let wanted = request.valid((EffectKind::Adjust, &key), parsed).await?;
    let account_id = request.account_id()?;
    let command = request.command(Some(key));
    let adjusted = outcome(credits::adjust(&command, account_id, &wanted)).await?;
    Ok(answer::done(
        &request.state,
        StatusCode::CREATED,
        account_id,
        &adjusted,
    ))
}

fn parse(
    object: &JsonObject,
    is_amount: impl FnOnce(i64) -> bool,
) -> Result<GrantRequest, Vec<FieldError>> {
    let mut members = Members::of(object, &[AMOUNT, REASON, REFERENCE, DESCRIPTION]);
    let amount = members.required(AMOUNT, |value| {
        number(value, FieldCode::AmountInvalid, is_amount)
    });
    let reason = members.required(REASON, text);
    let reference = members.optional(REFERENCE, reference);
    let description = members.optional(DESCRIPTION, text);
    members.finish(|| {
        Some(GrantRequest {
            amount: amount?,
            reason: reason?,
            reference,
            description,
        })
    })
}

fn reference(value: &Value) -> Result<String, FieldCode> {
    let parsed = credits::parse_reference(text_of(value)?);
    parsed.map_err(|_| FieldCode::ReferenceInvalid)
}

fn body(amount: RefOr<Schema>, reason: &str) -> RefOr<Schema> {
    let description = schema::text("Text that the owner sees in the ledger", "Starter pack");
    let members = [
        (AMOUNT, amount),
        (REASON, schema::reason(reason)),
        (REFERENCE, schema::reference()),
        (DESCRIPTION, description),
    ];
    schema::body(&members, &[AMOUNT, REASON])
}

fn example(amount: i64, reason: &str) -> Value {
    json!({ AMOUNT: amount, REASON: reason, REFERENCE: "invoice-2026-11-4711" })
}

fn example_entry(kind: &str, amount: i64, reason: &str) -> Value {
    schema::example_entry(json!({
        "type": kind,
        "amount": amount,
        "balance_after": 1_950,
        "reason": reason,
        "reference": "invoice-2026-11-4711",
    }))
}
