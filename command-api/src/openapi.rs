//! The operations of command-api in the OpenAPI document.

use linkledger_core::{openapi, problem::Code};
use utoipa::OpenApi as _;

use crate::routes::{change_destination, create_link, delete_link};

#[derive(utoipa::OpenApi)]
#[openapi(paths(
    create_link::create_link,
    change_destination::change_destination,
    delete_link::delete_link
))]
struct Operations;

/// Problems of each operation, without the problems that every operation has.
const PROBLEMS: [(&str, &[Code]); 3] = [
    (
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
    ),
    (
        "change_destination",
        &[
            Code::MalformedJson,
            Code::BodyNotObject,
            Code::LinkNotFound,
            Code::EtagMismatch,
            Code::ContentTooLarge,
            Code::UnsupportedMediaType,
            Code::UnsupportedContentEncoding,
            Code::ValidationFailed,
            Code::DeadlineExceeded,
        ],
    ),
    (
        "delete_link",
        &[
            Code::LinkNotFound,
            Code::EtagMismatch,
            Code::DeadlineExceeded,
        ],
    ),
];

/// Returns the OpenAPI document of the operations of command-api.
pub fn openapi() -> utoipa::openapi::OpenApi {
    openapi::complete(Operations::openapi(), &PROBLEMS)
}
