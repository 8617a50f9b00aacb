//! Table of parked accounts.

use maud::{Markup, html};

use crate::{
    console::figures::{account, instant, sentence},
    operations::figures::grouped,
    pipeline::parking::{Parking, listing::ListedParking},
};

/// Shows the parked accounts with the reason and the number of waiting events.
pub(in crate::console) fn table(parkings: &[ListedParking]) -> Markup {
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

fn row(it: &ListedParking) -> Markup {
    let Parking {
        account: parked,
        cause,
    } = &it.parking;
    html! {
        tr {
            td data-label="Account" { (account(parked.account_id)) }
            td data-label="Projection" { (parked.projection) }
            td.when data-label="Since" { (instant(it.parked_at)) }
            td.number data-label="Waiting" { (grouped(it.waiting)) }
            td data-label="For the event" { div {
                (cause.event_type) " at " (parked.shard) "/" (cause.position)
            } }
            td.what data-label="Why" { div { (sentence(&cause.poison.detail)) } }
        }
    }
}
