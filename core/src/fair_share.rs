//! Fair shares of a bounded room, such as memory: what one may have depends on what is free, so that a flood of one
//! leaves room to the others.

/// Rule for a share: one may have `own` units for each `free` units that are then free.
///
/// One alone takes `own / (own + free)` of the room; several that flood together take equal shares, and leave some room
/// to one that comes later.
#[derive(Debug, Clone, Copy)]
pub struct FairShare {
    /// Units that one may have.
    pub own: usize,
    /// Units that are then free.
    pub free: usize,
}

impl FairShare {
    /// Returns true if one that has `own` units may add `units`, where `free` units are free.
    pub const fn may_add(self, own: usize, units: usize, free: usize) -> bool {
        let Some(free_then) = free.checked_sub(units) else {
            return false;
        };
        let own_then = own.saturating_add(units).saturating_mul(self.free);
        own_then <= free_then.saturating_mul(self.own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 16_000;
    const MOST: FairShare = FairShare { own: 7, free: 1 };

    /// Adds 10 units for each in turn until all are refused, and returns the units of each.
    fn filled(share: FairShare, count: usize, before: usize) -> Vec<usize> {
        let mut own = vec![0; count];
        loop {
            let mut is_full = true;
            for index in 0..count {
                let free = ROOM - before - own.iter().sum::<usize>();
                if share.may_add(own[index], 10, free) {
                    own[index] += 10;
                    is_full = false;
                }
            }
            if is_full {
                return own;
            }
        }
    }

    #[test]
    fn one_alone_takes_its_part_of_the_room() {
        assert_eq!(filled(MOST, 1, 0), [14_000]);
        assert_eq!(filled(FairShare { own: 1, free: 15 }, 1, 0), [1_000]);
    }

    #[test]
    fn several_together_take_equal_shares() {
        let own = filled(MOST, 3, 0);
        let (least, most) = (own.iter().min().unwrap(), own.iter().max().unwrap());
        let is_equal = most - least <= 10 && *least > ROOM * 7 / 22 - 20;
        assert!(is_equal, "{own:?}");
    }

    #[test]
    fn later_one_has_room_beside_a_flood() {
        let flood = filled(MOST, 1, 0)[0];
        assert!(filled(MOST, 1, flood)[0] >= 1_700);
        assert!(!MOST.may_add(flood, 10, ROOM - flood));
    }

    #[test]
    fn nothing_is_added_beyond_the_room() {
        assert!(MOST.may_add(0, 10, 12));
        assert!(!MOST.may_add(0, 10, 10));
        assert!(!MOST.may_add(0, 10, 9));
        assert!(MOST.may_add(0, usize::MAX / 8, usize::MAX));
    }
}
