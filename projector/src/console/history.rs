//! Common parts of the pages of a link and of an account: id in the address, parameter `before`, table of
//! events.

use std::str::FromStr;

use anyhow::Context as _;
use axum::http::Uri;
use linkledger_core::{envelope::RecordedEvent, event::Subject, id::AccountId, shard::Shard};
use linkledger_event_store::log::{self, StreamPart};
use maud::{Markup, html};
use sqlx::PgPool;

use super::{error_page::ErrorPage, parameters::Parameters, wording};

/// Events of a history on a page.
const PAGE_EVENTS: i64 = 50;

/// Reads the events of a page, newest first: those with versions below `before`.
pub(super) async fn read(
    log: &PgPool,
    account_id: AccountId,
    subject: Subject,
    before: Option<i64>,
) -> anyhow::Result<Vec<RecordedEvent>> {
    let part = StreamPart {
        before: before.unwrap_or(i64::MAX),
        ..StreamPart::newest(Shard::of(account_id), subject, PAGE_EVENTS)
    };
    let events = log::read_stream_backwards(log, &part).await;
    events.context("cannot read the log")
}

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
    newest_first: &[RecordedEvent],
) -> Markup {
    let older = newest_first
        .last()
        .map(|it| it.version)
        .filter(|version| *version > 1);
    html! {
        @if !newest_first.is_empty() { (wording::table(caption, newest_first, true)) }
        nav.paging aria-label="Paging" {
            @if before.is_some() { a href=(page) { "⇤ Newest" } }
            @if let Some(version) = older {
                a rel="next" href={ (page) "?before=" (version) } { "Older →" }
            }
        }
    }
}
