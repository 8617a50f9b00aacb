//! `POST /admin/v1/accounts/{account_id}/refunds` and `…/revocations`: give a charge back, or take a grant back, once
//! each.

use axum::{http::StatusCode, response::Response};
use linkledger_core::{api_key::AdminScope, field::FieldError, id::EntryId, json::JsonObject};
use linkledger_http::{admin_views::EntryView, problem::Problem, route_table};
use serde_json::{Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::{
    admin_request::{AdminRequest, outcome},
    answer,
    members::{ENTRY, GRANT, Members, REASON, entry_id, text},
    schema::{self, AccountIdInPath, IdempotencyKey},
};
use crate::admin::{author::EffectKind, credits};

/// Body of a refund in the OpenAPI document.
struct ChargeRefund;

/// Body of a revocation in the OpenAPI document.
struct GrantRevocation;

impl PartialSchema for ChargeRefund {
    fn schema() -> RefOr<Schema> {
        let entry = schema::entry_id("Id of the charge to give back.");
        let reason = schema::reason("link never worked");
        schema::body(&[(ENTRY, entry), (REASON, reason)], &[ENTRY, REASON])
    }
}

impl PartialSchema for GrantRevocation {
    fn schema() -> RefOr<Schema> {
        let grant = schema::entry_id("Id of the grant to take back.");
        let reason = schema::reason("payment charged back");
        schema::body(&[(GRANT, grant), (REASON, reason)], &[GRANT, REASON])
    }
}

impl ToSchema for ChargeRefund {}

impl ToSchema for GrantRevocation {}

/// Entry to reverse, and the reason.
struct Reversal {
    entry: EntryId,
    reason: String,
}

/// Gives a charge back.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::ADMIN_REFUNDS,
    tag = "credits",
    summary = "Refund a charge",
    description = "Gives a charge back, as a whole and at most once: an entry of the type `refund`. The link \
                   stays as it is.",
    params(
        ("account_id" = inline(AccountIdInPath), Path),
        ("Idempotency-Key" = inline(IdempotencyKey), Header),
    ),
    request_body(content = ChargeRefund, example = json!(example(ENTRY, "link never worked"))),
    responses(
        (status = 201, description = "The entry of the refund.", body = EntryView,
         headers(("Consistency-Token"), ("Idempotent-Replayed")), example = json!(example_refund())),
    ),
    security(("admin_key" = [AdminScope::Credits.name()])),
)]
pub async fn refund_charge(mut request: AdminRequest) -> Result<Response, Problem> {
    let (key, object) = request.keyed_object().await?;
    let parsed = parse(&object, ENTRY, &[ENTRY, REASON]);
    let wanted = request.valid((EffectKind::Refund, &key), parsed).await?;
    let account_id = request.account_id()?;
    let command = request.command(Some(key));
    let refunded = credits::refund(&command, account_id, wanted.entry, &wanted.reason);
    let refunded = outcome(refunded).await?;
    Ok(answer::done(
        &request.state,
        StatusCode::CREATED,
        account_id,
        &refunded,
    ))
}

/// Takes a grant back, as far as the balance allows.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::ADMIN_REVOCATIONS,
    tag = "credits",
    summary = "Revoke a grant",
    description = "Takes a grant back, at most once: an entry of the type `revocation`. It takes at most the \
                   balance, which never becomes negative: `asked` is the amount of the grant, `taken` what \
                   was left of it, `short` the rest.",
    params(
        ("account_id" = inline(AccountIdInPath), Path),
        ("Idempotency-Key" = inline(IdempotencyKey), Header),
    ),
    request_body(content = GrantRevocation, example = json!(example(GRANT, "payment charged back"))),
    responses(
        (status = 201, description = "The entry of the revocation.", body = EntryView,
         headers(("Consistency-Token"), ("Idempotent-Replayed")), example = json!(example_revocation())),
    ),
    security(("admin_key" = [AdminScope::Credits.name()])),
)]
pub async fn revoke_grant(mut request: AdminRequest) -> Result<Response, Problem> {
    let (key, object) = request.keyed_object().await?;
    let parsed = parse(&object, GRANT, &[GRANT, REASON]);
    let wanted = request
        .valid((EffectKind::Revocation, &key), parsed)
        .await?;
    let account_id = request.account_id()?;
    let command = request.command(Some(key));
    let revoked = credits::revoke_grant(&command, account_id, wanted.entry, &wanted.reason);
    let revoked = outcome(revoked).await?;
    Ok(answer::done(
        &request.state,
        StatusCode::CREATED,
        account_id,
        &revoked,
    ))
}

fn parse(
    object: &JsonObject,
    entry_member: &str,
    known: &'static [&'static str],
) -> Result<Reversal, Vec<FieldError>> {
    let mut members = Members::of(object, known);
    let entry = members.required(entry_member, entry_id);
    let reason = members.required(REASON, text);
    members.finish(|| {
        Some(Reversal {
            entry: entry?,
            reason: reason?,
        })
    })
}

fn example(entry_member: &str, reason: &str) -> Value {
    json!({ entry_member: "ent_01h455vb4pex5vsknk084sn02q", REASON: reason })
}

fn example_refund() -> Value {
    schema::example_entry(json!({
        "type": "refund",
        "amount": 1,
        "balance_after": 1_000,
        "reason": "link never worked",
        "link_id": "lnk_01h455vb4pex5vsknk084sn02q",
        "refunds": "ent_01h455vb4pex5vsknk084sn02q",
    }))
}

fn example_revocation() -> Value {
    schema::example_entry(json!({
        "type": "revocation",
        "amount": -940,
        "balance_after": 0,
        "reason": "payment charged back",
        "grant": "ent_01h455vb4pex5vsknk084sn02q",
        "asked": 1_000,
        "taken": 940,
        "short": 60,
    }))
}
