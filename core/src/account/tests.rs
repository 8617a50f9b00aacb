use proptest::prelude::*;
use time::macros::datetime;
use uuid::Uuid;

use super::*;
use crate::{change::ValueUpdate, credits::LowBalanceAt, id::AccountId};

const ACCOUNT: AccountId = AccountId::from_uuid(Uuid::from_u128(7));

fn given(status: AccountStatus) -> Account {
    Account {
        account_id: ACCOUNT,
        name: "Example Ltd".to_owned(),
        external_id: Some("customers/4711".to_owned()),
        low_balance_at: low_balance_at(&[10, 100]),
        status,
        created_at: datetime!(2026-11-20 09:51:00.123 UTC),
    }
}

fn low_balance_at(thresholds: &[i64]) -> LowBalanceAt {
    LowBalanceAt::of(thresholds.to_vec()).unwrap()
}

fn suspend(account: Account, stop_redirects: bool) -> Option<AccountStatus> {
    let event = account.decide_suspend("abuse", stop_redirects)?;
    Some(account.apply(&AccountEvent::Suspended(event)).status)
}

fn resume(account: Account) -> Option<AccountStatus> {
    let event = account.decide_resume("appeal")?;
    Some(account.apply(&AccountEvent::Resumed(event)).status)
}

#[test]
fn suspend_changes_status_or_returns_none() {
    let [soft, hard] =
        [false, true].map(|stop_redirects| AccountStatus::Suspended { stop_redirects });
    for (status, stop_redirects, then) in [
        (AccountStatus::Active, false, Some(soft)),
        (AccountStatus::Active, true, Some(hard)),
        (soft, true, Some(hard)),
        (hard, false, Some(soft)),
        (soft, false, None),
        (hard, true, None),
    ] {
        assert_eq!(suspend(given(status), stop_redirects), then, "{status:?}");
    }
}

#[test]
fn resume_activates_suspended_accounts_only() {
    for stop_redirects in [false, true] {
        let suspended = AccountStatus::Suspended { stop_redirects };
        assert_eq!(resume(given(suspended)), Some(AccountStatus::Active));
    }
    assert_eq!(resume(given(AccountStatus::Active)), None);
}

#[test]
fn created_account_is_active() {
    let account = given(AccountStatus::Active);
    let created = AccountCreated {
        account_id: ACCOUNT,
        name: account.name.clone(),
        external_id: account.external_id.clone(),
        low_balance_at: account.low_balance_at,
    };
    assert_eq!(Account::new(&created, account.created_at), account);
}

#[test]
fn change_has_only_members_that_differ() {
    let account = given(AccountStatus::Active);
    let same = AccountChangeRequest {
        name: Some(account.name.clone()),
        external_id: ValueUpdate::to(account.external_id.clone()),
        low_balance_at: Some(account.low_balance_at),
    };
    assert_eq!(account.decide_change(&same), None);
    assert_eq!(
        account.decide_change(&AccountChangeRequest::default()),
        None
    );
    let without = AccountChangeRequest {
        external_id: ValueUpdate::Remove,
        ..same
    };
    let changed = account.decide_change(&without).unwrap();
    assert_eq!(changed.changes.name, None);
    assert_eq!(changed.changes.low_balance_at, None);
    let changed = account.apply(&AccountEvent::Changed(changed));
    assert_eq!(
        (changed.name.as_str(), changed.external_id),
        ("Example Ltd", None)
    );
}

#[test]
fn account_after_event_has_members_of_answers() {
    let json = r#"{"name":"Example Ltd","external_id":"customers/4711","low_balance_at":[10,100],"state":"active","balance":5,"created_at":"2026-11-20T09:51:00.123Z"}"#;
    let active = given(AccountStatus::Active).after(5);
    assert_eq!(serde_json::to_string(&active).unwrap(), json);
    let stopped = AccountStatus::Suspended {
        stop_redirects: true,
    };
    let stopped = given(stopped).after(5);
    let json = json.replace(r#""active","#, r#""suspended","redirects_stopped":true,"#);
    assert_eq!(serde_json::to_string(&stopped).unwrap(), json);
    let silent = Account {
        low_balance_at: LowBalanceAt::NONE,
        ..given(AccountStatus::Active)
    };
    let silent = silent.after(5);
    let json = serde_json::to_string(&silent).unwrap();
    assert!(!json.contains("low_balance_at"), "{json}");
    for after in [active, stopped, silent] {
        let json = serde_json::to_string(&after).unwrap();
        assert_eq!(serde_json::from_str::<AccountAfter>(&json).unwrap(), after);
    }
}

#[test]
fn external_id_has_letters_digits_and_few_signs() {
    let longest = "x".repeat(EXTERNAL_ID_LENGTH_MAX);
    for text in [
        "a",
        "customers/4711",
        "a.b_c:d/e@f-G9",
        "...",
        ".a",
        &longest,
    ] {
        assert_eq!(parse_external_id(text).as_deref(), Some(text));
    }
    let too_long = format!("{longest}x");
    for text in ["", ".", "..", " ", "a b", "a%", "\u{e9}", "a\n", &too_long] {
        assert_eq!(parse_external_id(text), None, "{text:?}");
    }
}

fn some_status() -> impl Strategy<Value = AccountStatus> {
    prop_oneof![
        Just(AccountStatus::Active),
        any::<bool>().prop_map(|stop_redirects| AccountStatus::Suspended { stop_redirects }),
    ]
}

proptest! {
    #[test]
    fn decided_change_leads_to_the_request(
        status in some_status(),
        name in prop::option::of("[ab]"),
        id in prop::option::of("[ab]"),
        thresholds in prop::option::of(prop::collection::vec(1_i64..4, 0..4)),
    ) {
        let before = given(status);
        let wanted = AccountChangeRequest {
            name: name.clone(),
            external_id: ValueUpdate::to(id.clone()),
            low_balance_at: thresholds.map(|it| low_balance_at(&it)),
        };
        let after = match before.decide_change(&wanted) {
            Some(changed) => before.clone().apply(&AccountEvent::Changed(changed)),
            None => before.clone(),
        };
        prop_assert_eq!(&after.name, name.as_ref().unwrap_or(&before.name));
        prop_assert_eq!(&after.external_id, &id);
        let thresholds = wanted.low_balance_at.unwrap_or(before.low_balance_at);
        prop_assert_eq!(after.low_balance_at, thresholds);
        prop_assert_eq!(after.status, status);
        prop_assert_eq!(after.decide_change(&wanted), None);
    }
}
