//! `POST /admin/v1/accounts/{account_id}/keys`: issues an API key, once per idempotency key.

use axum::{http::StatusCode, response::Response};
use linkledger_core::{
    api_key::{AdminScope, Scope},
    field::FieldError,
    id::AccountId,
    json::JsonObject,
    link::Expiry,
};
use linkledger_http::{admin_views::KeyView, problem::Problem, route_table};
use serde_json::{Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::{
    admin_request::{AdminRequest, outcome},
    answer,
    members::{EXPIRES_AT, Members, NAME, SCOPES, SECRET_SHA256, expiry, new_secret, text},
    schema::{self, AccountIdInPath, IdempotencyKey},
};
use crate::admin::{
    author::EffectKind,
    key::{self, DEFAULT_NAME, IssueKey, NewSecret},
};

/// Body of the request in the OpenAPI document.
struct KeyIssue;

impl PartialSchema for KeyIssue {
    fn schema() -> RefOr<Schema> {
        let name = format!("Display name, `{DEFAULT_NAME}` by default");
        let members = [
            (SCOPES, schema::scopes()),
            (NAME, schema::text(&name, "web shop")),
            (EXPIRES_AT, schema::expiry()),
            (SECRET_SHA256, schema::secret_sha256()),
        ];
        schema::body(&members, &[SCOPES])
    }
}

impl ToSchema for KeyIssue {}

/// Key that a valid body requests.
struct RequestedKey {
    name: Option<String>,
    scopes: Vec<Scope>,
    expires_at: Option<Expiry>,
    secret: NewSecret,
}

impl RequestedKey {
    fn of_account(self, account: AccountId) -> (IssueKey, NewSecret) {
        let wanted = IssueKey {
            account,
            scopes: self.scopes,
            name: self.name.unwrap_or_else(|| DEFAULT_NAME.to_owned()),
            expires_at: self.expires_at.map(Expiry::instant),
        };
        (wanted, self.secret)
    }
}

/// Issues an API key of an account.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::ADMIN_ACCOUNT_KEYS,
    tag = "keys",
    summary = "Issue an API key",
    description = "Issues an API key of the account. The member `secret` of the first answer is the key: \
                   no other answer has it, not even a replay. If the first answer was lost, issue another \
                   key and revoke this one; or send the `secret_sha256` of a secret that you have made.",
    params(
        ("account_id" = inline(AccountIdInPath), Path),
        ("Idempotency-Key" = inline(IdempotencyKey), Header),
    ),
    request_body(content = KeyIssue, example = json!(example())),
    responses(
        (status = 201, description = "The key was issued. A replay has no `secret`.", body = KeyView,
         headers(("Location"), ("Consistency-Token"), ("Idempotent-Replayed")),
         example = json!(KeyView::example())),
    ),
    security(("admin_key" = [AdminScope::Keys.name()])),
)]
pub async fn issue_key(mut request: AdminRequest) -> Result<Response, Problem> {
    let (key, object) = request.keyed_object().await?;
    let parsed = request
        .valid((EffectKind::Key, &key), parse(&object))
        .await?;
    let account_id = request.account_id()?;
    let (wanted, secret) = parsed.of_account(account_id);
    let command = request.command(Some(key));
    let issued = outcome(key::issue(&command, &wanted, &secret)).await?;
    let response = answer::done(&request.state, StatusCode::CREATED, account_id, &issued);
    Ok(answer::at(response, &path(&issued.value)))
}

/// Returns the path of a key.
pub(super) fn path(key: &KeyView) -> String {
    format!("{}/{}", route_table::ADMIN_KEYS, key.id)
}

fn parse(object: &JsonObject) -> Result<RequestedKey, Vec<FieldError>> {
    let mut members = Members::of(object, &[SCOPES, NAME, EXPIRES_AT, SECRET_SHA256]);
    let scopes = members.required_scopes();
    let name = members.optional(NAME, text);
    let expires_at = members.optional(EXPIRES_AT, expiry);
    let secret = new_secret(&mut members);
    members.finish(|| {
        Some(RequestedKey {
            name,
            scopes: scopes?,
            expires_at,
            secret,
        })
    })
}

fn example() -> Value {
    json!({
        SCOPES: [Scope::LinksWrite.name(), Scope::LinksRead.name()],
        NAME: "web shop",
        EXPIRES_AT: "2099-12-31T23:59:59.000Z",
    })
}
