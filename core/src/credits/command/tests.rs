use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::credits::CreditsEvent;

const ACCOUNT: AccountId = AccountId::from_uuid(Uuid::from_u128(7));

fn grant(credits: Credits, amount: i64) -> Result<CreditsEvent, CreditsError> {
    let granted = credits.decide_grant(ACCOUNT, amount, "top-up");
    granted.map(CreditsEvent::Granted)
}

fn adjust(credits: Credits, amount: i64) -> Result<CreditsEvent, CreditsError> {
    let adjusted = credits.decide_adjust(ACCOUNT, amount, "billed twice");
    adjusted.map(CreditsEvent::Adjusted)
}

fn charge(credits: Credits, price: i64) -> Result<CreditsEvent, InsufficientCredits> {
    let link_id = LinkId::from_uuid(Uuid::from_u128(9));
    let key_id = KeyId::from_uuid(Uuid::from_u128(11));
    let charged = credits.decide_charge(ACCOUNT, price, link_id, key_id);
    charged.map(CreditsEvent::Charged)
}

fn given(balance: i64) -> Credits {
    Credits {
        balance,
        version: 3,
    }
}

#[test]
fn charge_lowers_the_balance() {
    let event = charge(given(5), 2).unwrap();
    assert_eq!(
        given(5).apply(&event),
        Credits {
            balance: 3,
            version: 4
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
            version: 4
        }
    );
}

#[test]
fn zero_and_overflowing_grants_are_rejected() {
    assert_eq!(grant(given(5), 0), Err(CreditsError::AmountNotPositive));
    assert_eq!(grant(given(5), -1), Err(CreditsError::AmountNotPositive));
    assert_eq!(
        grant(given(1), i64::MAX),
        Err(CreditsError::BalanceTooLarge)
    );
}

#[test]
fn adjustment_raises_or_lowers_balance_to_zero() {
    for (amount, balance) in [(3, 8), (-3, 2), (-5, 0)] {
        let event = adjust(given(5), amount).unwrap();
        assert_eq!(
            given(5).apply(&event),
            Credits {
                balance,
                version: 4
            }
        );
    }
}

#[test]
fn zero_negative_and_overflowing_adjustments_are_rejected() {
    assert_eq!(adjust(given(5), 0), Err(CreditsError::AmountIsZero));
    assert_eq!(
        adjust(given(1), i64::MAX),
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
fn other_events_of_the_stream_keep_balance() {
    let expected = Credits {
        balance: 5,
        version: 4,
    };
    assert_eq!(given(5).pass(), expected);
}

proptest! {
    #[test]
    fn commands_conserve_credits_and_nonnegative_balance(
        commands in prop::collection::vec((0..3, 0_i64..100), 0..60)
    ) {
        let mut credits = Credits::default();
        let (mut sum, mut events) = (0, 0);
        for (kind, amount) in commands {
            let (event, change) = match kind {
                0 => (grant(credits, amount).ok(), amount),
                1 => (adjust(credits, 50 - amount).ok(), 50 - amount),
                _ => (charge(credits, amount).ok(), -amount),
            };
            if let Some(event) = event {
                credits = credits.apply(&event);
                events += 1;
                sum += change;
            }
            prop_assert!(credits.balance >= 0);
        }
        prop_assert_eq!(credits, Credits { balance: sum, version: events });
    }
}
