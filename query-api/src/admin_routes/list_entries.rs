//! `GET /admin/v1/accounts/{account_id}/entries`: a page of the ledger of an account, newest first, with reason,
//! reference and author of each entry; or the entries of one link.

use std::collections::HashMap;

use axum::response::Response;
use linkledger_core::{
    api_key::AdminScope,
    envelope::RecordedEvent,
    event::{DecodeError, Event, Subject},
    id::{AccountId, EntryId, LinkId},
    shard::Shard,
};
use linkledger_event_store::log::{
    StreamPart, charge_of_link, read_stream_backwards, reversals_of,
};
use linkledger_http::{
    admin_views::EntryView, problem::Problem, route_table, storage::read_in_time,
};
use sqlx::PgPool;
use utoipa::IntoParams;

use super::admin_request::{AdminRequest, unreadable};
use crate::{
    paging::{CURSOR, LIMIT, Page, PageItems, PageRequest},
    parameters::{Parameters, parse_id},
};

const LINK_ID: &str = "link_id";

/// Types of the events that a refund or a revocation can reverse.
const REVERSIBLE: [&str; 2] = ["CreditsCharged", "CreditsGranted"];

/// Body of the answer, with a name of its own in the OpenAPI document.
type EntryPage = Page<EntryView>;

/// Parameters in the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its schema is used")]
struct FilterParameters {
    /// Only the charge of this link of the account, and its refund.
    #[param(example = "lnk_01h455vb4pex5vsknk084sn02q")]
    link_id: Option<String>,
}

/// Events of a page, newest first.
struct EntryEvents {
    /// Events of the account's stream, entries or not.
    events: Vec<RecordedEvent>,
    /// Version up to which the stream was read, if it has more.
    stopped_at: Option<i64>,
    /// Refunds and revocations of the entries among the events.
    reversals: Vec<RecordedEvent>,
}

/// Lists entries in the order of the ledger, newest first.
///
/// # Errors
/// Returns the first problem, in the order of checks of `docs/api.md#order-of-checks`.
#[utoipa::path(
    get,
    path = route_table::ADMIN_ACCOUNT_ENTRIES,
    tag = "credits",
    summary = "List the entries of a ledger",
    description = "A page of the ledger, newest first. A page may be short, even empty, although `has_more` is true: \
                   between the entries are changes of the account and of its keys. With `link_id`, the page has the \
                   charge of the link, and its refund if there is one; also of a deleted link.",
    params(("account_id" = String, Path, description = "Id of the account."), PageRequest, FilterParameters),
    responses(
        (status = 200, description = "A page of entries.", body = EntryPage, headers(("Link")),
         links(("next_page" = (operation_id = "list_entries", description = "With the same filters.",
                               parameters(("cursor" = "$response.body#/next_cursor"))))),
         example = json!({ "items": [EntryView::example()], "next_cursor": null, "has_more": false })),
    ),
    security(("admin_key" = [AdminScope::Read.name()])),
)]
#[tracing::instrument(skip_all)]
pub(super) async fn list_entries(request: AdminRequest) -> Result<Response, Problem> {
    let mut parameters = Parameters::of(&request.uri, &[LIMIT, CURSOR, LINK_ID]);
    let page = PageRequest::take(&mut parameters);
    let link_id: Option<LinkId> = parameters.take(LINK_ID, parse_id);
    parameters.check()?;
    let filters = link_id.map_or_else(String::new, |link_id| format!("{LINK_ID}={link_id}"));
    let list = request.list_of_account(filters);
    let before: Option<i64> = list.start_of(&page)?;
    request.check_accept()?;
    let account_id = request.account().await?.account.account_id;

    let (log, before) = (request.log(), before.unwrap_or(i64::MAX));
    let read = match link_id {
        None => EntryEvents::of_account(log, account_id, before, page.count_max()).await?,
        Some(link_id) => EntryEvents::of_link(log, account_id, link_id, before).await?,
    };
    let items = read.into_items();
    let items =
        items.map_err(|error| unreadable(&Subject::Account(account_id).to_string(), &error))?;
    let place_of = |(version, _): &(i64, EntryView)| *version;
    Ok(list.answer(&page, items, place_of, |(_, entry)| entry))
}

