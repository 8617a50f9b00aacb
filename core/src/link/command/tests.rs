use uuid::Uuid;

use super::*;
use crate::link::{LinkEvent, OwnHosts};

fn destination(text: &str) -> Destination {
    Destination::parse(text, &OwnHosts::default()).unwrap()
}

fn create(slug_is_free: bool) -> CreateLink {
    CreateLink {
        link_id: LinkId::from_uuid(Uuid::from_u128(1)),
        account_id: AccountId::from_uuid(Uuid::from_u128(2)),
        slug: Slug::parse("Spring").unwrap(),
        slug_is_free,
        short_url: "https://sho.rt/Spring".to_owned(),
        draft: LinkDraft::to(destination("https://example.com")),
    }
}

fn active() -> ExistingLink {
    ExistingLink::new(Link::Absent.decide_create(create(true)).unwrap())
}

fn disabled() -> ExistingLink {
    let event = active().decide_disable("phishing").unwrap().unwrap();
    active().apply(&LinkEvent::Disabled(event))
}

fn deleted() -> ExistingLink {
    let event = active().decide_delete(&ExpectedVersion::Any).unwrap();
    active().apply(&LinkEvent::Deleted(event.unwrap()))
}

fn change(to: &str, expected_version: ExpectedVersion) -> ChangeDestination {
    ChangeDestination {
        destination: Some(destination(to)),
        expected_version,
    }
}

#[test]
fn create_with_free_slug_makes_link() {
    let created = Link::Absent.decide_create(create(true)).unwrap();
    assert_eq!(created.slug, "Spring");
    assert_eq!(created.destination_url, "https://example.com/");
    let link = Link::Absent.apply(&LinkEvent::Created(created));
    assert_eq!(link, Link::Existing(active()));
}

#[test]
fn create_with_taken_slug_is_rejected() {
    assert_eq!(
        Link::Absent.decide_create(create(false)),
        Err(CreateLinkError::SlugTaken)
    );
}

#[test]
fn create_of_existing_link_is_rejected() {
    assert_eq!(
        Link::Existing(active()).decide_create(create(true)),
        Err(CreateLinkError::AlreadyExists)
    );
}

#[test]
fn change_of_destination_takes_effect() {
    for (link, is_disabled) in [(active(), false), (disabled(), true)] {
        let version = link.version;
        let command = change(
            "https://example.com/new",
            ExpectedVersion::OneOf(vec![version]),
        );
        let changed = link.decide_change_destination(&command).unwrap().unwrap();
        assert_eq!(changed.previous_destination_url, "https://example.com/");
        let link = link.apply(&LinkEvent::DestinationChanged(changed));
        assert_eq!(link.state.destination_url, "https://example.com/new");
        assert_eq!(link.state.disabled, is_disabled);
        assert_eq!(link.version, version + 1);
    }
}

#[test]
fn unchanged_destination_creates_no_event() {
    let same = change("HTTPS://EXAMPLE.COM", ExpectedVersion::Any);
    assert_eq!(active().decide_change_destination(&same), Ok(None));
    let nothing = ChangeDestination {
        destination: None,
        expected_version: ExpectedVersion::Any,
    };
    assert_eq!(active().decide_change_destination(&nothing), Ok(None));
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
            assert_eq!(active().decide_change_destination(&command), Err(conflict));
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
    assert_eq!(
        deleted().decide_change_destination(&command),
        Err(ChangeLinkError::NotFound)
    );
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
    let link = disabled().apply(&LinkEvent::Enabled(enabled));
    assert!(!link.state.disabled);
    assert_eq!(link.decide_enable("again"), Ok(None));
}
