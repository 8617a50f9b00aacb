//! Cases that no damage of a real database shows: rows that were read earlier, and doubled streams.

use linkledger_core::{
    account::AccountStatus,
    credits::{Credits, CreditsGranted},
    envelope::Metadata,
    id::EventId,
    link::{DisabledBy, LinkCreated, LinkDeleted, LinkDisabled, LinkState},
};
use linkledger_event_store::accounts::AccountAtHead;
use linkledger_testing as testing;
use time::OffsetDateTime;
use uuid::Uuid;

use super::*;

const ACCOUNT: AccountId = AccountId::from_uuid(Uuid::from_u128(7));
const LINK: LinkId = LinkId::from_uuid(Uuid::from_u128(8));

/// Returns the findings in events, each given with its version and the state of its link after the
/// event. The accounts were read while `accounts_known_up_to` was the head.
fn found(
    events: &[(i64, Event, Option<LinkState>)],
    accounts: Vec<AccountAtHead>,
    accounts_known_up_to: Position,
) -> Vec<(Option<Position>, String)> {
    let head = i64::try_from(events.len()).unwrap();
    let expected = Expected {
        epoch: 1,
        extent: ShardExtent { head, last: head },
        accounts,
        accounts_known_up_to,
        segments: Vec::new(),
        external_ids: ExternalIdsAtHead::default(),
    };
    let mut audit = Audit::new(Shard::of(ACCOUNT), expected);
    for ((version, event, link), position) in events.iter().zip(1..) {
        let metadata = Metadata {
            link: link.clone().map(Into::into),
            ..Metadata::default()
        };
        audit.event(&StoredEvent {
            row: &[],
            position,
            stream_id: event.subject().stream_id(),
            version: *version,
            account_id: ACCOUNT,
            event_id: EventId::from_uuid(Uuid::nil()),
            event_type: event.event_type(),
            schema_version: event.schema_version(),
            payload: &event.to_payload(),
            metadata: &serde_json::to_string(&metadata).unwrap(),
            recorded_at: OffsetDateTime::UNIX_EPOCH,
            idempotency_key: None,
        });
    }
    let (_, shown) = Findings::total(vec![audit.finish().findings]);
    shown
        .into_iter()
        .map(|finding| (finding.position, finding.what))
        .collect()
}

fn granted(version: i64, balance_after: i64) -> (i64, Event, Option<LinkState>) {
    let granted = CreditsGranted {
        account_id: ACCOUNT,
        amount: 10,
        balance_after,
        reason: "x".to_owned(),
    };
    (
        version,
        Event::Credits(CreditsEvent::Granted(granted)),
        None,
    )
}

fn row(version: i64, balance: i64, head: Position) -> AccountAtHead {
    AccountAtHead {
        account_id: ACCOUNT,
        shard: Shard::of(ACCOUNT).number(),
        credits: Credits { balance, version },
        status: AccountStatus::Active,
        head,
    }
}

fn link_created() -> LinkCreated {
    testing::link_created(LINK, ACCOUNT, "spring", "https://e.com/")
}

fn created(version: i64) -> (i64, Event, Option<LinkState>) {
    let event = LinkEvent::Created(link_created());
    (version, Event::Link(event), None)
}

fn changed(
    version: i64,
    event: LinkEvent,
    disabled_by_operator: bool,
    deleted: bool,
) -> (i64, Event, Option<LinkState>) {
    let state = LinkState {
        disabled_by_operator,
        deleted,
        ..LinkState::new(&link_created(), OffsetDateTime::UNIX_EPOCH)
    };
    (version, Event::Link(event), Some(state))
}

#[test]
fn row_is_compared_at_its_own_version() {
    let events = [granted(1, 10), granted(2, 20), granted(3, 30)];
    assert_eq!(found(&events, vec![row(2, 20, 2)], 2), []);
    let wrong = found(&events, vec![row(2, 21, 2)], 2);
    assert_eq!(wrong.len(), 1);
    assert_eq!(wrong[0].0, Some(2));
    let behind = found(&events, vec![row(2, 20, 3)], 3);
    assert_eq!(behind.len(), 1, "{behind:?}");
    assert_eq!(behind[0].0, Some(3));
}

#[test]
fn account_newer_than_rows_needs_no_row() {
    let events = [granted(1, 10)];
    assert_eq!(found(&events, Vec::new(), 0), []);
    assert_eq!(found(&events, Vec::new(), 1).len(), 1);
}

#[test]
fn row_without_events_must_be_initial() {
    assert_eq!(found(&[], vec![row(0, 0, 0)], 0), []);
    assert_eq!(found(&[], vec![row(0, 5, 0)], 0).len(), 1);
}

#[test]
fn event_after_link_deletion_is_found() {
    let (link_id, account_id) = (LINK, ACCOUNT);
    let deleted = LinkEvent::Deleted(LinkDeleted {
        link_id,
        account_id,
        slug: "spring".to_owned(),
    });
    let disabled = LinkEvent::Disabled(LinkDisabled {
        link_id,
        account_id,
        reason: "x".to_owned(),
        by: DisabledBy::Operator,
        disabled_by: DisabledBy::Operator,
    });
    let unpaid = (
        Some(2),
        format!("the CreditsCharged of {LINK}, created right before, should stand here"),
    );
    let sound = [
        created(1),
        changed(2, disabled.clone(), true, false),
        changed(3, deleted.clone(), true, true),
    ];
    assert_eq!(found(&sound, Vec::new(), 0), [unpaid]);
    for after in [
        changed(3, disabled.clone(), true, false),
        changed(3, deleted.clone(), false, true),
        created(3),
    ] {
        let events = [created(1), changed(2, deleted.clone(), false, true), after];
        let found = found(&events, Vec::new(), 0);
        assert!(
            found.iter().any(|(position, _)| *position == Some(3)),
            "{found:?}"
        );
    }
}

#[test]
fn stream_without_link_created_is_found() {
    let disabled = LinkEvent::Disabled(LinkDisabled {
        link_id: LINK,
        account_id: ACCOUNT,
        reason: "x".to_owned(),
        by: DisabledBy::Operator,
        disabled_by: DisabledBy::Operator,
    });
    let what = format!("{LINK}: its stream begins with this, not with LinkCreated");
    let events = [changed(1, disabled, true, false)];
    assert_eq!(found(&events, Vec::new(), 0), [(Some(1), what)]);
}

#[test]
fn missing_charge_at_log_end_is_found() {
    let expected = (Some(1), format!("no CreditsCharged of {LINK} follows"));
    assert_eq!(found(&[created(1)], Vec::new(), 0), [expected]);
}
