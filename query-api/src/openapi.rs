//! The part of the OpenAPI document that query-api answers for.

use linkledger_core::{openapi, problem::Code};
use utoipa::OpenApi as _;

use crate::routes::{get_credits, get_link, list_credit_entries, list_links};

#[derive(utoipa::OpenApi)]
#[openapi(paths(
    list_links::list_links,
    get_link::get_link,
    get_credits::get_credits,
    list_credit_entries::list_credit_entries
))]
struct Operations;

/// What each operation may answer with, beside what every operation may.
const PROBLEMS: [(&str, &[Code]); 4] = [
    ("list_links", &[Code::InvalidCursor, Code::ReadModelBehind]),
    ("get_link", &[Code::LinkNotFound, Code::ReadModelBehind]),
    ("get_credits", &[Code::ReadModelBehind]),
    (
        "list_credit_entries",
        &[Code::InvalidCursor, Code::ReadModelBehind],
    ),
];

/// The document of the reads.
pub fn openapi() -> utoipa::openapi::OpenApi {
    openapi::complete(Operations::openapi(), &PROBLEMS)
}
