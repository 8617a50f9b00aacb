//! `POST /admin/v1/keys/{key_id}/rotate`: replaces an API key, once per idempotency key.

use std::borrow::Cow;

use axum::{http::StatusCode, response::Response};
use linkledger_core::{
    api_key::AdminScope,
    field::{FieldCode, FieldError},
    json::JsonObject,
};
use linkledger_http::{
    admin_views::KeyView, openapi::Timestamp, problem::Problem, request::key_id, route_table,
};
use serde_json::Value;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{AllOfBuilder, ObjectBuilder, Ref, RefOr, Schema},
};

use super::{
    admin_request::{AdminRequest, outcome},
    answer, issue_key,
    members::{Members, OVERLAP_SECONDS, SECRET_SHA256, new_secret, number},
    schema::{self, IdempotencyKey, KeyIdInPath},
};
use crate::admin::{
    author::EffectKind,
    key::{self, NewSecret, OVERLAP_SECONDS_MAX},
};

/// Body of the request in the OpenAPI document.
struct KeyRotate;

impl PartialSchema for KeyRotate {
    fn schema() -> RefOr<Schema> {
        let overlap =
            "Time for which both keys are valid, in seconds; 0 refuses the replaced key at once.";
        let maximum = i64::from(OVERLAP_SECONDS_MAX);
        let members = [
            (
                OVERLAP_SECONDS,
                schema::number(overlap, (Some(0), Some(maximum)), 86_400),
            ),
            (SECRET_SHA256, schema::secret_sha256()),
        ];
        schema::body(&members, &[OVERLAP_SECONDS])
    }
}

impl ToSchema for KeyRotate {}

/// Answer in the OpenAPI document: the new key, and the end of the replaced one.
struct RotatedKeyBody;

impl PartialSchema for RotatedKeyBody {
    fn schema() -> RefOr<Schema> {
        let replaced = ObjectBuilder::new()
            .property("replaces", schema::key_id("Id of the replaced key."))
            .required("replaces")
            .property("overlap_until", Timestamp::schema())
            .required("overlap_until");
        AllOfBuilder::new()
            .item(Ref::from_schema_name(KeyView::name()))
            .item(replaced)
            .into()
    }
}

impl ToSchema for RotatedKeyBody {
    fn name() -> Cow<'static, str> {
        "RotatedKey".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((KeyView::name().into_owned(), KeyView::schema()));
        KeyView::schemas(schemas);
    }
}

/// Rotation that a valid body requests.
struct Rotation {
    overlap_seconds: u32,
    secret: NewSecret,
}

/// Replaces a key by one with the same name, scopes and expiry.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    post,
    path = route_table::ADMIN_KEY_ROTATE,
    tag = "keys",
    summary = "Rotate an API key",
    description = "Issues a key with the same name, scopes and expiry, and refuses the replaced key after \
                   the overlap. A key is rotated once. The member `secret` is as in the answer to an issue.",
    params(
        ("key_id" = inline(KeyIdInPath), Path),
        ("Idempotency-Key" = inline(IdempotencyKey), Header),
    ),
    request_body(content = KeyRotate, example = json!({ "overlap_seconds": 86400 })),
    responses(
        (status = 201, description = "The new key. A replay has no `secret`.", body = RotatedKeyBody,
         headers(("Location"), ("Consistency-Token"), ("Idempotent-Replayed")),
         example = json!(example())),
    ),
    security(("admin_key" = [AdminScope::Keys.name()])),
)]
pub async fn rotate_key(mut request: AdminRequest) -> Result<Response, Problem> {
    let (key, object) = request.keyed_object().await?;
    let wanted = request
        .valid((EffectKind::Rotate, &key), parse(&object))
        .await?;
    let key_id = key_id(&request.uri)?;
    let command = request.command(Some(key));
    let rotated = key::rotate(&command, key_id, wanted.overlap_seconds, &wanted.secret);
    let rotated = outcome(rotated).await?;
    let new_key = &rotated.value.key;
    let (account_id, path) = (new_key.account_id, issue_key::path(new_key));
    let response = answer::done(&request.state, StatusCode::CREATED, account_id, &rotated);
    Ok(answer::at(response, &path))
}

fn parse(object: &JsonObject) -> Result<Rotation, Vec<FieldError>> {
    let mut members = Members::of(object, &[OVERLAP_SECONDS, SECRET_SHA256]);
    let overlap_seconds = members.required(OVERLAP_SECONDS, overlap);
    let secret = new_secret(&mut members);
    members.finish(|| {
        Some(Rotation {
            overlap_seconds: overlap_seconds?,
            secret,
        })
    })
}

fn overlap(value: &Value) -> Result<u32, FieldCode> {
    let is_valid = |seconds: i64| (0..=i64::from(OVERLAP_SECONDS_MAX)).contains(&seconds);
    let seconds = number(value, FieldCode::OverlapInvalid, is_valid)?;
    u32::try_from(seconds).map_err(|_| FieldCode::OverlapInvalid)
}

fn example() -> Value {
    let mut key = KeyView::example();
    key["replaces"] = "key_01h455vb4pex5vsknk084sn02q".into();
    key["overlap_until"] = "2026-11-21T09:51:00.123Z".into();
    key
}
