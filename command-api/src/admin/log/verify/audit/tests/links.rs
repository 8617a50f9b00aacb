use linkledger_core::link::{DisabledBy, LinkDeleted, LinkDisabled};

use super::*;

fn created(version: i64) -> TestEvent {
    of_link(version, LinkEvent::Created(link_created()), None)
}

fn changed(version: i64, event: LinkEvent, disabled_by_operator: bool, deleted: bool) -> TestEvent {
    let state = LinkState {
        disabled_by_operator,
        deleted,
        ..LinkState::new(&link_created(), OffsetDateTime::UNIX_EPOCH)
    };
    of_link(version, event, Some(state))
}

fn disabled() -> LinkEvent {
    LinkEvent::Disabled(LinkDisabled {
        link_id: LINK,
        account_id: ACCOUNT,
        reason: "x".to_owned(),
        by: DisabledBy::Operator,
        disabled_by: DisabledBy::Operator,
    })
}

#[test]
fn event_after_link_deletion_is_found() {
    let deleted = LinkEvent::Deleted(LinkDeleted {
        link_id: LINK,
        account_id: ACCOUNT,
        slug: "spring".to_owned(),
    });
    let unpaid = (
        Some(2),
        format!("the CreditsCharged of {LINK}, created right before, should stand here"),
    );
    let sound = [
        created(1),
        changed(2, disabled(), true, false),
        changed(3, deleted.clone(), true, true),
    ];
    assert_eq!(found(&sound), [unpaid]);
    for after in [
        changed(3, disabled(), true, false),
        changed(3, deleted.clone(), false, true),
        created(3),
    ] {
        let events = [created(1), changed(2, deleted.clone(), false, true), after];
        let found = found(&events);
        assert!(
            found.iter().any(|(position, _)| *position == Some(3)),
            "{found:?}"
        );
    }
}

#[test]
fn stream_without_link_created_is_found() {
    let what = format!("{LINK}: its stream begins with this, not with LinkCreated");
    let events = [changed(1, disabled(), true, false)];
    assert_eq!(found(&events), [(Some(1), what)]);
}

#[test]
fn missing_charge_at_log_end_is_found() {
    let expected = (Some(1), format!("no CreditsCharged of {LINK} follows"));
    assert_eq!(found(&[created(1)]), [expected]);
}
