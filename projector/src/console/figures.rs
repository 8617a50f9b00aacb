//! Numbers, times and ids, as the pages show them.

use linkledger_core::{id::AccountId, id::LinkId, timestamp};
use maud::{Markup, html};
use time::OffsetDateTime;

use crate::operations::figures::grouped;

/// Longest address that is shown in full in a list, in characters.
const ADDRESS_SHOWN_MAX: usize = 160;

/// Formats a change: `+1,000` or `−1`.
pub(super) fn change(number: i64) -> String {
    let sign = if number > 0 { "+" } else { "" };
    format!("{sign}{}", grouped(number).replace('-', "−"))
}

/// Shows an instant in UTC, to the millisecond.
pub(super) fn instant(at: OffsetDateTime) -> Markup {
    let text = timestamp::format(at);
    let shown = text.trim_end_matches('Z').replacen('T', " ", 1);
    html! { time datetime=(text) { (shown) } }
}

/// Shows an account with a link to its page.
pub(super) fn account(account_id: AccountId) -> Markup {
    html! { a.id href={ "/accounts/" (account_id) } { (account_id) } }
}

/// Shows a link with a link to its page.
pub(super) fn link(link_id: LinkId) -> Markup {
    html! { a.id href={ "/links/" (link_id) } { (link_id) } }
}

/// Shows an address as plain text that cannot be clicked.
pub(super) fn address(address: &str) -> Markup {
    html! { code.address { (address) } }
}

/// Shows an address as plain text, cut if long.
pub(super) fn short_address(long: &str) -> Markup {
    address(&cut(long, ADDRESS_SHOWN_MAX))
}

/// Returns a text, cut after some characters if long.
pub(super) fn cut(long: &str, characters_max: usize) -> String {
    let mut shown: String = long.chars().take(characters_max).collect();
    if shown.len() < long.len() {
        shown.push('…');
    }
    shown
}

/// Shows a sentence with the parts between backticks as code.
pub(super) fn sentence(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 0 { (part) } @else { code { (part) } }
        }
    }
}

/// Shows sentences, one on a line.
pub(super) fn lines(text: &str) -> Markup {
    html! {
        @for (index, line) in text.lines().enumerate() {
            @if index > 0 { br; }
            (sentence(line))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_has_a_sign() {
        let texts = [1_000, -1_000, 0].map(change);
        assert_eq!(texts, ["+1,000", "−1,000", "0"]);
    }

    #[test]
    fn backticks_become_code() {
        let markup = sentence("wait, or `projector resume <x>`").into_string();
        assert_eq!(markup, "wait, or <code>projector resume &lt;x&gt;</code>");
    }
}
