use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::credits::{CreditsEvent, LowBalanceAt};

const ACCOUNT: AccountId = AccountId::from_uuid(Uuid::from_u128(7));

const ENTRY: EntryId = EntryId::from_uuid(Uuid::from_u128(8));

fn request(amount: i64) -> GrantRequest {
    GrantRequest {
        amount,
        reason: "invoice 4711".to_owned(),
        reference: Some("4711".to_owned()),
        description: None,
    }
}

fn grant(credits: Credits, amount: i64) -> Result<CreditsEvent, CreditsError> {
    let granted = credits.decide_grant(ACCOUNT, &request(amount));
    granted.map(CreditsEvent::Granted)
}

fn adjust(credits: Credits, amount: i64) -> Result<CreditsEvent, CreditsError> {
    let adjusted = credits.decide_adjust(ACCOUNT, &request(amount));
    adjusted.map(CreditsEvent::Adjusted)
}

fn charge(credits: Credits, price: i64) -> Result<CreditsEvent, InsufficientCredits> {
    let link_id = LinkId::from_uuid(Uuid::from_u128(9));
    let key_id = KeyId::from_uuid(Uuid::from_u128(11));
    let charged = credits.decide_charge(ACCOUNT, price, link_id, key_id);
    charged.map(CreditsEvent::Charged)
}

fn set_balance(credits: Credits, balance: i64) -> Result<CreditsEvent, CreditsError> {
    let adjusted = credits.decide_set_balance(ACCOUNT, balance, "new contract");
    adjusted.map(CreditsEvent::Adjusted)
}

fn refund(credits: Credits, charge: &CreditsEvent) -> Result<CreditsEvent, CreditsError> {
    let CreditsEvent::Charged(charged) = charge else {
        panic!("{charge:?}");
    };
    let refunded = credits.decide_refund(ACCOUNT, charged, ENTRY, "link never worked");
    refunded.map(CreditsEvent::Refunded)
}

fn revoke(credits: Credits, grant: &CreditsEvent) -> CreditsEvent {
    let CreditsEvent::Granted(granted) = grant else {
        panic!("{grant:?}");
    };
    CreditsEvent::Revoked(credits.decide_revoke(ACCOUNT, granted, ENTRY, "invoice unpaid"))
}

fn given(balance: i64) -> Credits {
    Credits {
        balance,
        version: 3,
        ..Credits::default()
    }
}

#[test]
fn charge_lowers_the_balance() {
    let event = charge(given(5), 2).unwrap();
    assert_eq!(
        given(5).apply(&event),
        Credits {
            balance: 3,
            version: 4,
            ..Credits::default()
        }
    );
}

#[test]
fn charge_of_whole_balance_leaves_zero() {
    let event = charge(given(2), 2).unwrap();
    assert_eq!(given(2).apply(&event).balance, 0);
}

#[test]
fn charge_over_balance_reports_both_amounts() {
    let expected = InsufficientCredits {
        balance: 1,
        required: 2,
    };
    assert_eq!(charge(given(1), 2), Err(expected));
}

#[test]
fn price_of_zero_still_creates_an_event() {
    assert!(charge(given(0), 0).is_ok());
}

#[test]
fn grant_raises_the_balance() {
    let event = grant(given(5), 10).unwrap();
    assert_eq!(
        given(5).apply(&event),
        Credits {
            balance: 15,
            version: 4,
            ..Credits::default()
        }
    );
}

#[test]
fn zero_and_too_large_grants_are_rejected() {
    assert_eq!(grant(given(5), 0), Err(CreditsError::AmountNotPositive));
    assert_eq!(grant(given(5), -1), Err(CreditsError::AmountNotPositive));
    for amount in [BALANCE_MAX, i64::MAX] {
        let refused = grant(given(1), amount);
        assert_eq!(refused, Err(CreditsError::BalanceTooLarge));
    }
}

#[test]
fn adjustment_raises_or_lowers_balance_to_zero() {
    for (amount, balance) in [(3, 8), (-3, 2), (-5, 0)] {
        let event = adjust(given(5), amount).unwrap();
        assert_eq!(
            given(5).apply(&event),
            Credits {
                balance,
                version: 4,
                ..Credits::default()
            }
        );
    }
}

#[test]
fn zero_negative_and_too_large_adjustments_are_rejected() {
    assert_eq!(adjust(given(5), 0), Err(CreditsError::AmountIsZero));
    assert_eq!(
        adjust(given(1), BALANCE_MAX),
        Err(CreditsError::BalanceTooLarge)
    );
    for (amount, required) in [(-6, 6), (i64::MIN, 1 << 63)] {
        let expected = InsufficientCredits {
            balance: 5,
            required,
        };
        assert_eq!(
            adjust(given(5), amount),
            Err(CreditsError::Insufficient(expected))
        );
    }
}

#[test]
fn grant_keeps_its_reference_and_description() {
    let request = GrantRequest {
        description: Some("Starter pack".to_owned()),
        ..request(10)
    };
    let granted = given(5).decide_grant(ACCOUNT, &request).unwrap();
    assert_eq!(granted.reference.as_deref(), Some("4711"));
    assert_eq!(granted.description.as_deref(), Some("Starter pack"));
}

