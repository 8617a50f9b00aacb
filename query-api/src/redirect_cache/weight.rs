//! Memory of cached redirects, which bounds the size of the cache.

use compact_str::CompactString;
use quick_cache::{
    DefaultHashBuilder, OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};

use crate::read_model::redirects::{LinkExpiry, Redirect, RedirectTarget};

/// Bytes of a slot of the cache, with a short slug and a redirect: 96 in the library's list, and 5 to
/// 12 in the library's hash table, which grows by doubling.
const SLOT_BYTES: u64 = 108;
/// Bytes of a usual entry: a slot, and a destination in a separate heap block.
const ENTRY_BYTES_EXPECTED: u64 = SLOT_BYTES + 80;
/// Number of entries per ghost slot. A ghost slot remembers only that an entry was evicted. While few
/// links have most of the visits, more room for entries answers more visits than more ghosts.
const ENTRIES_PER_GHOST: u32 = 10;

/// Redirects by lower-cased slug.
pub(super) type Entries = Cache<CompactString, Redirect, EntryWeighter>;

/// Creates an empty cache with room for `mib_max` MiB.
pub(super) fn bounded(mib_max: u32) -> Entries {
    let bytes_max = u64::from(mib_max) << 20;
    let entries = bytes_max / ENTRY_BYTES_EXPECTED;
    let ghosts = entries / u64::from(ENTRIES_PER_GHOST);
    let options = OptionsBuilder::new()
        .estimated_items_capacity(usize::try_from(entries).expect("no more than fit"))
        .weight_capacity(bytes_max - ghosts * SLOT_BYTES)
        .ghost_allocation(1.0 / f64::from(ENTRIES_PER_GHOST))
        .build()
        .expect("both capacities are given");
    let (hashes, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
    Cache::with_options(options, EntryWeighter, hashes, lifecycle)
}

/// Weighs entries, in bytes.
#[derive(Clone)]
pub(super) struct EntryWeighter;

impl Weighter<CompactString, Redirect> for EntryWeighter {
    fn weight(&self, slug: &CompactString, redirect: &Redirect) -> u64 {
        let slug_block = if slug.is_heap_allocated() {
            block_bytes(slug.capacity())
        } else {
            0
        };
        let destination_blocks = match &redirect.target {
            RedirectTarget::Destination { url, expiry, .. } => {
                block_bytes(url.len()) + expiry.as_deref().map_or(0, bytes_of_expiry)
            }
            RedirectTarget::Gone => 0,
        };
        SLOT_BYTES + slug_block + destination_blocks
    }
}

fn bytes_of_expiry(expiry: &LinkExpiry) -> u64 {
    let url_block = expiry
        .expired_url
        .as_deref()
        .map(|url| block_bytes(url.len()));
    block_bytes(size_of::<LinkExpiry>()) + url_block.unwrap_or(0)
}

/// Returns the bytes that the allocator of glibc uses for a text: 8 bytes more, rounded up to 16,
/// and at least 32.
fn block_bytes(length: usize) -> u64 {
    let length = u64::try_from(length).expect("a text in memory");
    (length + 8).next_multiple_of(16).max(32)
}

#[cfg(test)]
mod tests {
    use linkledger_core::id::{AccountId, LinkId};
    use uuid::Uuid;

    use super::*;

    /// Bytes that other tests of the process may use meanwhile.
    const SLACK_BYTES: u64 = 3 << 20;

    /// Stores `links` entries with slugs and destinations of the given lengths.
    fn fill(entries: &Entries, links: usize, slug_length: usize, destination_length: usize) {
        let destination = "x".repeat(destination_length);
        for slug in 0..links {
            let redirect = Redirect {
                account_id: AccountId::from_uuid(Uuid::nil()),
                target: RedirectTarget::Destination {
                    link_id: LinkId::from_uuid(Uuid::nil()),
                    url: destination.as_str().into(),
                    expiry: None,
                },
            };
            entries.insert(format!("{slug:0slug_length$}").as_str().into(), redirect);
        }
    }

    #[test]
    fn weight_of_slots_covers_their_memory() {
        for links in [1_000, 3_600, 3_700, 5_000, 7_000, 7_300, 7_500, 10_000] {
            let entries = bounded(2);
            fill(&entries, links, 24, 24);
            let (count, weight) = (entries.len() as u64, entries.weight());
            let slots = weight - count * block_bytes(24);
            assert!(slots >= count * SLOT_BYTES, "{links}");
            let taken = entries.memory_used().total() as u64;
            let ghosts = (2 << 20) / ENTRY_BYTES_EXPECTED / u64::from(ENTRIES_PER_GHOST);
            assert!(taken <= slots + ghosts * SLOT_BYTES, "{links}: {taken}");
        }
    }

    /// Resident memory of this process, in bytes.
    fn resident_bytes() -> u64 {
        let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
        let kib = line.unwrap().trim().strip_suffix(" kB").unwrap();
        kib.parse::<u64>().unwrap() << 10
    }

    /// Memory that a full cache takes after all entries were replaced by entries of another length.
    fn bytes_of_full_cache(slug_length: usize, destination_length: usize) -> u64 {
        let before = resident_bytes();
        let entries = bounded(32);
        fill(&entries, 2_000, 8, 2_000);
        fill(&entries, 300_000, slug_length, destination_length);
        resident_bytes().saturating_sub(before)
    }

    #[test]
    fn full_cache_stays_within_configured_memory() {
        let bound = (32 << 20) + SLACK_BYTES;
        for (slug_length, destination_length) in [(8, 40), (8, 57), (60, 1_500), (25, 2)] {
            // Tests beside this one take memory of the same process, for a moment.
            let mut attempts = (0..5).map(|_| bytes_of_full_cache(slug_length, destination_length));
            assert!(
                attempts.any(|taken| taken <= bound),
                "{slug_length}, {destination_length}"
            );
        }
    }
}
