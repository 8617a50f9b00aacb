use time::macros::datetime;
use uuid::Uuid;

use super::*;
use crate::{
    json::JsonObject,
    link::{DestinationRules, DisabledBy, members::parse_patch},
};

const NOW: OffsetDateTime = datetime!(2026-11-20 10:00 UTC);

fn destination(text: &str) -> Destination {
    Destination::parse(text, &DestinationRules::default()).unwrap()
}

fn create(slug_is_free: bool) -> CreateLink {
    CreateLink {
        link_id: LinkId::from_uuid(Uuid::from_u128(1)),
        account_id: AccountId::from_uuid(Uuid::from_u128(2)),
        slug: Slug::parse("Spring").unwrap(),
        slug_is_free,
        external_id_holder: None,
        now: NOW,
        short_url: "https://sho.rt/Spring".to_owned(),
        draft: LinkDraft {
            slug: None,
            destination: destination("https://example.com"),
            details: LinkDetails::NONE,
        },
    }
}

fn active() -> ExistingLink {
    ExistingLink::new(&create(true).decide().unwrap(), NOW)
}

fn disabled() -> ExistingLink {
    let event = active().decide_disable("phishing").unwrap().unwrap();
    active().apply(&event)
}

fn deleted() -> ExistingLink {
    let event = active().decide_delete(&ExpectedVersion::Any).unwrap();
    active().apply(&LinkEvent::Deleted(event.unwrap()))
}

fn change(to: &str, expected_version: ExpectedVersion) -> ChangeLink {
    let patch = LinkPatch {
        destination: Some(destination(to)),
        ..LinkPatch::default()
    };
    ChangeLink {
        patch,
        expected_version,
    }
}

fn decide(
    link: &ExistingLink,
    command: &ChangeLink,
) -> Result<Option<LinkDestinationChanged>, ChangeLinkError> {
    match &link.decide_change(command, NOW)?[..] {
        [] => Ok(None),
        [LinkEvent::DestinationChanged(changed)] => Ok(Some(changed.clone())),
        events => panic!("{events:?}"),
    }
}

