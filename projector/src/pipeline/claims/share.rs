//! Decides which shards a process claims.

use std::collections::BTreeMap;

use linkledger_core::shard::Shard;
use linkledger_event_store::log::PerShard;
use uuid::Uuid;

/// Returns the shards that the process `own` claims: free shards up to its share, then shards of the process that has
/// the most, until its share is fair. `owners` has the living owner of each shard, `None` for a free one.
///
/// A process that has nothing is seen by no other one, so it takes its share by itself. A shard is taken only from a
/// process that then still has as many as `own`, so that no shard moves back and forth, and shares differ by one at
/// most.
pub(super) fn claimable(owners: &PerShard<Option<Uuid>>, own: Uuid) -> Vec<Shard> {
    let mut shards: BTreeMap<Uuid, Vec<Shard>> = [(own, Vec::new())].into();
    let mut free = Vec::new();
    for shard in Shard::all() {
        match owners[shard.index()] {
            Some(owner) => shards.entry(owner).or_default().push(shard),
            None => free.push(shard),
        }
    }
    let most = owners.len().div_ceil(shards.len());
    let mut owned = shards.remove(&own).map_or(0, |own| own.len());
    free.truncate(most.saturating_sub(owned));
    owned += free.len();
    let mut claimed = free;
    while let Some(largest) = shards.values_mut().max_by_key(|shards| shards.len())
        && largest.len() > owned + 1
    {
        claimed.extend(largest.pop());
        owned += 1;
    }
    claimed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn process(number: usize) -> Uuid {
        Uuid::from_u128(number as u128 + 1)
    }

    /// Lets each process claim in turn, again and again, until none claims anything. Returns the number of shards of
    /// each process.
    fn settle(owners: &mut PerShard<Option<Uuid>>, processes: usize) -> Vec<usize> {
        let has_moved = |owners: &mut PerShard<Option<Uuid>>| {
            let mut moved = 0;
            for own in (0..processes).map(process) {
                for shard in claimable(owners, own) {
                    assert_ne!(owners[shard.index()], Some(own));
                    owners[shard.index()] = Some(own);
                    moved += 1;
                }
            }
            moved > 0
        };
        let rounds = (0..50).take_while(|_| has_moved(owners)).count();
        assert!(rounds < 50, "shards move for ever");
        let owned = |own| owners.iter().filter(|it| **it == Some(own)).count();
        (0..processes)
            .map(|number| owned(process(number)))
            .collect()
    }

    #[test]
    fn first_process_has_all_and_second_takes_half() {
        let mut owners = PerShard::default();
        assert_eq!(settle(&mut owners, 1), [16]);
        assert_eq!(settle(&mut owners, 2), [8, 8]);
        assert_eq!(settle(&mut owners, 3), [6, 5, 5]);
    }

    #[test]
    fn process_beyond_the_shards_is_idle() {
        let mut owners = PerShard::default();
        let shares = settle(&mut owners, 17);
        assert_eq!(shares.iter().filter(|share| **share == 1).count(), 16);
        assert!(claimable(&owners, process(17)).is_empty());
    }

    proptest! {
        /// Whoever owned what before: nothing stays free, and shares are fair.
        #[test]
        fn shares_become_fair(before in proptest::array::uniform16(0..6_usize), processes in 1..20_usize) {
            // Owners of the past are gone: their shards are free.
            let living = |number: usize| (number < processes).then(|| process(number));
            let mut owners: PerShard<Option<Uuid>> = before.map(living);
            let shares = settle(&mut owners, processes);
            prop_assert!(owners.iter().all(Option::is_some));
            let (fewest, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            prop_assert!(most - fewest <= 1 || processes > 16 && *most == 1, "{shares:?}");
        }
    }
}
