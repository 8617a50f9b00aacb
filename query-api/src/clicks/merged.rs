//! Clicks whose details were dropped because memory was short: counts by link, hour and kind.

use std::collections::{BTreeMap, HashMap, btree_map::Entry};

use linkledger_clicks::{Click, ClickDetails, ClickKind};
use linkledger_core::id::{AccountId, LinkId};
use time::OffsetDateTime;

/// Milliseconds of an hour.
const HOUR_MS: i64 = 3_600_000;
/// Bytes of an entry in a half-empty node of the map, and of its account, without the slug.
const ENTRY_BYTES: usize = 240;

/// Facts of a click that a merged record keeps.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClickFacts<'a> {
    pub(super) link_id: LinkId,
    pub(super) account_id: AccountId,
    pub(super) slug: &'a str,
    pub(super) clicked_at_ms: i64,
    pub(super) kind: ClickKind,
    pub(super) count: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct MergeKey {
    /// Hours since 1970: the oldest clicks leave first.
    hour: i64,
    link_id: LinkId,
    kind: ClickKind,
}

#[derive(Debug)]
struct MergedClick {
    account_id: AccountId,
    slug: Box<str>,
    first_ms: i64,
    count: u32,
}

/// Merged clicks, bounded in memory by their owner.
#[derive(Debug, Default)]
pub(super) struct MergedClicks {
    entries: BTreeMap<MergeKey, MergedClick>,
    /// Number of entries of each account that has some.
    accounts: HashMap<AccountId, usize>,
    bytes: usize,
    /// Instant of the earliest click since the map was empty.
    first_ms: Option<i64>,
}

impl MergedClicks {
    /// Adds clicks, and returns false if that needs more than `bytes_free` additional bytes.
    pub(super) fn add(&mut self, facts: &ClickFacts<'_>, bytes_free: usize) -> bool {
        let key = MergeKey {
            hour: facts.clicked_at_ms.div_euclid(HOUR_MS),
            link_id: facts.link_id,
            kind: facts.kind,
        };
        match self.entries.entry(key) {
            Entry::Occupied(mut entry) => {
                let entry = entry.get_mut();
                let Some(count) = entry.count.checked_add(facts.count) else {
                    return false;
                };
                entry.count = count;
                entry.first_ms = entry.first_ms.min(facts.clicked_at_ms);
            }
            Entry::Vacant(entry) => {
                let bytes = entry_bytes(facts.slug);
                if bytes > bytes_free {
                    return false;
                }
                self.bytes += bytes;
                *self.accounts.entry(facts.account_id).or_default() += 1;
                entry.insert(MergedClick {
                    account_id: facts.account_id,
                    slug: facts.slug.into(),
                    first_ms: facts.clicked_at_ms,
                    count: facts.count,
                });
            }
        }
        let first_ms = self.first_ms.unwrap_or(facts.clicked_at_ms);
        self.first_ms = Some(first_ms.min(facts.clicked_at_ms));
        true
    }

    /// Removes the clicks of the earliest hour of one link and kind, as one click with a count.
    pub(super) fn pop(&mut self) -> Option<Click> {
        let (key, merged) = self.entries.pop_first()?;
        self.bytes -= entry_bytes(&merged.slug);
        take_from(&mut self.accounts, merged.account_id, 1);
        if self.entries.is_empty() {
            self.first_ms = None;
        }
        Some(Click {
            link_id: key.link_id,
            account_id: merged.account_id,
            slug: merged.slug.into(),
            clicked_at: instant_of(merged.first_ms),
            kind: key.kind,
            count: merged.count,
            details: ClickDetails::default(),
        })
    }

    /// Returns an instant that no merged click is earlier than.
    pub(super) fn first_ms(&self) -> Option<i64> {
        self.first_ms
    }

    /// Returns the bytes of the entries.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if there are clicks of the account.
    pub(super) fn has_account(&self, account_id: AccountId) -> bool {
        self.accounts.contains_key(&account_id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of clicks.
    pub(super) fn count(&self) -> u64 {
        self.entries.values().map(|it| u64::from(it.count)).sum()
    }
}

/// Lowers the number of an account, and forgets the account at 0.
pub(super) fn take_from(
    accounts: &mut HashMap<AccountId, usize>,
    account_id: AccountId,
    number: usize,
) {
    if let Some(left) = accounts.get_mut(&account_id) {
        *left = left.saturating_sub(number);
        if *left == 0 {
            accounts.remove(&account_id);
        }
    }
}

fn entry_bytes(slug: &str) -> usize {
    ENTRY_BYTES + slug.len()
}

/// Returns the instant of a number of milliseconds since 1970.
pub(super) fn instant_of(milliseconds: i64) -> OffsetDateTime {
    let nanoseconds = i128::from(milliseconds) * 1_000_000;
    OffsetDateTime::from_unix_timestamp_nanos(nanoseconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// Returns the number of milliseconds since 1970.
pub(super) fn milliseconds_of(instant: OffsetDateTime) -> i64 {
    i64::try_from(instant.unix_timestamp_nanos() / 1_000_000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn facts(link: u128, clicked_at_ms: i64, kind: ClickKind) -> ClickFacts<'static> {
        ClickFacts {
            link_id: LinkId::from_uuid(Uuid::from_u128(link)),
            account_id: AccountId::from_uuid(Uuid::nil()),
            slug: "spring",
            clicked_at_ms,
            kind,
            count: 1,
        }
    }

    #[test]
    fn clicks_merge_by_link_hour_and_kind() {
        use ClickKind::{Bot, Human};
        let mut merged = MergedClicks::default();
        for (link, at, kind) in [
            (1, HOUR_MS + 5, Human),
            (1, HOUR_MS + 3, Human),
            (1, HOUR_MS + 4, Bot),
            (2, HOUR_MS, Human),
            (1, 2 * HOUR_MS, Human),
        ] {
            assert!(merged.add(&facts(link, at, kind), usize::MAX));
        }
        assert_eq!((merged.count(), merged.first_ms()), (5, Some(HOUR_MS)));
        let account_id = AccountId::from_uuid(Uuid::nil());
        assert!(merged.has_account(account_id));
        let mut popped = std::iter::from_fn(|| merged.pop());
        let first = popped.next().unwrap();
        assert_eq!((first.count, first.kind), (2, Human));
        assert_eq!(milliseconds_of(first.clicked_at), HOUR_MS + 3);
        assert_eq!(popped.map(|click| click.count).sum::<u32>(), 3);
        assert_eq!((merged.bytes(), merged.first_ms()), (0, None));
        assert!(!merged.has_account(account_id));
    }

    proptest! {
        #[test]
        fn memory_is_bounded_and_nothing_is_lost(
            links in prop::collection::vec(0..64_u128, 0..500), bytes_max in 0..8_000_usize
        ) {
            let (mut merged, mut lost) = (MergedClicks::default(), 0);
            for link in &links {
                let bytes_free = bytes_max - merged.bytes();
                lost += u64::from(!merged.add(&facts(*link, 0, ClickKind::Human), bytes_free));
                prop_assert!(merged.bytes() <= bytes_max);
            }
            prop_assert_eq!(merged.count() + lost, links.len() as u64);
        }
    }
}
