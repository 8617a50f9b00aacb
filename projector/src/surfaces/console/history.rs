//! Common parts of the pages of a link and of an account: id in the address, parameter `before`, table of
//! events.

use std::str::FromStr;

use axum::http::Uri;
use maud::{Markup, html};

use super::{error_page::ErrorPage, parameters::Parameters, wording};
use crate::operations::why::ExplainedEvent;

/// Events of a history on a page.
pub(super) const PAGE_EVENTS: u16 = 50;

/// Parses the id at the end of the address as it was sent: an id has one spelling, without a percent
/// sign. `kind` and `prefix` describe the id in a refusal.
pub(super) fn id_of<Id: FromStr>(uri: &Uri, kind: &str, prefix: &str) -> Result<Id, ErrorPage> {
    let id = uri.path().rsplit('/').next().unwrap_or_default();
    let parsed = id.parse();
    parsed.map_err(|_| ErrorPage::bad_id(id, kind, prefix))
}

/// Takes the parameter `before`: all events of the page have lower versions.
pub(super) fn take_before(
    parameters: &mut Parameters,
    kind: &str,
) -> Result<Option<i64>, ErrorPage> {
    parameters.take_parsed(
        "before",
        |text| text.parse().ok().filter(|version| *version > 0),
        &format!("is not a version of {kind}: a number from 1."),
    )
}

/// Shows the events of a stream, newest first, with links to the newest and to older events. `page` is
/// the address of the first page; all events of this page have versions below `before`.
pub(super) fn table(
    caption: &str,
    page: &str,
    before: Option<i64>,
    newest_first: &[ExplainedEvent],
) -> Markup {
    let events = newest_first.iter().map(|it| &it.recorded);
    let older = newest_first
        .last()
        .map(|it| it.recorded.version)
        .filter(|version| *version > 1);
    html! {
        @if !newest_first.is_empty() { (wording::table(caption, events, true)) }
        nav.paging aria-label="Paging" {
            @if before.is_some() { a href=(page) { "⇤ Newest" } }
            @if let Some(version) = older {
                a rel="next" href={ (page) "?before=" (version) } { "Older →" }
            }
        }
    }
}
