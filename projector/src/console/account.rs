//! `/accounts/{id}`: state, balance and ledger of an account.

use axum::{extract::State, http::Uri, response::Response};
use linkledger_core::{account::AccountStatus, event::Subject, id::AccountId, shard::Shard};
use linkledger_event_store::accounts::{self, StoredAccount};
use maud::{Markup, html};

use super::{
    Console,
    error_page::ErrorPage,
    figures::instant,
    history,
    layout::{self, Nav},
    overview,
    parameters::Parameters,
};
use crate::{
    operations::{
        figures::grouped,
        parked::{self, PARKINGS_OF_ACCOUNT_MAX},
        verify::subject::UnknownSubject,
    },
    pipeline::parking::listing::ListedParking,
};

pub(super) async fn page(State(console): State<Console>, uri: Uri) -> Result<Response, ErrorPage> {
    let account_id: AccountId = history::id_of(&uri, "an account", AccountId::PREFIX)?;
    let mut parameters = Parameters::of(&uri, &["before"])?;
    let before = history::take_before(&mut parameters, "an account")?;
    let log = &console.databases.log;
    let account = accounts::find(log, account_id).await?;
    let account = account.ok_or(UnknownSubject::Account(account_id))?;
    let events = history::read(log, account_id, Subject::Account(account_id), before).await?;
    let read = &console.databases.read;
    let parkings = parked::list(read, Some(account_id), PARKINGS_OF_ACCOUNT_MAX).await?;
    let page = format!("/accounts/{account_id}");
    let content = html! {
        h1 { "Account " bdi { (account.name) } }
        (facts(account_id, &account))
        @if !parkings.is_empty() { (is_parked(&parkings)) }
        section {
            h2 { "Ledger" }
            p.summary {
                "As the log has it, the newest first; suspensions stand there too. "
                a href={ "/events?account=" (account_id) } { "Everything of this account" }
                ", its links included."
            }
            @if events.is_empty() {
                p { "Nothing has happened to this account yet." }
            }
            (history::table("Ledger, the newest entry first", &page, before, &events))
        }
    };
    Ok(layout::answer(
        &account_id.to_string(),
        Nav::Elsewhere,
        &content,
    ))
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

pub(super) fn state(status: AccountStatus) -> Markup {
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
            (overview::parked::table(parkings))
        }
    }
}
