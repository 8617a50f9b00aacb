//! The part of the OpenAPI document that command-api answers for.

use linkledger_core::{openapi, problem::Code};
use utoipa::OpenApi as _;

use crate::routes::create_link;

#[derive(utoipa::OpenApi)]
#[openapi(paths(create_link::create_link))]
struct Operations;

/// What each operation may answer with, beside what every operation may.
const PROBLEMS: [(&str, &[Code]); 1] = [(
    "create_link",
    &[
        Code::MalformedJson,
        Code::BodyNotObject,
        Code::IdempotencyKeyMissing,
        Code::IdempotencyKeyInvalid,
        Code::InsufficientCredits,
        Code::SlugTaken,
        Code::IdempotencyKeyInUse,
        Code::ContentTooLarge,
        Code::UnsupportedMediaType,
        Code::UnsupportedContentEncoding,
        Code::ValidationFailed,
        Code::IdempotencyKeyReused,
        Code::DeadlineExceeded,
    ],
)];

/// The document of the commands.
pub fn openapi() -> utoipa::openapi::OpenApi {
    openapi::complete(Operations::openapi(), &PROBLEMS)
}
