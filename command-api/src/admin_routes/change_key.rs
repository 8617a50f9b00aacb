//! `PATCH /admin/v1/keys/{key_id}`: changes name, scopes and expiry of an API key.

use axum::{http::StatusCode, response::Response};
use linkledger_core::{
    api_key::{AdminScope, KeyChangeRequest, Scope},
    field::FieldError,
    json::JsonObject,
    schemas::or_null,
};
use linkledger_http::{
    admin_views::KeyView,
    problem::Problem,
    request::{AcceptedBody, key_id},
    route_table,
};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::{
    admin_request::{AdminRequest, outcome},
    answer,
    members::{EXPIRES_AT, Members, NAME, SCOPES, expiry, text},
    schema::{self, KeyIdInPath},
};
use crate::admin::key;

/// Members of a key that this operation does not change.
const IMMUTABLE: &[&str] = &[
    "id",
    "account_id",
    "prefix",
    "created_at",
    "revoked_at",
    "last_used_at",
    "secret",
    "secret_sha256",
];

/// Merge patch in the OpenAPI document.
struct KeyPatch;

impl PartialSchema for KeyPatch {
    fn schema() -> RefOr<Schema> {
        let members = [
            (NAME, schema::text("Display name", "web shop")),
            (SCOPES, schema::scopes()),
            (EXPIRES_AT, or_null(&schema::expiry())),
        ];
        schema::body(&members, &[])
    }
}

impl ToSchema for KeyPatch {}

/// Changes name, scopes and expiry of a key. A key with the wanted members stays as it is.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    patch,
    path = route_table::ADMIN_KEY,
    tag = "keys",
    summary = "Change an API key",
    description = "Takes a JSON merge patch (RFC 7396): `name`, `scopes`, which replace all scopes, and \
                   `expires_at`, which `null` removes. Every process knows the change within 5 s. Safe to \
                   repeat.",
    params(("key_id" = inline(KeyIdInPath), Path)),
    request_body(content(
        (KeyPatch = "application/merge-patch+json",
         example = json!({ "scopes": [Scope::LinksRead.name()], "expires_at": null })),
        (KeyPatch = "application/json",
         example = json!({ "scopes": [Scope::LinksRead.name()], "expires_at": null })),
    )),
    responses(
        (status = 200, description = "The key after the change. Without a `Consistency-Token` if nothing \
                                      changed.",
         body = KeyView, example = json!(KeyView::example())),
    ),
    security(("admin_key" = [AdminScope::Keys.name()])),
)]
pub async fn change_key(mut request: AdminRequest) -> Result<Response, Problem> {
    let object = request.object(&AcceptedBody::MERGE_PATCH).await?;
    let wanted = parse(&object).map_err(|errors| Problem::validation_failed(&errors))?;
    let key_id = key_id(&request.uri)?;
    let command = request.command(None);
    let changed = outcome(key::change(&command, key_id, &wanted)).await?;
    let account_id = changed.value.account_id;
    Ok(answer::done(
        &request.state,
        StatusCode::OK,
        account_id,
        &changed,
    ))
}

fn parse(object: &JsonObject) -> Result<KeyChangeRequest, Vec<FieldError>> {
    let mut members = Members::of_patch(object, &[NAME, SCOPES, EXPIRES_AT], IMMUTABLE);
    let name = members.optional(NAME, text);
    let scopes = members.scopes();
    let expires_at = members.update(EXPIRES_AT, expiry);
    members.finish(|| {
        Some(KeyChangeRequest {
            name,
            scopes: scopes.map(|scopes| Scope::names(&scopes)),
            expires_at,
        })
    })
}