#[test]
fn balance_is_set_by_one_adjustment() {
    for balance in [0, 4, 5, 6, BALANCE_MAX] {
        let event = set_balance(given(5), balance).unwrap();
        let expected = Credits {
            balance,
            version: 4,
            ..Credits::default()
        };
        assert_eq!(given(5).apply(&event), expected);
    }
    let error = CreditsError::BalanceNegative;
    assert_eq!(set_balance(given(5), -1), Err(error));
    let error = CreditsError::BalanceTooLarge;
    assert_eq!(set_balance(given(5), BALANCE_MAX + 1), Err(error));
}

#[test]
fn refund_gives_the_whole_charge_back() {
    let charge = charge(given(5), 2).unwrap();
    let charged = given(5).apply(&charge);
    let event = refund(charged, &charge).unwrap();
    assert_eq!(charged.apply(&event).balance, 5);
    let full = given(BALANCE_MAX - 1);
    assert_eq!(refund(full, &charge), Err(CreditsError::BalanceTooLarge));
}

#[test]
fn revocation_takes_what_is_left_of_the_balance() {
    let grant = grant(given(0), 10).unwrap();
    for (balance, taken, left) in [(12, 10, 2), (10, 10, 0), (4, 4, 0), (0, 0, 0)] {
        let event = revoke(given(balance), &grant);
        assert_eq!(given(balance).apply(&event).balance, left);
        let CreditsEvent::Revoked(revoked) = event else {
            panic!("{event:?}");
        };
        let numbers = (revoked.asked, revoked.amount, revoked.short);
        assert_eq!(numbers, (10, taken, 10 - taken));
    }
}

#[test]
fn charge_names_the_lowest_threshold_that_it_crosses() {
    let credits = Credits {
        low_balance_at: LowBalanceAt::of(vec![2, 4]).unwrap(),
        ..given(5)
    };
    for (price, crossed) in [
        (0, None),
        (1, None),
        (2, Some(4)),
        (3, Some(4)),
        (5, Some(2)),
    ] {
        let event = charge(credits, price).unwrap();
        assert_eq!(crossed_threshold(&event), crossed, "{price}");
        assert_eq!(credits.apply(&event).low_balance_at, credits.low_balance_at);
    }
}

fn crossed_threshold(event: &CreditsEvent) -> Option<i64> {
    match event {
        CreditsEvent::Charged(charged) => charged.low_balance,
        CreditsEvent::Granted(_)
        | CreditsEvent::Adjusted(_)
        | CreditsEvent::Refunded(_)
        | CreditsEvent::Revoked(_) => None,
    }
}

#[test]
fn other_events_of_the_stream_keep_balance() {
    let expected = Credits {
        balance: 5,
        version: 4,
        ..Credits::default()
    };
    assert_eq!(given(5).pass(), expected);
}

proptest! {
    #[test]
    fn commands_conserve_credits_and_nonnegative_balance(
        commands in prop::collection::vec((0..6, 0_i64..100), 0..60)
    ) {
        let mut credits = Credits::default();
        let (mut sum, mut events) = (0, 0);
        for (kind, amount) in commands {
            let earlier_charge = charge(given(100), amount).unwrap();
            let earlier_grant = grant(given(0), amount + 1).unwrap();
            let (event, change) = match kind {
                0 => (grant(credits, amount).ok(), amount),
                1 => (adjust(credits, 50 - amount).ok(), 50 - amount),
                2 => (set_balance(credits, amount).ok(), amount - credits.balance),
                3 => (refund(credits, &earlier_charge).ok(), amount),
                4 => {
                    let taken = credits.balance.min(amount + 1);
                    (Some(revoke(credits, &earlier_grant)), -taken)
                }
                _ => (charge(credits, amount).ok(), -amount),
            };
            if let Some(event) = event {
                credits = credits.apply(&event);
                events += 1;
                sum += change;
            }
            prop_assert!(credits.balance >= 0);
        }
        prop_assert_eq!((credits.balance, credits.version), (sum, events));
    }

    /// The model looks at every single credit on its way down: a threshold is crossed by the step from it.
    #[test]
    fn each_crossing_by_a_charge_is_recorded_once(
        thresholds in prop::collection::vec(1_i64..60, 0..=5),
        commands in prop::collection::vec((0..6, 0_i64..40), 0..80),
    ) {
        let low_balance_at = LowBalanceAt::of(thresholds).unwrap();
        let mut credits = Credits { low_balance_at, ..Credits::default() };
        let (mut recorded, mut expected) = (0, 0);
        for (kind, amount) in commands {
            let earlier_charge = charge(given(100), amount).unwrap();
            let earlier_grant = grant(given(0), amount + 1).unwrap();
            let event = match kind {
                0 => grant(credits, amount).ok(),
                1 => adjust(credits, 20 - amount).ok(),
                2 => refund(credits, &earlier_charge).ok(),
                3 => Some(revoke(credits, &earlier_grant)),
                _ => charge(credits, amount).ok(),
            };
            let Some(event) = event else { continue };
            let after = credits.apply(&event);
            let steps = after.balance + 1..=credits.balance;
            let is_crossing = matches!(event, CreditsEvent::Charged(_))
                && steps.clone().any(|balance| low_balance_at.as_slice().contains(&balance));
            if let Some(threshold) = crossed_threshold(&event) {
                recorded += 1;
                let mut crossed = steps.filter(|it| low_balance_at.as_slice().contains(it));
                prop_assert_eq!(crossed.next(), Some(threshold), "the lowest");
            }
            expected += i32::from(is_crossing);
            credits = after;
        }
        prop_assert_eq!(recorded, expected);
    }
}
