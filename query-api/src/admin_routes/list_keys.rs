//! `GET /admin/v1/accounts/{account_id}/keys`: a page of the API keys of an account, oldest first.

use axum::response::Response;
use linkledger_core::{api_key::AdminScope, id::KeyId};
use linkledger_event_store::api_keys::{self, ListedKey};
use linkledger_http::{admin_views::KeyView, problem::Problem, route_table, storage::read_in_time};
use uuid::Uuid;

use super::admin_request::AdminRequest;
use crate::paging::{Page, PageRequest};

/// Body of the answer, with a name of its own in the OpenAPI document.
type KeyPage = Page<KeyView>;

/// Lists the keys of an account in the order of their issue, revoked and expired ones included.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::ADMIN_ACCOUNT_KEYS,
    tag = "keys",
    summary = "List the API keys of an account",
    description = "A page of the keys, oldest first, revoked and expired ones included.",
    params(("account_id" = String, Path, description = "Id of the account."), PageRequest),
    responses(
        (status = 200, description = "A page of keys.", body = KeyPage, headers(("Link")),
         links(("next_page" = (operation_id = "list_keys",
                               parameters(("cursor" = "$response.body#/next_cursor"))))),
         example = json!({ "items": [KeyView::example()], "next_cursor": null, "has_more": false })),
    ),
    security(("admin_key" = [AdminScope::Read.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn list_keys(request: AdminRequest) -> Result<Response, Problem> {
    let page = PageRequest::of(&request.uri)?;
    let list = request.list_of_account(String::new());
    let after: Option<u128> = list.start_of(&page)?;
    request.check_accept()?;
    let account_id = request.account().await?.account.account_id;

    let after = after.map(|id| KeyId::from_uuid(Uuid::from_u128(id)));
    let read = || api_keys::list_after(request.log(), account_id, after, page.count_max());
    let keys = read_in_time(read).await?;
    Ok(list.answer(&page, keys.into(), place_of, KeyView::from))
}

fn place_of(key: &ListedKey) -> u128 {
    key.key_id.uuid().as_u128()
}
