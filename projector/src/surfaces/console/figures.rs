//! Numbers, times and ids as the pages show them.

use linkledger_core::{id::AccountId, id::LinkId, timestamp};
use maud::{Markup, html};
use time::OffsetDateTime;

use crate::operations::figures::grouped;

/// Longest address that is shown in full in a list, in characters.
const ADDRESS_SHOWN_MAX: usize = 160;

/// `+1,000` or `−1`: what is added to something.
pub(super) fn change(number: i64) -> String {
    let sign = if number > 0 { "+" } else { "" };
    format!("{sign}{}", grouped(number).replace('-', "−"))
}

/// Events per second, as a whole number where that says enough.
pub(super) fn per_second(rate: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "a rate of events")]
    match rate {
        0.0 => "0".to_owned(),
        ..10.0 => format!("{rate:.1}"),
        _ => grouped(rate.round() as i64),
    }
}

/// An instant, to the millisecond, in UTC.
pub(super) fn instant(at: OffsetDateTime) -> Markup {
    stamp(&timestamp::format(at))
}

/// The same, of its text form.
pub(super) fn stamp(text: &str) -> Markup {
    let shown = text.trim_end_matches('Z').replacen('T', " ", 1);
    html! { time datetime=(text) { (shown) } }
}

/// An account, with the way to its page.
pub(super) fn account(account_id: AccountId) -> Markup {
    html! { a.id href={ "/accounts/" (account_id) } { (account_id) } }
}

/// A link, with the way to its page.
pub(super) fn link(link_id: LinkId) -> Markup {
    html! { a.id href={ "/links/" (link_id) } { (link_id) } }
}

/// An address as text, whole: nobody gets there by a click.
pub(super) fn address(address: &str) -> Markup {
    html! { code.address { (address) } }
}

/// The same in a list, where a long one would hide the others.
pub(super) fn short_address(long: &str) -> Markup {
    let mut shown: String = long.chars().take(ADDRESS_SHOWN_MAX).collect();
    if shown.len() < long.len() {
        shown.push('…');
    }
    address(&shown)
}

/// A sentence in which what stands between backticks is typed.
pub(super) fn sentence(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 0 { (part) } @else { code { (part) } }
        }
    }
}

/// Lines of such sentences, one below the other.
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
    fn a_change_has_its_sign() {
        let texts = [1_000, -1_000, 0].map(change);
        assert_eq!(texts, ["+1,000", "−1,000", "0"]);
    }

    #[test]
    fn a_low_rate_has_a_decimal() {
        let texts = [0.0, 0.26, 9.94, 1_234.5].map(per_second);
        assert_eq!(texts, ["0", "0.3", "9.9", "1,235"]);
    }

    #[test]
    fn what_is_typed_stands_apart_in_a_sentence() {
        let markup = sentence("wait, or `projector resume <x>`").into_string();
        assert_eq!(markup, "wait, or <code>projector resume &lt;x&gt;</code>");
    }
}
