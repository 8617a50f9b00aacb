//! `/find`: redirects from an id, a slug, a short link or the name of an account to the page of the link or the
//! account; shows what was found if that is more than one.

use axum::{
    extract::State,
    http::Uri,
    response::{IntoResponse as _, Redirect, Response},
};
use linkledger_core::{
    event::Subject,
    id::{AccountId, LinkId},
    link::LinkName,
};
use linkledger_event_store::{
    accounts::{self, AccountFilter, StoredAccount},
    names,
};
use linkledger_service::operator::parse_text;
use maud::{Markup, html};

use super::{
    Console, account,
    error_page::ErrorPage,
    figures,
    layout::{self, Nav},
    parameters::Parameters,
};
use crate::operations::figures::grouped;

/// Accounts on a page of results.
const ACCOUNTS_SHOWN_MAX: usize = 50;

pub(super) async fn find(State(console): State<Console>, uri: Uri) -> Result<Response, ErrorPage> {
    let mut parameters = Parameters::of(&uri, &["q", "after"])?;
    let wanted = parameters.take("q").ok_or_else(|| {
        let detail = "says what to find: the id of a link or of an account, a slug, or the name of an account.";
        ErrorPage::bad_parameter("q", detail)
    })?;
    let after = parameters.take_parsed(
        "after",
        |text| text.parse::<AccountId>().ok(),
        "is not the id of an account.",
    )?;
    if let Ok(subject) = wanted.parse() {
        return Ok(page_of(subject));
    }
    let wanted = parse_text(&wanted).map_err(|_| ErrorPage::unfindable(&wanted))?;
    let log = &console.databases.log;
    let link = match wanted.parse::<LinkName>() {
        Ok(name) if after.is_none() => names::find_link(log, &name).await?,
        _ => None,
    };
    let filter = AccountFilter {
        name: Some(&wanted),
        after,
        // One account more tells if there is a next page.
        limit: i64::try_from(ACCOUNTS_SHOWN_MAX + 1).unwrap_or(i64::MAX),
    };
    let accounts = accounts::list(log, filter).await?;
    match (link, accounts.as_slice()) {
        (None, []) => Err(ErrorPage::nothing_found(&wanted)),
        (Some(link_id), []) => Ok(page_of(Subject::Link(link_id))),
        (None, [(account_id, _)]) if after.is_none() => Ok(page_of(Subject::Account(*account_id))),
        (link, accounts) => Ok(results(&wanted, link, accounts)),
    }
}

fn page_of(subject: Subject) -> Response {
    let page = match subject {
        Subject::Link(link_id) => format!("/links/{link_id}"),
        Subject::Account(account_id) => format!("/accounts/{account_id}"),
    };
    Redirect::to(&page).into_response()
}

fn results(
    wanted: &str,
    link: Option<LinkId>,
    accounts: &[(AccountId, StoredAccount)],
) -> Response {
    let (shown, more) = accounts.split_at(accounts.len().min(ACCOUNTS_SHOWN_MAX));
    let next = shown.last().filter(|_| !more.is_empty());
    let content = html! {
        h1 { "Found by " bdi { (figures::cut(wanted, 80)) } }
        @if let Some(link_id) = link {
            section {
                h2 { "Link with this slug" }
                p { (figures::link(link_id)) }
            }
        }
        section {
            h2 { "Accounts with this text in their name" }
            table {
                caption.visually-hidden { "Accounts" }
                thead { tr {
                    th scope="col" { "Account" } th scope="col" { "Name" }
                    th scope="col" { "State" } th.number scope="col" { "Balance" }
                } }
                tbody { @for (account_id, account) in shown { (row(*account_id, account)) } }
            }
            @if let Some((account_id, _)) = next {
                nav.paging aria-label="Paging" {
                    a rel="next" href={ "/find?q=" (encoded(wanted)) "&after=" (account_id) } { "More →" }
                }
            }
        }
    };
    layout::answer("Found", Nav::Elsewhere, &content)
}

fn row(account_id: AccountId, account: &StoredAccount) -> Markup {
    html! {
        tr {
            td data-label="Account" { (figures::account(account_id)) }
            td.what data-label="Name" { div { bdi { (account.name) } } }
            td data-label="State" { (account::state(account.status)) }
            td.number data-label="Balance" { (grouped(account.credits.balance)) }
        }
    }
}

/// Returns the text as the value of a query parameter.
fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
