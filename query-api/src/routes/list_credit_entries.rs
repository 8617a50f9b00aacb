//! `GET /v1/credits/entries`: a page of the account's ledger, newest first.

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, Uri},
    response::Response,
};
use linkledger_core::{
    api_key::Scope,
    cursor::CursorScope,
    http::{authentication::Caller, request::check_accept, route_table},
    id::{EntryId, LinkId},
    openapi::Timestamp,
    problem::Problem,
    shard::Shard,
    timestamp,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use crate::{
    checkpoint_watcher::Projection,
    consistency::{TokenHeader, Wait, place_of_token},
    paging::{CURSOR, LIMIT, Page, PageRequest},
    parameters::Parameters,
    read_model::{
        available,
        credits::{self, Entry, EntryRange},
    },
};

/// An entry as it is sent. All have the same members.
#[derive(Serialize, ToSchema)]
#[schema(as = CreditEntry)]
struct EntryBody {
    #[schema(inline)]
    id: EntryId,
    /// `grant`, `charge` or `adjustment`; there may be others one day.
    #[serde(rename = "type")]
    kind: String,
    /// What it added to the balance: negative for a charge.
    amount: i64,
    /// The balance right after it.
    #[schema(minimum = 0)]
    balance_after: i64,
    /// The link that was paid for; null for anything but a charge.
    #[schema(inline, required)]
    link_id: Option<LinkId>,
    #[schema(inline, value_type = Timestamp)]
    created_at: String,
}

impl EntryBody {
    fn of(entry: Entry) -> Self {
        Self {
            id: entry.id,
            kind: entry.kind,
            amount: entry.amount,
            balance_after: entry.balance_after,
            link_id: entry.link_id,
            created_at: timestamp::format(entry.created_at),
        }
    }
}

/// Lists entries in the order of the ledger, so that each balance follows from the one below it.
///
/// # Errors
/// The problems of contract §9, in its order of checks.
#[utoipa::path(
    get,
    path = route_table::CREDIT_ENTRIES,
    tag = "credits",
    summary = "List what changed the balance",
    description = "A page of the account's ledger, newest first: each balance follows from the one below it.",
    params(PageRequest, TokenHeader),
    responses(
        (status = 200, description = "A page of entries.", body = Page<EntryBody>, headers(("Link")),
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
    security(("api_key" = [Scope::CreditsRead.as_str()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn list_credit_entries(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let account_id = caller.account_id;
    let mut parameters = Parameters::of(&uri, &[LIMIT, CURSOR]);
    let page = PageRequest::take(&mut parameters);
    parameters.check()?;
    let list = api.list(CursorScope {
        list: route_table::CREDIT_ENTRIES.to_owned(),
        account_id,
    });
    let before = list.place_of(&page)?;
    check_accept(&headers)?;
    let place = place_of_token(&headers, account_id, api.watcher.log_epoch())?;

    let range = EntryRange {
        account_id,
        before: before.map(version_of_place),
        count_max: page.count_max(),
    };
    let wait = Wait::begin(&api.watcher, Projection::Credits, Shard::of(account_id));
    let seen = wait
        .read_containing(place, || available(credits::entries(&api.pool, range)))
        .await?;
    Ok(list.answer(&page, seen.value, place_of_entry, EntryBody::of))
}

fn place_of_entry(entry: &Entry) -> u128 {
    u128::try_from(entry.version).expect("versions count from 1")
}

fn version_of_place(place: u128) -> i64 {
    i64::try_from(place).expect("only versions are sealed for this list")
}
