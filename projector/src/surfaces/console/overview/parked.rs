//! Table of parked accounts.

use maud::{Markup, html};

use crate::{
    operations::{figures::grouped, parked::ParkedReport},
    surfaces::console::figures::{account, sentence, stamp},
};

/// Shows the parked accounts with the reason and the number of waiting events.
pub(in crate::surfaces::console) fn table(parkings: &[ParkedReport]) -> Markup {
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

fn row(it: &ParkedReport) -> Markup {
    html! {
        tr {
            td data-label="Account" { (account(it.account_id)) }
            td data-label="Projection" { (it.projection) }
            td.when data-label="Since" { (stamp(&it.parked_at)) }
            td.number data-label="Waiting" { (grouped(it.waiting)) }
            td data-label="For the event" { div {
                (it.event_type) " at " (it.shard) "/" (it.position)
            } }
            td.what data-label="Why" { div { (sentence(&it.detail)) } }
        }
    }
}
