//! The operations of query-api in the OpenAPI document.

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

/// Problems of each operation, without the problems that every operation has.
const PROBLEMS: [(&str, &[Code]); 4] = [
    ("list_links", &[Code::InvalidCursor, Code::ReadModelBehind]),
    ("get_link", &[Code::LinkNotFound, Code::ReadModelBehind]),
    ("get_credits", &[Code::ReadModelBehind]),
    (
        "list_credit_entries",
        &[Code::InvalidCursor, Code::ReadModelBehind],
    ),
];

/// Returns the OpenAPI document of the operations of query-api.
pub fn openapi() -> utoipa::openapi::OpenApi {
    openapi::complete(Operations::openapi(), &PROBLEMS)
}
