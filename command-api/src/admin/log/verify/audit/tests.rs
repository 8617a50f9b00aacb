//! Cases that no damage of a real database shows: rows that were read earlier, and doubled streams; accounts, keys,
//! webhooks, reversals and observations, event by event.

mod accounts;
mod keys;
mod links;
mod observations;
mod reversals;
mod webhooks;

use linkledger_core::{
    account::{Account, AccountCreated, AccountEvent, AccountStatus},
    credits::{ChargeReason, Credits, CreditsCharged, CreditsGranted, LowBalanceAt},
    envelope::Metadata,
    id::{EventId, KeyId},
    link::{LinkCreated, LinkState},
};
use linkledger_event_store::accounts::AccountAtHead;
use linkledger_testing as testing;
use time::OffsetDateTime;
use uuid::Uuid;

use super::*;

const ACCOUNT: AccountId = AccountId::from_uuid(Uuid::from_u128(7));

/// Event of a test. Its id is the number of its position.
#[derive(Clone)]
struct TestEvent {
    version: i64,
    event: Event,
    metadata: Metadata,
    idempotency_key: Option<&'static str>,
}

/// Finding: its position and its text.
type Found = (Option<Position>, String);

fn event(version: i64, event: Event) -> TestEvent {
    TestEvent {
        version,
        event,
        metadata: Metadata::default(),
        idempotency_key: None,
    }
}

fn of_link(version: i64, link_event: LinkEvent, after: Option<LinkState>) -> TestEvent {
    let mut test_event = event(version, Event::Link(link_event));
    test_event.metadata.link = after.map(Into::into);
    test_event
}

/// Returns an event of the account itself, with the account after it.
fn of_account(
    version: i64,
    account_event: AccountEvent,
    after: &Account,
    balance: i64,
) -> TestEvent {
    let mut test_event = event(version, Event::Account(account_event));
    test_event.metadata.account = Some(after.after(balance));
    test_event
}

fn account() -> Account {
    Account {
        account_id: ACCOUNT,
        name: "Example Ltd".to_owned(),
        external_id: Some("customers/4711".to_owned()),
        low_balance_at: LowBalanceAt::of(vec![5, 8]).unwrap(),
        status: AccountStatus::Active,
        created_at: OffsetDateTime::UNIX_EPOCH,
    }
}

/// Returns the first event of the account.
fn account_created() -> TestEvent {
    let account = account();
    let created = AccountCreated {
        account_id: ACCOUNT,
        name: account.name.clone(),
        external_id: account.external_id.clone(),
        low_balance_at: account.low_balance_at,
    };
    of_account(1, AccountEvent::Created(created), &account, 0)
}

fn granted(version: i64, balance_after: i64) -> TestEvent {
    let granted = CreditsGranted {
        account_id: ACCOUNT,
        amount: 10,
        balance_after,
        reason: "x".to_owned(),
        reference: None,
        description: None,
    };
    event(version, Event::Credits(CreditsEvent::Granted(granted)))
}

/// Link of the tests.
const LINK: LinkId = LinkId::from_uuid(Uuid::from_u128(8));

fn link_created() -> LinkCreated {
    testing::link_created(LINK, ACCOUNT, "spring", "https://e.com/")
}

/// Returns an account with a grant of 10, and a link with all details that cost 3: four events.
fn paid_link() -> Vec<TestEvent> {
    let charged = CreditsCharged {
        account_id: ACCOUNT,
        amount: 3,
        balance_after: 7,
        link_id: LINK,
        key_id: KeyId::from_uuid(Uuid::nil()),
        reason: ChargeReason::LinkCreated,
        low_balance: Some(8),
    };
    vec![
        account_created(),
        granted(2, 10),
        of_link(1, LinkEvent::Created(link_created()), None),
        event(3, Event::Credits(CreditsEvent::Charged(charged))),
    ]
}

fn row(version: i64, balance: i64, head: Position) -> AccountAtHead {
    AccountAtHead {
        account: account(),
        creation_key: None,
        shard: Shard::of(ACCOUNT).number(),
        credits: Credits {
            balance,
            version,
            ..Credits::default()
        },
        head,
    }
}

/// Returns the rows of a shard without API keys and webhooks. The accounts were read while `known_up_to` was the head.
fn rows(accounts: &[AccountAtHead], known_up_to: Position) -> Expected {
    let mut expected = Expected {
        epoch: 1,
        accounts_known_up_to: known_up_to,
        ..Expected::default()
    };
    let rows = accounts.iter();
    expected.accounts = rows
        .map(|row| AccountRow::of(&expected.texts, row))
        .collect();
    expected
}

/// Returns the findings in events, the first of which has position 1.
fn found_in(events: &[TestEvent], mut expected: Expected) -> Vec<Found> {
    let head = i64::try_from(events.len()).unwrap();
    expected.extent = ShardExtent { head, last: head };
    let mut audit = Audit::new(Shard::of(ACCOUNT), expected);
    for (test_event, position) in events.iter().zip(1..) {
        let event = &test_event.event;
        audit.event(&StoredEvent {
            row: &[],
            position,
            stream_id: event.subject().stream_id(),
            version: test_event.version,
            account_id: ACCOUNT,
            event_id: event_id(position),
            event_type: event.event_type(),
            schema_version: event.schema_version(),
            payload: &event.to_payload(),
            metadata: &serde_json::to_string(&test_event.metadata).unwrap(),
            recorded_at: OffsetDateTime::UNIX_EPOCH,
            idempotency_key: test_event.idempotency_key,
        });
    }
    let (_, shown) = Findings::total(vec![audit.finish().findings]);
    shown
        .into_iter()
        .map(|finding| (finding.position, finding.what))
        .collect()
}

/// Returns the findings in events of an account whose row was not read.
fn found(events: &[TestEvent]) -> Vec<Found> {
    found_in(events, rows(&[], 0))
}

fn event_id(position: Position) -> EventId {
    EventId::from_uuid(Uuid::from_u64_pair(0, position.unsigned_abs()))
}

/// Asserts that there is one finding at the position, with this text in it.
fn assert_one(found: &[Found], position: Option<Position>, text: &str) {
    let is_so = matches!(found, [(at, what)] if *at == position && what.contains(text));
    assert!(is_so, "{text}: {found:?}");
}
