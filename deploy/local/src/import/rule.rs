//! The rule of all imports: no address is lost or moved in silence.
//!
//! A record becomes a link with the very slug of the record, or a refusal that names the old address. Labels are
//! fitted or dropped, and every difference is a [`Change`] of the report.

use std::collections::{HashMap, HashSet};

use linkledger_core::link::details::parse_title;

use super::{
    blank::{loses_invisible, trimmed},
    destination, expiry,
    formats::{Repeat, SourceLink},
    labels,
    link::{ImportedLink, LinkDetails, slug_of_export},
    old_address,
    record::{Change, ENCODING_INVALID, RawRecord, Refusal, shown},
};

/// Name of the creation date in reports.
pub(super) const CREATION_DATE: &str = "creation date";

/// Slugs and external ids of earlier records of the file.
#[derive(Debug, Default)]
pub(super) struct RuleState {
    /// Record that has a slug, by the slug in lower case.
    slugs: HashMap<String, Taken>,
    external_ids: HashSet<String>,
    /// Number of decided records.
    decided: usize,
    /// True if U+FFFD stands in the text for bytes that are no UTF-8.
    has_replaced_bytes: bool,
    /// Word for a numbered part of the file.
    unit: &'static str,
}

/// The record that has a slug.
#[derive(Debug)]
struct Taken {
    index: usize,
    number: usize,
    address: String,
    destination_url: String,
}

impl RuleState {
    pub(super) fn new(unit: &'static str, has_replaced_bytes: bool) -> Self {
        Self {
            has_replaced_bytes,
            unit,
            ..Self::default()
        }
    }

    /// Turns a record into a link that can be sent, or that is refused.
    pub(super) fn decide(&mut self, mut record: RawRecord) -> SourceLink {
        let mut changes = std::mem::take(&mut record.changes);
        // A password in an address is for nobody's screen.
        let slug = record.slug.as_mut().filter(|slug| slug.contains('/'));
        let addresses = [record.short_url.as_mut(), record.moved_from.as_mut(), slug];
        for address in addresses.into_iter().flatten() {
            *address = old_address::without_user(address);
        }
        let old_address = record.old_address().map(ToOwned::to_owned);
        let given = record.destination_url.as_str();
        let destination_url = fitted_address("destination", given, record.is_html, &mut changes);
        let mut refusal = record.refusal.take().or_else(|| self.unreadable(&record));
        if refusal.is_none() && destination_url.is_empty() {
            refusal = Some(Refusal::new("required", "The record has no destination."));
        }
        let slug = keep(slug_of(&record, &mut changes), &mut refusal);
        let expires_at = record.expires_at.as_deref().unwrap_or_default();
        let expires_at = keep(expiry::fitted(expires_at, &mut changes), &mut refusal);
        let taken = slug.as_deref().filter(|_| refusal.is_none());
        let repeat = taken.and_then(|slug| self.take(slug, &record, &destination_url));
        self.decided += 1;
        let frees_slug = refusal
            .as_ref()
            .is_none_or(|refusal| refusal.frees_slug(record.is_own));
        let as_written = refusal.as_ref().map(|_| as_written(&record));
        let given_id = record.external_id.as_deref().filter(|_| refusal.is_none());
        let expired_url = expired_url(&record, expires_at.is_some(), &mut changes);
        let details = LinkDetails {
            title: record.title.as_deref().and_then(|title| {
                let is_kept = record.is_own && parse_title(title).is_ok();
                if is_kept {
                    Some(title.to_owned())
                } else {
                    labels::title(title, record.is_html, &mut changes)
                }
            }),
            tags: labels::tags(&record.tags, &mut changes),
            external_id: given_id
                .and_then(|id| labels::external_id(id, &mut self.external_ids, &mut changes)),
            expires_at,
            expired_url,
        };
        if let Some(created_at) = record.created_at.as_deref().map(shown) {
            changes.push(Change::LeftBehind {
                what: CREATION_DATE.into(),
                value: created_at,
            });
        }
        SourceLink {
            number: record.number,
            old_address,
            reached_slug: record.reached_slug().filter(|_| frees_slug),
            link: ImportedLink {
                destination_url,
                slug,
                details,
            },
            changes,
            refusal,
            as_written: as_written.unwrap_or_default(),
            repeat,
        }
    }