/// Applies a merge patch to the link. Returns the link, or the code of the field error.
fn patched(link: &ExistingLink, patch: &str) -> Result<ExistingLink, FieldError> {
    let object = JsonObject::parse(patch.as_bytes()).unwrap();
    let command = ChangeLink {
        patch: parse_patch(&object, &DestinationRules::default()).unwrap(),
        expected_version: ExpectedVersion::Any,
    };
    match link.decide_change(&command, NOW) {
        Ok(events) => Ok(events.iter().fold(link.clone(), ExistingLink::apply)),
        Err(ChangeLinkError::Invalid(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn create_with_free_slug_makes_link() {
    let created = create(true).decide().unwrap();
    assert_eq!(created.slug, "Spring");
    assert_eq!(&*created.destination_url, "https://example.com/");
    assert_eq!(ExistingLink::new(&created, NOW), active());
}

#[test]
fn create_with_taken_slug_is_rejected() {
    assert_eq!(create(false).decide(), Err(CreateLinkError::SlugTaken));
}

#[test]
fn change_of_destination_takes_effect() {
    for (link, is_disabled) in [(active(), false), (disabled(), true)] {
        let version = link.version;
        let command = change(
            "https://example.com/new",
            ExpectedVersion::OneOf(vec![version]),
        );
        let changed = decide(&link, &command).unwrap().unwrap();
        assert_eq!(&*changed.previous_destination_url, "https://example.com/");
        let link = link.apply(&LinkEvent::DestinationChanged(changed));
        assert_eq!(&*link.state.destination_url, "https://example.com/new");
        assert_eq!(link.state.disabled_by().is_some(), is_disabled);
        assert_eq!(link.version, version + 1);
    }
}

#[test]
fn unchanged_destination_creates_no_event() {
    let same = change("HTTPS://EXAMPLE.COM", ExpectedVersion::Any);
    assert_eq!(decide(&active(), &same), Ok(None));
    let nothing = ChangeLink {
        patch: LinkPatch::default(),
        expected_version: ExpectedVersion::Any,
    };
    assert_eq!(decide(&active(), &nothing), Ok(None));
}

#[test]
fn unexpected_version_rejects_change_and_delete() {
    for expected in [
        ExpectedVersion::OneOf(vec![2, 3]),
        ExpectedVersion::OneOf(vec![]),
    ] {
        let conflict = ChangeLinkError::VersionConflict { actual: 1 };
        // Even if the command would not change the destination.
        for to in ["https://example.com", "https://example.com/new"] {
            let command = change(to, expected.clone());
            assert_eq!(decide(&active(), &command), Err(conflict.clone()));
        }
        assert_eq!(active().decide_delete(&expected), Err(conflict));
    }
}

#[test]
fn deleted_link_stays_deleted() {
    assert!(deleted().state.deleted);
    let stale = ExpectedVersion::OneOf(vec![1]);
    assert_eq!(deleted().decide_delete(&stale), Ok(None));
    let command = change("https://example.com/new", ExpectedVersion::Any);
    assert_eq!(decide(&deleted(), &command), Err(ChangeLinkError::NotFound));
    assert_eq!(
        deleted().decide_disable("late"),
        Err(ChangeLinkError::NotFound)
    );
    assert_eq!(
        deleted().decide_enable("late"),
        Err(ChangeLinkError::NotFound)
    );
}

#[test]
fn enable_reverts_disable() {
    assert_eq!(disabled().decide_disable("again"), Ok(None));
    let enabled = disabled().decide_enable("appeal").unwrap().unwrap();
    let link = disabled().apply(&enabled);
    assert_eq!(link.state.disabled_by(), None);
    assert_eq!(link.decide_enable("again"), Ok(None));
}

/// Returns the link after each step: a patch of the owner, or an operator's command.
fn after(steps: &[&str]) -> ExistingLink {
    steps.iter().fold(active(), |link, step| {
        let event = match *step {
            "disable" => link.decide_disable("test"),
            "enable" => link.decide_enable("test"),
            patch => return patched(&link, patch).unwrap(),
        };
        link.apply(&event.unwrap().unwrap())
    })
}

const OWN_DISABLE: &str = r#"{"disabled":true}"#;
const OWN_ENABLE: &str = r#"{"disabled":null}"#;

#[test]
fn owner_and_operator_disable_independently() {
    let (operator, owner) = (Some(DisabledBy::Operator), Some(DisabledBy::Owner));
    for (steps, disabled_by) in [
        (&[OWN_DISABLE][..], owner),
        (&[OWN_DISABLE, OWN_ENABLE], None),
        (&[OWN_DISABLE, "disable"], operator),
        (&["disable", OWN_DISABLE], operator),
        (&["disable", OWN_DISABLE, "enable"], owner),
        (&["disable", OWN_DISABLE, "enable", OWN_ENABLE], None),
    ] {
        let link = after(steps);
        assert_eq!(link.state.disabled_by(), disabled_by, "{steps:?}");
        assert_eq!(link.version, 1 + i64::try_from(steps.len()).unwrap());
    }
}

#[test]
fn events_name_the_role_that_keeps_a_link_disabled() {
    let link = after(&[OWN_DISABLE]);
    let Some(LinkEvent::Disabled(disabled)) = link.decide_disable("test").unwrap() else {
        panic!("not disabled");
    };
    let roles = (disabled.by, disabled.disabled_by);
    assert_eq!(roles, (DisabledBy::Operator, DisabledBy::Operator));
    let link = after(&[OWN_DISABLE, "disable"]);
    let Some(LinkEvent::Enabled(enabled)) = link.decide_enable("test").unwrap() else {
        panic!("not enabled");
    };
    let roles = (enabled.by, enabled.disabled_by);
    assert_eq!(roles, (DisabledBy::Operator, Some(DisabledBy::Owner)));
}

#[test]
fn owner_cannot_enable_what_an_operator_disabled() {
    let object = JsonObject::parse(br#"{"disabled":false,"title":"A"}"#).unwrap();
    let command = ChangeLink {
        patch: parse_patch(&object, &DestinationRules::default()).unwrap(),
        expected_version: ExpectedVersion::Any,
    };
    for link in [after(&["disable"]), after(&["disable", OWN_DISABLE])] {
        let refused = link.decide_change(&command, NOW);
        assert_eq!(refused, Err(ChangeLinkError::DisabledByOperator));
    }
    assert_eq!(after(&[r#"{"disabled":false}"#]), active());
}

#[test]
fn details_are_set_replaced_and_removed() {
    let set = r#"{"title":"A","external_id":"x/1","tags":["b","a"],
        "expires_at":"2026-11-20T12:00:00.1239+01:00","expired_url":"HTTPS://example.com"}"#;
    let link = patched(&active(), set).unwrap();
    assert_eq!(link.version, 2);
    let details = serde_json::to_value(&link.state.details).unwrap();
    let expected = serde_json::json!({
        "title": "A", "external_id": "x/1", "tags": ["a", "b"],
        "expires_at": "2026-11-20T11:00:00.123Z", "expired_url": "https://example.com/",
    });
    assert_eq!(details, expected);
    assert_eq!(patched(&link, set).unwrap().version, 2, "nothing changes");

    let link = patched(&link, r#"{"title":null,"tags":[],"expires_at":null}"#).unwrap();
    let details = serde_json::to_value(&link.state.details).unwrap();
    assert_eq!(details, serde_json::json!({ "external_id": "x/1" }));
    let link = patched(&link, r#"{"external_id":null}"#).unwrap();
    assert_eq!(link.state.details, LinkDetails::NONE);
}

#[test]
fn expiry_must_be_new_or_in_the_next_100_years() {
    let past = r#"{"expires_at":"2026-11-20T10:00:00Z"}"#;
    let error = |code| Err(FieldError::of_member(EXPIRES_AT, code));
    assert_eq!(
        patched(&active(), past),
        error(FieldCode::ExpiresAtInThePast)
    );
    let far = r#"{"expires_at":"2126-11-22T10:00:00Z"}"#;
    assert_eq!(patched(&active(), far), error(FieldCode::ExpiresAtInvalid));
    let mut expired = active();
    expired.state.details.expires_at = Some(Expiry::at(NOW));
    assert_eq!(patched(&expired, past).unwrap().version, 1);
    let mut command = create(true);
    command.draft.details.expires_at = Some(Expiry::at(NOW));
    let error = FieldError::of_member(EXPIRES_AT, FieldCode::ExpiresAtInThePast);
    let expected = Err(CreateLinkError::Invalid(error));
    assert_eq!(command.decide(), expected);
}

#[test]
fn expired_url_needs_an_expiry() {
    let code = FieldCode::ExpiredUrlWithoutExpiresAt;
    let error = Err(FieldError::of_member(EXPIRED_URL, code));
    let url = r#"{"expired_url":"https://example.com/"}"#;
    assert_eq!(patched(&active(), url), error);
    let both = r#"{"expires_at":null,"expired_url":"https://example.com/"}"#;
    assert_eq!(patched(&active(), both), error);
    assert_eq!(
        patched(&active(), r#"{"expired_url":null}"#)
            .unwrap()
            .version,
        1
    );
}

#[test]
fn every_change_of_details_can_be_undone() {
    let set = r#"{"title":"A","tags":["a"],"expires_at":"2027-01-01T00:00:00Z"}"#;
    let before = patched(&active(), set).unwrap();
    for patch in [
        r#"{"title":null}"#,
        r#"{"title":"B","tags":null,"external_id":"x"}"#,
        r#"{"expires_at":null}"#,
    ] {
        let after = patched(&before, patch).unwrap();
        let changes = DetailChanges::between(&before.state.details, &after.state.details);
        let event = LinkEvent::DetailsChanged(LinkDetailsChanged {
            link_id: before.link_id,
            account_id: before.account_id,
            changes: changes.unwrap(),
        });
        assert_eq!(
            after.state.undo(&event),
            Some(before.state.clone()),
            "{patch}"
        );
        assert_eq!(before.state.undo(&event), None, "{patch}");
    }
}
