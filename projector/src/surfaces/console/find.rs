//! `/find`: redirects from an id, a slug or a short link to the page of the link or the account.

use axum::{
    extract::State,
    http::Uri,
    response::{IntoResponse as _, Redirect, Response},
};
use linkledger_core::{event::Subject, event_store::slugs, id::LinkId, link::Slug};

use super::{Console, error_page::ErrorPage, parameters::Parameters};

pub(super) async fn find(State(console): State<Console>, uri: Uri) -> Result<Response, ErrorPage> {
    let mut parameters = Parameters::of(&uri, &["q"])?;
    let wanted = parameters.take("q").ok_or_else(|| {
        let detail = "says what to find: the id of a link or of an account, or a slug.";
        ErrorPage::bad_parameter("q", detail)
    })?;
    let subject = match wanted.parse::<Subject>() {
        Ok(subject) => subject,
        Err(_) => Subject::Link(link_of(&console, &wanted).await?),
    };
    let page = match subject {
        Subject::Link(link_id) => format!("/links/{link_id}"),
        Subject::Account(account_id) => format!("/accounts/{account_id}"),
    };
    Ok(Redirect::to(&page).into_response())
}

/// Returns the link of a slug or of a whole short link.
async fn link_of(console: &Console, wanted: &str) -> Result<LinkId, ErrorPage> {
    let path = wanted.split(['?', '#']).next().unwrap_or_default();
    let last = path.rsplit('/').next().unwrap_or_default();
    let slug = Slug::parse_stored(last).map_err(|_| ErrorPage::unfindable(wanted))?;
    let link_id = slugs::find_link(&console.databases.log, &slug).await?;
    link_id
        .ok_or_else(|| ErrorPage::not_found(&format!("No link has the slug `{}`.", slug.as_str())))
}
