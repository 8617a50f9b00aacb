//! Events and destinations in words, and tables of events.

use linkledger_core::{
    account::AccountEvent,
    credits::CreditsEvent,
    envelope::RecordedEvent,
    event::Event,
    id::LinkId,
    link::{DetailChanges, LinkEvent, ValueChange},
};
use maud::{Markup, html};

use super::figures::{account, change, instant, link, sentence, short_address};
use crate::operations::figures::grouped;

/// Describes an event, or says that this release cannot read the event.
pub(super) fn what_happened(event: &RecordedEvent) -> Markup {
    match event.decode() {
        Ok(Event::Link(event)) => of_link(&event),
        Ok(Event::Account(event)) => of_account(&event),
        Ok(Event::Credits(event)) => of_credits(&event),
        Err(error) => html! {
            span.bad { "⚠ cannot be read by this release: " (sentence(&error.to_string())) }
        },
    }
}

fn of_link(event: &LinkEvent) -> Markup {
    match event {
        LinkEvent::Created(created) => html! {
            b { (created.slug) } " → " (short_address(&created.destination_url))
        },
        LinkEvent::DestinationChanged(changed) => html! {
            "→ " (short_address(&changed.destination_url))
            br;
            span.was { "was " (short_address(&changed.previous_destination_url)) }
        },
        LinkEvent::DetailsChanged(changed) => details(&changed.changes),
        LinkEvent::Deleted(deleted) => html! { b { (deleted.slug) } " is gone for ever" },
        LinkEvent::Disabled(disabled) => {
            html! { "out of service: " (quoted_reason(&disabled.reason)) }
        }
        LinkEvent::Enabled(enabled) => {
            html! {
                @match enabled.disabled_by {
                    Some(role) => { "still disabled by the " (role) ": " }
                    None => { "back in service: " }
                }
                (quoted_reason(&enabled.reason))
            }
        }
    }
}

/// Describes each changed detail, with its value before. `bdi` keeps right-to-left text from
/// reordering what follows.
fn details(changes: &DetailChanges) -> Markup {
    let DetailChanges {
        title,
        external_id,
        tags,
        expires_at,
        expired_url,
    } = changes;
    let rows = [
        title.as_ref().map(|it| ("title", texts(it, Clone::clone))),
        external_id
            .as_ref()
            .map(|it| ("external id", texts(it, Clone::clone))),
        tags.as_ref()
            .map(|it| ("tags", texts(it, |tags| tags.as_slice().join(", ")))),
        expires_at
            .as_ref()
            .map(|it| ("expires at", texts(it, ToString::to_string))),
        expired_url
            .as_ref()
            .map(|it| ("expired URL", texts(it, |url| url.as_str().to_owned()))),
    ];
    html! {
        @for (name, (from, to)) in rows.into_iter().flatten() {
            div {
                (name) " " bdi { (to.as_deref().unwrap_or("–")) } " "
                span.was { "was " bdi { (from.as_deref().unwrap_or("–")) } }
            }
        }
    }
}

/// Returns the values of a change as text.
fn texts<T>(
    change: &ValueChange<T>,
    text: impl Fn(&T) -> String,
) -> (Option<String>, Option<String>) {
    (
        change.from.as_ref().map(&text),
        change.to.as_ref().map(&text),
    )
}

fn of_account(event: &AccountEvent) -> Markup {
    match event {
        AccountEvent::Suspended(suspended) => html! {
            @if suspended.stop_redirects { "its links too: " } @else { "its links go on: " }
            (quoted_reason(&suspended.reason))
        },
        AccountEvent::Resumed(resumed) => quoted_reason(&resumed.reason),
    }
}

fn of_credits(event: &CreditsEvent) -> Markup {
    let balance = event.balance_after();
    match event {
        CreditsEvent::Granted(granted) => html! {
            b { (change(granted.amount)) } ", balance " (grouped(balance)) ": " (quoted_reason(&granted.reason))
        },
        CreditsEvent::Adjusted(adjusted) => html! {
            b { (change(adjusted.amount)) } ", balance " (grouped(balance)) ": "
            (quoted_reason(&adjusted.reason))
        },
        CreditsEvent::Charged(charged) => html! {
            b { (change(-charged.amount)) } ", balance " (grouped(balance)) " for "
            (link(charged.link_id))
        },
    }
}

/// Quotes an operator's reason; `bdi` keeps right-to-left text from reordering what follows.
fn quoted_reason(reason: &str) -> Markup {
    html! { "“" bdi { (reason) } "”" }
}

/// Shows the subject of the event: the words "the account", or the id of a link, linked to the page of the link.
pub(super) fn subject(event: &RecordedEvent) -> Markup {
    if event.stream_id == event.account_id.uuid() {
        html! { "the account" }
    } else {
        link(LinkId::from_uuid(event.stream_id))
    }
}

/// Shows a table of events, with the columns for one stream or for several.
pub(super) fn table<'a>(
    caption: &str,
    events: impl IntoIterator<Item = &'a RecordedEvent>,
    of_one_stream: bool,
) -> Markup {
    html! {
        table.events {
            caption.visually-hidden { (caption) }
            thead { tr {
                @if of_one_stream { th.number scope="col" { "Version" } }
                th scope="col" { "Recorded" }
                th scope="col" { "Event" }
                th scope="col" { "Details" }
                @if !of_one_stream { th scope="col" { "Subject" } }
                th scope="col" { "Shard/position" }
            } }
            tbody {
                @for event in events { (row(event, of_one_stream)) }
            }
        }
    }
}

fn row(event: &RecordedEvent, of_one_stream: bool) -> Markup {
    html! {
        tr {
            @if of_one_stream { td.number data-label="Version" { (event.version) } }
            td.when data-label="Recorded" { (instant(event.recorded_at)) }
            td data-label="Event" { span.type { (event.event_type) } }
            td.what data-label="Details" { div { (what_happened(event)) (stored(event)) } }
            @if !of_one_stream {
                td.of data-label="Subject" { div {
                    (subject(event)) br; (account(event.account_id))
                } }
            }
            td.place data-label="Shard/position" { (event.shard) "/" (event.position) }
        }
    }
}

/// Shows the event as stored.
fn stored(event: &RecordedEvent) -> Markup {
    let metadata = serde_json::to_string(&event.metadata).unwrap_or_default();
    html! {
        details {
            summary { "as stored" }
            dl {
                dt { "Event id" } dd { code { (event.event_id) } }
                dt { "Schema" } dd { (event.event_type) ", version " (event.schema_version) }
                dt { "Version in its stream" } dd { (event.version) }
                dt { "Payload" } dd { pre { (event.payload) } }
                dt { "Metadata" } dd { pre { (metadata) } }
            }
        }
    }
}