    /// Refuses a record with bytes that are no text: which characters stood there is unknown.
    fn unreadable(&self, record: &RawRecord) -> Option<Refusal> {
        let texts = [
            &record.slug,
            &record.short_url,
            &record.moved_from,
            &record.title,
            &record.external_id,
        ];
        let texts = texts
            .into_iter()
            .flatten()
            .chain(&record.tags)
            .chain([&record.destination_url]);
        let is_unreadable =
            self.has_replaced_bytes && texts.into_iter().any(|text| text.contains('\u{fffd}'));
        is_unreadable.then(|| {
            let detail = "The record has bytes that are no UTF-8; write it again, and save the file as UTF-8.";
            Refusal::new(ENCODING_INVALID, detail)
        })
    }

    /// Takes the slug for the record, or returns the record that has it. Slugs that differ in letter case only are one.
    fn take(&mut self, slug: &str, record: &RawRecord, destination: &str) -> Option<Repeat> {
        let address = record.old_address().unwrap_or(slug);
        let key = slug.to_ascii_lowercase();
        let Some(earlier) = self.slugs.get(&key) else {
            let taken = Taken {
                index: self.decided,
                number: record.number,
                address: address.to_owned(),
                destination_url: destination.to_owned(),
            };
            self.slugs.insert(key, taken);
            return None;
        };
        let refusal = Refusal::new(
            "slug_taken",
            earlier.reason(self.unit, address, destination),
        );
        Some(Repeat {
            earlier: earlier.index,
            refusal,
        })
    }
}

impl Taken {
    /// Returns why the record with the address and the destination can't have the slug too.
    fn reason(&self, unit: &str, address: &str, destination: &str) -> String {
        let number = self.number;
        let has_same_destination = self.destination_url == destination;
        if self.address == address {
            return if has_same_destination {
                format!("{unit} {number} of the file is the same link: see what became of it.")
            } else {
                format!(
                    "{unit} {number} of the file has the address already, with another destination."
                )
            };
        }
        let same = if has_same_destination {
            " Both have the same destination."
        } else {
            ""
        };
        let (earlier, address) = (shown(&self.address), shown(address));
        format!(
            "{unit} {number} of the file has the slug already: \"{earlier}\" and \"{address}\" would be one \
             address here, where letter case, domain and spelling of a path tell no slugs apart.{same}"
        )
    }
}

/// Returns the value, or notes the first refusal.
fn keep<T: Default>(result: Result<T, Refusal>, refusal: &mut Option<Refusal>) -> T {
    result.unwrap_or_else(|reason| {
        refusal.get_or_insert(reason);
        T::default()
    })
}

/// Returns the members that the link of a refused record lacks, for the report from which the record can be imported.
fn as_written(record: &RawRecord) -> LinkDetails {
    LinkDetails {
        external_id: record.external_id.clone(),
        expires_at: record.expires_at.clone(),
        expired_url: record.expired_url.clone(),
        ..LinkDetails::default()
    }
}

fn fitted_address(
    what: &'static str,
    given: &str,
    is_html: bool,
    changes: &mut Vec<Change>,
) -> String {
    let fitted = destination::fitted(trimmed(given), is_html).into_owned();
    if loses_invisible(given) || fitted != trimmed(given) {
        changes.push(Change::became(what, given, &fitted));
    }
    fitted
}

