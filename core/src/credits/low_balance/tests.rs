use proptest::prelude::*;

use super::*;

fn of(thresholds: &[i64]) -> LowBalanceAt {
    LowBalanceAt::of(thresholds.to_vec()).unwrap()
}

#[test]
fn thresholds_are_few_sorted_and_distinct() {
    assert_eq!(
        of(&[100, 10, 100, 1, BALANCE_MAX]).as_slice(),
        [1, 10, 100, BALANCE_MAX]
    );
    assert_eq!(of(&[]), LowBalanceAt::NONE);
    assert!(LowBalanceAt::NONE.is_empty() && !of(&[1]).is_empty());
    for invalid in [0, -1, BALANCE_MAX + 1, i64::MIN] {
        let refused = LowBalanceAt::of(vec![1, invalid]);
        assert_eq!(refused, Err(InvalidLowBalanceAt::OutOfRange), "{invalid}");
    }
    let refused = LowBalanceAt::of(vec![1, 2, 3, 4, 5, 6]);
    assert_eq!(refused, Err(InvalidLowBalanceAt::TooMany));
}

#[test]
fn json_is_a_list_of_numbers() {
    let thresholds = of(&[100, 10]);
    assert_eq!(serde_json::to_string(&thresholds).unwrap(), "[10,100]");
    let read: LowBalanceAt = serde_json::from_str("[10,100]").unwrap();
    assert_eq!(read, thresholds);
    assert!(serde_json::from_str::<LowBalanceAt>("[0]").is_err());
}

#[test]
fn crossing_begins_at_the_threshold_and_ends_below() {
    let thresholds = of(&[10, 100]);
    for (before, after, crossed) in [
        (101, 100, None),
        (100, 99, Some(100)),
        (99, 10, None),
        (10, 9, Some(10)),
        (9, 0, None),
        // Of several, the lowest.
        (200, 0, Some(10)),
        // A free link.
        (100, 100, None),
    ] {
        assert_eq!(
            thresholds.crossed_by(before, after),
            crossed,
            "{before} to {after}"
        );
    }
    assert_eq!(LowBalanceAt::NONE.crossed_by(i64::MAX, 0), None);
}

proptest! {
    #[test]
    fn stored_thresholds_are_read_as_written(
        thresholds in prop::collection::vec(1..=BALANCE_MAX, 0..=LOW_BALANCE_MAX),
    ) {
        let thresholds = LowBalanceAt::of(thresholds).unwrap();
        prop_assert_eq!(LowBalanceAt::stored(thresholds.as_slice()), thresholds);
        let json = serde_json::to_string(&thresholds).unwrap();
        prop_assert_eq!(serde_json::from_str::<LowBalanceAt>(&json).unwrap(), thresholds);
    }
}
