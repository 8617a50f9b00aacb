//! `/accounts/{id}`: what an account has, whether it is in service or parked, and its ledger.

use axum::{extract::State, http::Uri, response::Response};
use linkledger_core::{
    account::AccountStatus,
    event::Subject,
    event_store::{
        accounts::{self, StoredAccount},
        log::{self, StreamPart},
    },
    id::AccountId,
    shard::Shard,
};
use maud::{Markup, html};

use super::{
    Console,
    figures::instant,
    layout::{self, Nav},
    overview::parked,
    parameters::Parameters,
    read_tables,
    refusal::Refusal,
    wording,
};
use crate::{
    operations::figures::grouped,
    pipeline::parking::listing::{self, ListedParking},
};

/// Entries of the ledger on a page.
const PAGE_ENTRIES: i64 = 50;
/// More than there are projections.
const PARKINGS_MAX: i64 = 10;

pub(super) async fn page(State(console): State<Console>, uri: Uri) -> Result<Response, Refusal> {
    let account_id = account_of(&uri)?;
    let mut parameters = Parameters::of(&uri, &["before"])?;
    let before = parameters.take_parsed(
        "before",
        |text| text.parse().ok().filter(|version| *version > 0),
        "is not the version of an account: a number from 1.",
    )?;
    let pool = &console.pool;
    let account = accounts::find(pool, account_id).await?;
    let account =
        account.ok_or_else(|| Refusal::not_found(&format!("There is no account {account_id}.")))?;
    let parkings = listing::list(pool, Some(account_id), PARKINGS_MAX).await?;
    let part = StreamPart {
        before: before.unwrap_or(i64::MAX),
        ..StreamPart::newest(
            Shard::of(account_id),
            Subject::Account(account_id),
            PAGE_ENTRIES,
        )
    };
    let ledger = log::read_stream_backwards(pool, &part).await?;
    let older = ledger.last().filter(|last| last.version > 1);
    let content = html! {
        h1 { "Account " bdi { (account.name) } }
        (facts(account_id, &account))
        @if !parkings.is_empty() { (is_parked(&parkings)) }
        (read_tables::section(pool, Subject::Account(account_id)).await)
        section {
            h2 { "Ledger" }
            p.summary {
                "As the log has it, the newest first; suspensions stand there too. "
                a href={ "/events?account=" (account_id) } { "Everything of this account" }
                ", its links included."
            }
            @if ledger.is_empty() {
                p { "Nothing has happened to this account yet." }
            } @else {
                (wording::table("Ledger, the newest entry first", &ledger, true))
            }
            nav.paging aria-label="Paging" {
                @if before.is_some() { a href={ "/accounts/" (account_id) } { "⇤ Newest" } }
                @if let Some(last) = older {
                    a rel="next" href={ "/accounts/" (account_id) "?before=" (last.version) } {
                        "Older →"
                    }
                }
            }
        }
    };
    Ok(layout::answer(
        &account_id.to_string(),
        Nav::Elsewhere,
        &content,
    ))
}

/// From the address as it was sent: an id has one spelling, and a percent sign is in none.
fn account_of(uri: &Uri) -> Result<AccountId, Refusal> {
    let id = uri.path().rsplit('/').next().unwrap_or_default();
    let parsed = id.parse();
    parsed.map_err(|_| Refusal::bad_id(id, "an account", AccountId::PREFIX))
}

fn facts(account_id: AccountId, account: &StoredAccount) -> Markup {
    html! {
        dl.facts {
            div { dt { "Id" } dd { code { (account_id) } } }
            div { dt { "State" } dd { (state(account.status)) } }
            div { dt { "Balance" } dd { b { (grouped(account.credits.balance)) } " credits" } }
            div { dt { "Events of its own" } dd { (grouped(account.credits.version)) } }
            div { dt { "Shard" } dd { (Shard::of(account_id)) } }
            div { dt { "Created" } dd { (instant(account.created_at)) } }
        }
    }
}

fn state(status: AccountStatus) -> Markup {
    match status {
        AccountStatus::Active => html! { span.good { "✓ active" } },
        AccountStatus::Suspended {
            stop_redirects: false,
        } => html! { span.warn { "✗ suspended; its links go on" } },
        AccountStatus::Suspended {
            stop_redirects: true,
        } => html! { span.bad { "✗ suspended, its links too" } },
    }
}

fn is_parked(parkings: &[ListedParking]) -> Markup {
    html! {
        section.notice {
            h2 { "⚠ Parked" }
            p {
                "An event could not be applied: the read tables lack it and what has come after it, \
                 and reads of what they lack are answered 503."
            }
            (parked::table(parkings))
        }
    }
}