fn expired_url(record: &RawRecord, has_expiry: bool, changes: &mut Vec<Change>) -> Option<String> {
    let given = record
        .expired_url
        .as_deref()
        .filter(|url| !trimmed(url).is_empty())?;
    if !has_expiry {
        changes.push(Change::dropped(
            "destination after expiry",
            given,
            "the link does not expire",
        ));
        return None;
    }
    Some(fitted_address(
        "destination after expiry",
        given,
        record.is_html,
        changes,
    ))
}

/// Returns the slug, and reports the domain that the old address had.
fn slug_of(record: &RawRecord, changes: &mut Vec<Change>) -> Result<Option<String>, Refusal> {
    fn present(text: Option<&str>) -> Option<&str> {
        text.filter(|text| !trimmed(text).is_empty())
    }
    let moved_from = present(record.moved_from.as_deref());
    let address = moved_from.or(present(record.short_url.as_deref()));
    if let Some(host) = address.and_then(old_address::host) {
        changes.push(Change::LeftBehind {
            what: format!("domain {}", shown(host)).into(),
            value: String::new(),
        });
    }
    // The addresses of this service may begin with a path, and end with the slug.
    let own_slug = address.filter(|_| record.is_own).and_then(slug_of_export);
    if let Some(given) = present(record.slug.as_deref()).or(own_slug) {
        let written = trimmed(given);
        let slug = old_address::checked(written.strip_suffix('/').unwrap_or(written), given)?;
        if let Some(address) = address.filter(|_| !record.is_own) {
            match check_same(&slug, address) {
                Err(_) if moved_from.is_some() => {
                    changes.push(Change::became("old address", address, &slug));
                }
                checked => checked?,
            }
        }
        if loses_invisible(given) || slug != written {
            changes.push(Change::became("slug", given, &slug));
        }
        return Ok(Some(slug));
    }
    let Some(given) = address else {
        return if record.needs_slug {
            Err(Refusal::no_slug())
        } else {
            Ok(None)
        };
    };
    let old = old_address::parse(given)?;
    if old.is_fitted || loses_invisible(given) {
        changes.push(Change::became("old address", given, &old.slug));
    }
    Ok(Some(old.slug))
}

