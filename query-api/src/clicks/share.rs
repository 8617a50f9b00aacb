//! Share of an account in memory for waiting clicks: a flood of clicks of one account is folded before the clicks of
//! the others are.

/// Number of bytes that an account may have for each byte that is then free.
const BYTES_FOR_EACH_FREE: usize = 7;

/// Returns true if an account whose clicks have `own` bytes may add a click of `bytes`, where `free` bytes are free.
///
/// One account takes seven eighths of the memory; several that flood together take equal shares, and leave some room to
/// an account with few clicks.
pub(super) fn may_add(own: usize, bytes: usize, free: usize) -> bool {
    let free_then = free.checked_sub(bytes);
    free_then.is_some_and(|free| own + bytes <= free.saturating_mul(BYTES_FOR_EACH_FREE))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: usize = 16_000;

    /// Adds clicks of 10 bytes in turn until all accounts are refused, and returns the bytes of each.
    fn filled(accounts: usize, before: usize) -> Vec<usize> {
        let mut own = vec![0; accounts];
        loop {
            let mut is_full = true;
            for account in 0..accounts {
                let free = MEMORY - before - own.iter().sum::<usize>();
                if may_add(own[account], 10, free) {
                    own[account] += 10;
                    is_full = false;
                }
            }
            if is_full {
                return own;
            }
        }
    }

    #[test]
    fn one_account_takes_most_of_the_memory() {
        assert_eq!(filled(1, 0), [14_000]);
    }

    #[test]
    fn accounts_together_take_equal_shares() {
        let own = filled(3, 0);
        let (least, most) = (own.iter().min().unwrap(), own.iter().max().unwrap());
        assert!(
            most - least <= 10 && *least > MEMORY * 7 / 22 - 20,
            "{own:?}"
        );
    }

    #[test]
    fn account_beside_a_flood_has_room() {
        let flood = filled(1, 0)[0];
        assert!(filled(1, flood)[0] >= 1_700);
        assert!(!may_add(flood, 10, MEMORY - flood));
    }

    #[test]
    fn nothing_is_added_beyond_the_memory() {
        assert!(may_add(0, 10, 12));
        assert!(!may_add(0, 10, 10));
        assert!(!may_add(0, 10, 9));
        assert!(may_add(0, usize::MAX / 8, usize::MAX));
    }
}
