use linkledger_core::{
    account::AccountChangeRequest,
    change::ValueUpdate,
    credits::{ChargeReason, CreditsCharged},
    id::KeyId,
};

use super::*;

#[test]
fn row_is_compared_at_its_own_version() {
    let events = [account_created(), granted(2, 10), granted(3, 20)];
    assert_eq!(found_in(&events, rows(&[row(2, 10, 2)], 2)), []);
    let wrong = found_in(&events, rows(&[row(2, 11, 2)], 2));
    assert_one(&wrong, Some(2), "the balance 11 at version 2");
    let behind = found_in(&events, rows(&[row(2, 10, 3)], 3));
    assert_one(&behind, Some(3), "without this event");
}

#[test]
fn account_newer_than_rows_needs_no_row() {
    let events = [account_created()];
    assert_eq!(found(&events), []);
    let missing = found_in(&events, rows(&[], 1));
    assert_one(&missing, Some(1), "there is no account acc_");
}

#[test]
fn row_without_events_is_found() {
    let found = found_in(&[], rows(&[row(0, 0, 0)], 0));
    assert_one(&found, None, "its AccountCreated is missing");
}

#[test]
fn every_member_of_the_row_follows_from_events() {
    let same = row(1, 0, 1);
    let other = |change: fn(&mut AccountAtHead)| {
        let mut row = same.clone();
        change(&mut row);
        row
    };
    for (row, text) in [
        (other(|row| row.account.name.push('x')), "name"),
        (other(|row| row.account.external_id = None), "external id"),
        (
            other(|row| row.account.low_balance_at = LowBalanceAt::NONE),
            "low_balance_at",
        ),
        (
            other(|row| row.account.created_at += time::Duration::SECOND),
            "time of creation",
        ),
        (
            other(|row| {
                row.account.status = AccountStatus::Suspended {
                    stop_redirects: false,
                };
            }),
            "status, Suspended",
        ),
        (
            other(|row| row.creation_key = Some("x".to_owned())),
            "creation_key",
        ),
    ] {
        let found = found_in(&[account_created()], rows(&[row], 1));
        assert_one(&found, Some(1), text);
    }
    let with_key = TestEvent {
        idempotency_key: Some("account:x"),
        ..account_created()
    };
    let row = other(|row| row.creation_key = Some("x".to_owned()));
    assert_eq!(found_in(&[with_key], rows(&[row], 1)), []);
}

#[test]
fn stream_begins_with_one_creation() {
    assert_one(
        &found(&[granted(1, 10)]),
        Some(1),
        "its stream begins with this, not with AccountCreated",
    );
    let again = TestEvent {
        version: 2,
        ..account_created()
    };
    let found = found(&[account_created(), again]);
    assert_one(&found, Some(2), "it was created before");
}

#[test]
fn metadata_equal_the_account_after_each_event() {
    let account = account();
    let request = AccountChangeRequest {
        name: Some("Example plc".to_owned()),
        external_id: ValueUpdate::Remove,
        low_balance_at: Some(LowBalanceAt::NONE),
    };
    let changed = AccountEvent::Changed(account.decide_change(&request).unwrap());
    let after = account.clone().apply(&changed);
    let suspended = AccountEvent::Suspended(after.decide_suspend("x", true).unwrap());
    let stopped = after.clone().apply(&suspended);
    let sound = [
        account_created(),
        granted(2, 10),
        of_account(3, changed.clone(), &after, 10),
        of_account(4, suspended.clone(), &stopped, 10),
    ];
    assert_eq!(found(&sound), []);
    for (wrong, text) in [
        (of_account(4, suspended.clone(), &after, 10), "status"),
        (of_account(4, suspended.clone(), &stopped, 0), "balance 0"),
        (
            of_account(4, suspended.clone(), &account, 10),
            "come to: name",
        ),
        (
            event(4, Event::Account(suspended.clone())),
            "the metadata don't say",
        ),
        (
            of_account(4, changed.clone(), &after, 10),
            "it changes another low_balance_at",
        ),
    ] {
        let events = [&sound[..3], &[wrong]].concat();
        assert_one(&found(&events), Some(4), text);
    }
}

/// Returns a link and the charge of its price.
fn paid_link(
    (link_number, version): (u128, i64),
    amount: i64,
    balance_after: i64,
    low_balance: Option<i64>,
) -> [TestEvent; 2] {
    let link_id = LinkId::from_uuid(Uuid::from_u128(link_number));
    let slug = format!("link-{link_number}");
    let created = linkledger_testing::link_created(link_id, ACCOUNT, &slug, "https://e.com/");
    let charged = CreditsCharged {
        account_id: ACCOUNT,
        amount,
        balance_after,
        link_id,
        key_id: KeyId::from_uuid(Uuid::nil()),
        reason: ChargeReason::LinkCreated,
        low_balance,
    };
    [
        of_link(1, LinkEvent::Created(created), None),
        event(version, Event::Credits(CreditsEvent::Charged(charged))),
    ]
}

#[test]
fn low_balance_follows_from_balance_amount_and_thresholds() {
    // The account has the thresholds 5 and 8.
    for (low_balance, is_sound) in [(Some(8), true), (Some(5), false), (None, false)] {
        let [link, charge] = paid_link((8, 3), 3, 7, low_balance);
        let found = found(&[account_created(), granted(2, 10), link, charge]);
        assert_eq!(found.is_empty(), is_sound, "{found:?}");
        if !is_sound {
            assert_one(&found, Some(4), "instead of 8");
        }
    }
    let sound = [
        vec![account_created(), granted(2, 10)],
        paid_link((8, 3), 1, 9, None).into(),
        // Both thresholds: the lower one is named.
        paid_link((9, 4), 5, 4, Some(5)).into(),
        vec![granted(5, 14)],
        // The next crossing counts again.
        paid_link((10, 6), 9, 5, Some(8)).into(),
    ]
    .concat();
    assert_eq!(found(&sound), []);
}

#[test]
fn changed_thresholds_count_from_their_event_on() {
    let account = account();
    let request = AccountChangeRequest {
        low_balance_at: Some(LowBalanceAt::of(vec![9]).unwrap()),
        ..AccountChangeRequest::default()
    };
    let changed = AccountEvent::Changed(account.decide_change(&request).unwrap());
    let after = account.apply(&changed);
    for (low_balance, is_sound) in [(Some(9), true), (Some(8), false), (None, false)] {
        let [link, charge] = paid_link((8, 4), 3, 7, low_balance);
        let events = [
            account_created(),
            granted(2, 10),
            of_account(3, changed.clone(), &after, 10),
            link,
            charge,
        ];
        let found = found(&events);
        assert_eq!(found.is_empty(), is_sound, "{found:?}");
    }
    let again = of_account(4, changed.clone(), &after, 10);
    let events = [
        account_created(),
        granted(2, 10),
        of_account(3, changed, &after, 10),
        again,
    ];
    assert_one(
        &found(&events),
        Some(4),
        "it changes another low_balance_at",
    );
}

#[test]
fn idempotency_key_has_the_kind_of_its_event() {
    for (key, is_sound) in [
        ("account:x", true),
        ("account:a:b", true),
        ("grant:x", false),
        ("x", false),
    ] {
        let event = TestEvent {
            idempotency_key: Some(key),
            ..account_created()
        };
        assert_eq!(found(&[event]).is_empty(), is_sound, "{key}");
    }
}
