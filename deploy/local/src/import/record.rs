//! A record of a file as another product, or a person, wrote it. Formats only read records; [`rule`](super::rule)
//! decides about them.

use std::{borrow::Cow, fmt};

use linkledger_core::{
    link::{Slug, printed_slug},
    printable::printable,
};

use super::{blank::trimmed, formats::spelling, old_address};

/// Longest part of a text that a report or a reason repeats, in characters.
const SHOWN_LENGTH_MAX: usize = 200;
/// Part of the names of members and columns that protect a link: an open link is worse than a refused one, and a
/// password in a report too.
const PASSWORD: &str = "password";
/// Other such names, in one spelling.
const SECRETS: [&str; 2] = ["secret", "secretkey"];
/// Names of members and columns of links that are out of service, in one spelling.
const DISABLED: [&str; 3] = ["disabled", "isdisabled", "disabledat"];
/// Begin of the codes of refusals that another slug mends.
pub(super) const SLUG_CODES: &str = "slug_";
/// Codes of refusals of records whose members are not sure.
const RECORD_INVALID: &str = "record_invalid";
pub(super) const ENCODING_INVALID: &str = "encoding_invalid";
const LINK_DISABLED: &str = "link_disabled";
/// Codes of refusals that neither another slug nor another destination mends: here the link would be more public than
/// at its source, or a row of the report has only a part of the record.
const LASTING_CODES: [&str; 5] = [
    "password_not_supported",
    "link_banned",
    LINK_DISABLED,
    RECORD_INVALID,
    ENCODING_INVALID,
];

/// A record, before any rule is applied.
#[derive(Debug, Default)]
pub(super) struct RawRecord {
    /// Number of the line, from 1, or of the record in a JSON document.
    pub(super) number: usize,
    /// Slug, where the source writes the slug alone; goes before the slug in the old address.
    pub(super) slug: Option<String>,
    /// Old short address.
    pub(super) short_url: Option<String>,
    /// Old address beside which a slug can differ on purpose; `short_url` is then absent.
    pub(super) moved_from: Option<String>,
    /// True if each record of the source has an old address.
    pub(super) needs_slug: bool,
    pub(super) destination_url: String,
    pub(super) title: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) external_id: Option<String>,
    pub(super) expires_at: Option<String>,
    pub(super) expired_url: Option<String>,
    pub(super) created_at: Option<String>,
    /// True if this service wrote the record: a title that it has accepted stays as it is.
    pub(super) is_own: bool,
    /// True if addresses and title of the source are written as HTML (`&amp;`).
    pub(super) is_html: bool,
    /// Differences that the format itself made, and members that have no counterpart.
    pub(super) changes: Vec<Change>,
    /// Reason of the format to refuse the record.
    pub(super) refusal: Option<Refusal>,
}

/// Reason for which a record is not sent to the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: &'static str,
    pub(super) detail: String,
}

/// Difference between a record and the link that is made of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Became {
        what: &'static str,
        old: String,
        new: String,
    },
    Dropped {
        what: &'static str,
        old: String,
        why: &'static str,
    },
    /// Member without a counterpart here.
    LeftBehind {
        what: Cow<'static, str>,
        value: String,
    },
}

impl RawRecord {
    /// Returns a record that is no link.
    pub(super) fn broken(number: usize, reason: impl fmt::Display) -> Self {
        Self {
            number,
            refusal: Some(Refusal::broken(reason)),
            ..Self::default()
        }
    }

    /// Returns the old address as people know the address: whole, or else the slug.
    pub(super) fn old_address(&self) -> Option<&str> {
        let address = self.moved_from.as_deref().or(self.short_url.as_deref());
        let address = address.or(self.slug.as_deref());
        address.map(trimmed).filter(|address| !address.is_empty())
    }

    /// Returns the slug whose link visitors of the old address reach here.
    pub(super) fn reached_slug(&self) -> Option<Slug> {
        let address = self.moved_from.as_deref().or(self.short_url.as_deref());
        match address.filter(|address| !trimmed(address).is_empty()) {
            Some(address) => old_address::reached_slug(address),
            None => printed_slug::parse(trimmed(self.slug.as_deref()?)),
        }
    }

    /// Notes a member without a counterpart. Members with one name are one, since sources write a number in several ways.
    /// A password refuses the record, and is never shown; so does a mark that the link is disabled.
    pub(super) fn leave_behind(&mut self, what: impl Into<Cow<'static, str>>, value: &str) {
        let what = what.into();
        let name = spelling(&what);
        if name.contains(PASSWORD) || SECRETS.contains(&name.as_str()) {
            self.refusal.get_or_insert_with(Refusal::password);
            return;
        }
        if DISABLED.contains(&name.as_str()) {
            self.refusal.get_or_insert_with(Refusal::disabled);
        }
        let is_noted = |change: &Change| matches!(change, Change::LeftBehind { what: noted, .. } if *noted == what);
        if !self.changes.iter().any(is_noted) {
            let value = shown(value);
            self.changes.push(Change::LeftBehind { what, value });
        }
    }
}

impl Refusal {
    pub(super) fn new(code: &'static str, detail: impl fmt::Display) -> Self {
        let detail = detail.to_string();
        Self { code, detail }
    }

    pub(super) fn broken(reason: impl fmt::Display) -> Self {
        Self::new(RECORD_INVALID, reason)
    }

    pub(super) fn password() -> Self {
        let detail = "The link has a password, which this service cannot ask for.";
        Self::new("password_not_supported", detail)
    }

    pub(super) fn disabled() -> Self {
        let detail = "The link is disabled, and an import creates only links that redirect.";
        Self::new(LINK_DISABLED, detail)
    }

    /// Returns true if another link can have the slug of the record: the slug is sure, and the record is not that of a
    /// link here.
    pub(super) fn frees_slug(&self, is_own: bool) -> bool {
        match self.code {
            RECORD_INVALID | ENCODING_INVALID => false,
            LINK_DISABLED => !is_own,
            _ => true,
        }
    }

    /// Returns the refusal of a row of a report with this code, unless a mended row can be imported.
    pub(super) fn lasting(code: &str) -> Option<Self> {
        let code = LASTING_CODES.into_iter().find(|lasting| *lasting == code)?;
        let detail = "The record was refused for what the report can't show: mend the record in its own file, or \
                      empty the cell \"code\" to import the row as it is.";
        Some(Self::new(code, detail))
    }

    pub(super) fn no_slug() -> Self {
        Self::new("slug_missing", "The old address is missing or has no slug.")
    }
}

impl Change {
    pub(super) fn became(what: &'static str, old: &str, new: &str) -> Self {
        let (old, new) = (shown(old), shown(new));
        Self::Became { what, old, new }
    }

    pub(super) fn dropped(what: &'static str, old: &str, why: &'static str) -> Self {
        let old = shown(old);
        Self::Dropped { what, old, why }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Became { what, old, new } => write!(f, "{what} \"{old}\" became \"{new}\""),
            Self::Dropped { what, old, why } => write!(f, "{what} \"{old}\" was dropped: {why}"),
            Self::LeftBehind { what, value } if value.is_empty() => {
                write!(f, "not carried over: {what}")
            }
            Self::LeftBehind { what, value } => write!(f, "not carried over: {what} {value}"),
        }
    }
}

/// Returns a text for a report: printable, on one line, of bounded length.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_LENGTH_MAX) {
        None => printable(text).into_owned(),
        Some((end, _)) => format!("{}…", printable(&text[..end])),
    }
}

/// Returns true if the text is a slug that a new link can have.
pub(super) fn is_slug(text: &str) -> bool {
    Slug::parse(text).is_ok()
}