/// Refuses a record whose slug and old address name different links: one of them would lead nowhere.
fn check_same(slug: &str, address: &str) -> Result<(), Refusal> {
    let old = old_address::parse(address)?;
    if old.slug.eq_ignore_ascii_case(slug) {
        return Ok(());
    }
    let detail = format!(
        "The slug is \"{slug}\", the old address \"{}\": one link has one slug. Leave one of them out.",
        shown(address)
    );
    Err(Refusal::new("slug_differs", detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: usize, short_url: &str) -> RawRecord {
        RawRecord {
            number,
            short_url: Some(short_url.to_owned()),
            needs_slug: true,
            destination_url: "https://example.com/".to_owned(),
            ..RawRecord::default()
        }
    }

    fn state() -> RuleState {
        RuleState {
            unit: "line",
            ..RuleState::default()
        }
    }

    fn texts(link: &SourceLink) -> Vec<String> {
        link.changes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn two_old_addresses_never_become_one() {
        let mut state = state();
        assert!(
            state
                .decide(record(1, "https://a.test/Abc"))
                .repeat
                .is_none()
        );
        for address in [
            "https://a.test/aBC",
            "https://b.test/Abc",
            "https://a.test/Abc/",
        ] {
            let repeat = state.decide(record(2, address)).repeat.unwrap();
            let refusal = repeat.refusal;
            assert_eq!((repeat.earlier, refusal.code), (0, "slug_taken"));
            let names_both = refusal.detail.contains("\"https://a.test/Abc\"")
                && refusal.detail.contains(address);
            assert!(
                names_both && refusal.detail.starts_with("line 1 "),
                "{refusal:?}"
            );
        }
    }

    #[test]
    fn repeated_record_is_the_same_link() {
        let mut state = state();
        assert!(state.decide(record(1, "https://a.test/x")).repeat.is_none());
        let repeated = state.decide(record(2, "https://a.test/x"));
        let refusal = repeated.repeat.unwrap().refusal;
        assert!(
            refusal
                .detail
                .starts_with("line 1 of the file is the same link"),
            "{refusal:?}"
        );
        let other = RawRecord {
            destination_url: "https://example.org/".to_owned(),
            ..record(3, "https://a.test/x")
        };
        let refusal = state.decide(other).repeat.unwrap().refusal;
        assert!(
            refusal.detail.contains("has the address already"),
            "{refusal:?}"
        );
    }

    #[test]
    fn slug_and_old_address_of_a_record_name_one_link() {
        let both = |is_own| RawRecord {
            slug: Some("ccc".to_owned()),
            is_own,
            ..record(1, "https://a.test/x/ccc")
        };
        assert_eq!(state().decide(both(true)).refusal, None);
        let refusal = state().decide(both(false)).refusal.unwrap();
        assert_eq!(refusal.code, "slug_invalid_character");
        let differing = RawRecord {
            slug: Some("aaa".to_owned()),
            ..record(1, "https://a.test/bbb")
        };
        let refusal = state().decide(differing).refusal.unwrap();
        let names_both = refusal.detail.contains("aaa") && refusal.detail.contains("a.test/bbb");
        assert!(names_both && refusal.code == "slug_differs", "{refusal:?}");
    }

    #[test]
    fn password_in_an_old_address_is_never_shown() {
        let link = state().decide(record(1, "https://user:secret@a.test/x/y"));
        assert_eq!(link.old_address.as_deref(), Some("https://a.test/x/y"));
        assert!(!format!("{link:?}").contains("secret"));
    }

    #[test]
    fn slug_with_an_at_sign_is_whole() {
        let given = RawRecord {
            slug: Some("me@v1.2".to_owned()),
            short_url: None,
            ..record(1, "")
        };
        let refusal = state().decide(given).refusal.unwrap();
        assert_eq!(refusal.code, "slug_invalid_character");
        assert!(refusal.detail.contains("\"me@v1.2\""), "{refusal:?}");
    }

    #[test]
    fn refused_record_takes_no_slug() {
        let mut state = state();
        let disabled = RawRecord {
            refusal: Some(Refusal::disabled()),
            ..record(1, "https://a.test/x")
        };
        assert_eq!(state.decide(disabled).refusal, Some(Refusal::disabled()));
        assert_eq!(state.decide(record(2, "https://a.test/x")).refusal, None);
    }

    #[test]
    fn slug_of_a_doubtful_record_or_of_a_link_here_is_not_looked_up() {
        for (refusal, is_own, is_looked_up) in [
            (Refusal::broken("x"), false, false),
            (Refusal::new("encoding_invalid", "x"), false, false),
            (Refusal::disabled(), true, false),
            (Refusal::disabled(), false, true),
        ] {
            let given = RawRecord {
                refusal: Some(refusal),
                is_own,
                ..record(1, "https://a.test/x")
            };
            let link = state().decide(given);
            assert_eq!(link.reached_slug.is_some(), is_looked_up, "{link:?}");
        }
    }

    #[test]
    fn slash_at_the_end_of_a_slug_is_left_out() {
        let given = RawRecord {
            slug: Some("partner/".to_owned()),
            ..record(1, "https://a.test/partner/")
        };
        let link = state().decide(given);
        assert_eq!(link.link.slug.as_deref(), Some("partner"));
        let became = "slug \"partner/\" became \"partner\"".to_owned();
        assert!(texts(&link).contains(&became), "{link:?}");
    }

    #[test]
    fn missing_slug_is_refused_where_records_have_one() {
        for address in ["", " ", "https://a.test/", "a.test"] {
            let refusal = state().decide(record(1, address)).refusal;
            assert_eq!(
                refusal.map(|refusal| refusal.code),
                Some("slug_missing"),
                "{address}"
            );
        }
        let optional = RawRecord {
            needs_slug: false,
            short_url: None,
            ..record(1, "")
        };
        assert_eq!(state().decide(optional).refusal, None);
    }

    #[test]
    fn each_difference_is_reported_old_to_new() {
        let given = RawRecord {
            destination_url: "\u{feff}example.com/?a=1&amp;b=2\u{200b}".to_owned(),
            title: Some("A &amp; B".to_owned()),
            tags: vec!["News".to_owned()],
            expires_at: Some("2030-01-31".to_owned()),
            expired_url: Some("example.org".to_owned()),
            created_at: Some("2020-01-01".to_owned()),
            is_html: true,
            ..record(1, "https://a.test/abc/")
        };
        let link = state().decide(given);
        assert_eq!(
            texts(&link),
            [
                "destination \"\\u{feff}example.com/?a=1&amp;b=2\\u{200b}\" became \"https://example.com/?a=1&b=2\"",
                "not carried over: domain a.test",
                "old address \"https://a.test/abc/\" became \"abc\"",
                "expiry \"2030-01-31\" became \"2030-01-31T00:00:00Z\"",
                "destination after expiry \"example.org\" became \"https://example.org\"",
                "title \"A &amp; B\" became \"A & B\"",
                "tag \"News\" became \"news\"",
                "not carried over: creation date 2020-01-01",
            ]
        );
        let link = state().decide(record(1, " abc "));
        assert_eq!(
            (link.link.slug.as_deref(), texts(&link)),
            (Some("abc"), vec![])
        );
    }

    #[test]
    fn label_never_refuses_a_link() {
        let labelled = RawRecord {
            title: Some("\u{7}".repeat(3)),
            tags: vec!["\u{1f389}".to_owned()],
            external_id: Some("a b".to_owned()),
            ..record(1, "https://a.test/abc")
        };
        let link = state().decide(labelled);
        assert_eq!(
            (link.refusal, link.link.details),
            (None, LinkDetails::default())
        );
        assert_eq!(link.changes.len(), 4);
    }

    #[test]
    fn title_of_an_own_export_stays_as_it_is() {
        for title in ["  two spaces  ", "\u{200b}", "\u{feff}mark"] {
            let given = RawRecord {
                title: Some(title.to_owned()),
                is_own: true,
                ..record(1, "https://a.test/abc")
            };
            assert_eq!(
                state().decide(given).link.details.title.as_deref(),
                Some(title)
            );
        }
    }

    #[test]
    fn record_with_unreadable_bytes_is_refused() {
        let given = || RawRecord {
            title: Some("Gr\u{fffd}e".to_owned()),
            ..record(1, "https://a.test/abc")
        };
        assert_eq!(state().decide(given()).refusal, None);
        let mut state = RuleState {
            has_replaced_bytes: true,
            ..state()
        };
        let refusal = state.decide(given()).refusal;
        assert_eq!(
            refusal.map(|refusal| refusal.code),
            Some("encoding_invalid")
        );
        assert_eq!(state.decide(record(2, "https://a.test/abc")).refusal, None);
    }

    #[test]
    fn refused_record_keeps_its_expiry_as_written() {
        let given = RawRecord {
            expires_at: Some("31.12.2030".to_owned()),
            expired_url: Some("https://example.org/".to_owned()),
            external_id: Some("order-1".to_owned()),
            ..record(1, "https://a.test/abc")
        };
        let written = state().decide(given).as_written;
        assert_eq!(written.expires_at.as_deref(), Some("31.12.2030"));
        assert_eq!(written.expired_url.as_deref(), Some("https://example.org/"));
        assert_eq!(written.external_id.as_deref(), Some("order-1"));
        let kept = state().decide(record(1, "https://a.test/abc"));
        assert_eq!(kept.as_written, LinkDetails::default());
    }
}
