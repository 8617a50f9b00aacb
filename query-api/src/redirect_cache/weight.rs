//! What redirects in memory take of the machine: the bound of their cache is kept by it.

use compact_str::CompactString;
use quick_cache::{
    DefaultHashBuilder, OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};

use crate::read_model::redirects::{Redirect, Target};

/// Bytes of a slot of the cache, which has a short slug and the redirect in it: 72 in the library's
/// list, and in its table, which doubles, 5 to 12.
const SLOT_BYTES: u64 = 84;
/// Bytes of a usual entry: a slot, and an address in a block of its own.
const ENTRY_BYTES_EXPECTED: u64 = SLOT_BYTES + 80;
/// For so many entries one slot remembers that something was pushed out, and nothing more of it.
/// Where few links have most of the visits, room for links answers more of them than a long memory.
const ENTRIES_PER_GHOST: u32 = 10;

/// Redirects by folded slug.
pub(super) type Entries = Cache<CompactString, Redirect, Bytes>;

/// No redirects yet, and room for so many MiB of them.
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
    Cache::with_options(options, Bytes, hashes, lifecycle)
}

/// Weighs entries, in bytes.
#[derive(Clone)]
pub(super) struct Bytes;

impl Weighter<CompactString, Redirect> for Bytes {
    fn weight(&self, slug: &CompactString, redirect: &Redirect) -> u64 {
        let slug_block = if slug.is_heap_allocated() {
            block_bytes(slug.capacity())
        } else {
            0
        };
        let destination_block = match &redirect.target {
            Target::Destination(destination) => block_bytes(destination.len()),
            Target::Gone => 0,
        };
        SLOT_BYTES + slug_block + destination_block
    }
}

/// What glibc's allocator takes for a text: a word more, in steps of 16 bytes, and 32 at least.
fn block_bytes(length: usize) -> u64 {
    let length = u64::try_from(length).expect("a text in memory");
    (length + 8).next_multiple_of(16).max(32)
}

#[cfg(test)]
mod tests {
    use linkledger_core::id::AccountId;
    use uuid::Uuid;

    use super::*;

    /// What other tests of the process may take meanwhile, in bytes.
    const SLACK_BYTES: u64 = 3 << 20;

    /// Remembers so many links with slugs and addresses of that length.
    fn fill(entries: &Entries, links: usize, slug_length: usize, destination_length: usize) {
        let destination = "x".repeat(destination_length);
        for slug in 0..links {
            let redirect = Redirect {
                account_id: AccountId::from_uuid(Uuid::nil()),
                target: Target::Destination(destination.as_str().into()),
            };
            entries.insert(format!("{slug:0slug_length$}").as_str().into(), redirect);
        }
    }

    #[test]
    fn slots_weigh_what_they_take_however_many_there_are() {
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

    /// Also when all of it was replaced once, by entries of another length.
    #[test]
    fn a_full_cache_takes_no_more_of_the_machine_than_its_setting_says() {
        for (slug_length, destination_length) in [(8, 40), (8, 57), (60, 1_500), (25, 2)] {
            let before = resident_bytes();
            let entries = bounded(32);
            fill(&entries, 2_000, 8, 2_000);
            fill(&entries, 300_000, slug_length, destination_length);
            let taken = resident_bytes().saturating_sub(before);
            let bound = (32 << 20) + SLACK_BYTES;
            assert!(
                taken <= bound,
                "{slug_length}, {destination_length}: {taken}"
            );
        }
    }
}
