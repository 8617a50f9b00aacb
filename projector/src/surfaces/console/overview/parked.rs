//! Accounts whose events wait.

use maud::{Markup, html};

use crate::{
    operations::figures::grouped,
    pipeline::parking::listing::ListedParking,
    surfaces::console::figures::{account, instant, sentence},
};

/// Who is parked, where, since when and why.
pub(in crate::surfaces::console) fn table(parkings: &[ListedParking]) -> Markup {
    html! {
        table {
            caption.visually-hidden { "Parked accounts" }
            thead { tr {
                th scope="col" { "Account" } th scope="col" { "Projection" }
                th scope="col" { "Since" } th.number scope="col" { "Waiting" }
                th scope="col" { "For the event" } th scope="col" { "Why" }
            } }
            tbody { @for it in parkings { (row(it)) } }
        }
    }
}

fn row(listed: &ListedParking) -> Markup {
    let (parked, cause) = (listed.parking.account, &listed.parking.cause);
    html! {
        tr {
            td data-label="Account" { (account(parked.account_id)) }
            td data-label="Projection" { (parked.projection.name()) }
            td.when data-label="Since" { (instant(listed.parked_at)) }
            td.number data-label="Waiting" { (grouped(listed.waiting)) }
            td data-label="For the event" { div {
                (cause.event_type) " at " (parked.shard) "/" (cause.position)
            } }
            td.what data-label="Why" { div { (sentence(&cause.poison.detail)) } }
        }
    }
}
