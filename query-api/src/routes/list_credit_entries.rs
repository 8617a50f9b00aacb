//! `GET /v1/credits/entries`: a page of the account's ledger, newest first.

use std::convert::identity;

use axum::response::Response;
use linkledger_core::{api_key::Scope, projection::Projection, shard::Shard};
use linkledger_http::{problem::Problem, route_table};

use super::read_request::ReadRequest;
use crate::{
    consistency::{TokenHeader, VisibilityWait},
    paging::{Page, PageRequest},
    read_model::{
        credits::{self, EntryRange, LedgerEntry},
        read_in_time,
    },
};

/// Body of the answer, with a name of its own in the OpenAPI document.
type CreditEntryPage = Page<LedgerEntry>;

/// Lists entries in the order of the ledger, newest first.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::CREDIT_ENTRIES,
    tag = "credits",
    summary = "List the entries of the ledger",
    description = "A page of the account's ledger, newest first. The balance after an entry is the balance after \
                   the next older entry, plus the amount.",
    params(PageRequest, TokenHeader),
    responses(
        (status = 200, description = "A page of entries.", body = CreditEntryPage, headers(("Link")),
         links(("next_page" = (operation_id = "list_credit_entries",
                               parameters(("cursor" = "$response.body#/next_cursor"))))),
         example = json!({
             "items": [{
                 "id": "ent_01h455vb4pex5vsknk084sn02s",
                 "type": "charge",
                 "amount": -1,
                 "balance_after": 999,
                 "link_id": "lnk_01h455vb4pex5vsknk084sn02q",
                 "created_at": "2026-11-20T09:51:00.123Z",
             }],
             "next_cursor": null,
             "has_more": false,
         })),
    ),
    security(("api_key" = [Scope::CreditsRead.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn list_credit_entries(request: ReadRequest) -> Result<Response, Problem> {
    let page = PageRequest::of(&request.uri)?;
    let list = request.list(route_table::CREDIT_ENTRIES, String::new());
    let before = list.start_of(&page)?;
    let position = request.position_for_json()?;

    let (api, account_id) = (&request.api, request.account_id);
    let range = EntryRange {
        account_id,
        before,
        count_max: page.count_max(),
    };
    let wait = VisibilityWait::begin(&api.watcher, Projection::Credits, Shard::of(account_id));
    // Later pages read from the primary: a replica may lag behind the page before.
    let replica = api.read.replica_of(account_id);
    let replica = replica.filter(|_| range.before.is_none());
    let snapshot = api
        .read
        .read_containing(&wait, replica, position, |server| {
            read_in_time(|| credits::entries(&server.pool, range))
        })
        .await?;
    let place_of = |entry: &LedgerEntry| entry.version;
    Ok(list.answer(&page, snapshot.value.into(), place_of, identity))
}