impl EntryEvents {
    /// Reads the newest events of the account's stream before the version `before`, up to `count_max`. As many events
    /// as `count_max` mean that the stream has more.
    ///
    /// # Errors
    /// Returns `storage_unavailable`.
    async fn of_account(
        log: &PgPool,
        account_id: AccountId,
        before: i64,
        count_max: i64,
    ) -> Result<Self, Problem> {
        let (shard, subject) = (Shard::of(account_id), Subject::Account(account_id));
        let mut part = StreamPart::newest(shard, subject, count_max);
        part.before = before;
        let events = read_in_time(|| read_stream_backwards(log, &part)).await?;
        let is_full = i64::try_from(events.len()) == Ok(count_max);
        let last = events.last().filter(|_| is_full);
        Ok(Self {
            stopped_at: last.map(|event| event.version),
            reversals: read_reversals(log, account_id, &events).await?,
            events,
        })
    }

    /// Reads the charge of the link, and its refund, as far as they are before the version `before`.
    ///
    /// # Errors
    /// Returns `link_not_found` if the account has no such link, or `storage_unavailable`.
    async fn of_link(
        log: &PgPool,
        account_id: AccountId,
        link_id: LinkId,
        before: i64,
    ) -> Result<Self, Problem> {
        let charge = read_in_time(|| charge_of_link(log, account_id, link_id)).await?;
        let charge = charge.ok_or_else(Problem::link_not_found)?;
        let reversals = read_reversals(log, account_id, std::slice::from_ref(&charge)).await?;
        let mut events = reversals.clone();
        events.push(charge);
        events.retain(|event| event.version < before);
        Ok(Self {
            events,
            stopped_at: None,
            reversals,
        })
    }

    /// Returns the entries among the events, each with its version.
    ///
    /// # Errors
    /// Returns an error if a later release wrote one of the events.
    fn into_items(self) -> Result<PageItems<(i64, EntryView), i64>, DecodeError> {
        let reversed = reversed_entries(&self.reversals)?;
        let entries = self.events.iter().map(|event| {
            let entry = entry(event)?;
            Ok(entry.map(|entry| {
                let reversed_by = reversed.get(&entry.id).copied();
                (event.version, entry.reversed_by(reversed_by))
            }))
        });
        let entries: Vec<Option<_>> = entries.collect::<Result<_, DecodeError>>()?;
        Ok(PageItems {
            items: entries.into_iter().flatten().collect(),
            stopped_at: self.stopped_at,
        })
    }
}

/// Reads the refunds and revocations of the charges and grants among the events.
async fn read_reversals(
    log: &PgPool,
    account_id: AccountId,
    events: &[RecordedEvent],
) -> Result<Vec<RecordedEvent>, Problem> {
    let reversible = |event: &&RecordedEvent| REVERSIBLE.contains(&event.event_type.as_str());
    let entries: Vec<EntryId> = events.iter().filter(reversible).map(entry_id).collect();
    read_in_time(|| reversals_of(log, account_id, &entries)).await
}

/// Returns the entries that the refunds and revocations name, each with the entry that reverses it.
fn reversed_entries(reversals: &[RecordedEvent]) -> Result<HashMap<EntryId, EntryId>, DecodeError> {
    let mut reversed = HashMap::new();
    for event in reversals {
        if let Event::Credits(credits) = event.decode()?
            && let Some(entry) = credits.reversed_entry()
        {
            reversed.insert(entry, entry_id(event));
        }
    }
    Ok(reversed)
}

/// Returns the entry that an event made; `None` if the event does not concern credits.
fn entry(event: &RecordedEvent) -> Result<Option<EntryView>, DecodeError> {
    Ok(match event.decode()? {
        Event::Credits(credits) => {
            let entry = EntryView::of(entry_id(event), &credits, event.recorded_at);
            Some(entry.by(event.metadata.actor.clone()))
        }
        Event::Link(_)
        | Event::Account(_)
        | Event::ApiKey(_)
        | Event::Webhook(_)
        | Event::Observation(_) => None,
    })
}

fn entry_id(event: &RecordedEvent) -> EntryId {
    EntryId::from_uuid(event.event_id.uuid())
}
