use proptest::prelude::*;
use time::macros::datetime;
use uuid::Uuid;

use super::*;
use crate::{
    credits::InsufficientCredits,
    envelope::{Metadata, NewEvent, StateAfter},
    event::Event,
    field::{FieldCode, FieldError},
    id::KeyId,
    link::{
        ChangeLink, Destination, DestinationRules, DetailsPatch, ExpectedVersion, LinkDetails,
        LinkPatch, ValueUpdate,
    },
};

mod batch_create;
mod world;

use world::{Answer, World};

const TERMS_PRICE: i64 = 1;
const KEY_ID: KeyId = KeyId::from_uuid(Uuid::from_u128(11));
const EXTERNAL_IDS: &[&str] = &["a", "b"];

fn terms() -> CreateTerms {
    CreateTerms {
        link_price: TERMS_PRICE,
        short_base_url: "https://sho.rt".to_owned(),
    }
}

/// Returns an id that no link of [`ids`] has.
fn account(number: u8) -> AccountId {
    AccountId::from_uuid(Uuid::from_u128(0xACC0_0000 + u128::from(number)))
}

fn ids(number: u128) -> DecisionInput {
    DecisionInput {
        now: datetime!(2026-11-20 10:00 UTC),
        link_id: LinkId::from_uuid(Uuid::from_u128(number)),
        event_ids: [1, 2, 3].map(|n| EventId::from_uuid(Uuid::from_u128(number * 10 + n))),
        generated_slug: Slug::parse(&format!("gen{number}")).unwrap(),
    }
}

/// Body `0` is invalid; the other bodies differ from each other and request the given slug. Body `3`
/// also requests an external id.
fn create(account_number: u8, key: u8, body: u8, slug: Option<&str>) -> LinkCommand {
    let mut draft = LinkDraft {
        slug: slug.map(|slug| Slug::parse(slug).unwrap()),
        destination: destination("https://example.com"),
        details: LinkDetails::NONE,
    };
    draft.details.external_id = (body == 3).then(|| EXTERNAL_IDS[0].to_owned());
    LinkCommand::Create(KeyedCreate {
        account_id: account(account_number),
        key_id: KEY_ID,
        key: IdempotencyKey(Uuid::from_u128(u128::from(key))),
        fingerprint: [body; 32],
        body: if body == 0 {
            Err(vec![field_error()])
        } else {
            Ok(draft)
        },
        metadata: Metadata::default(),
    })
}

fn change(account_number: u8, link: u128, request: ChangeRequest) -> LinkCommand {
    LinkCommand::Change(LinkChange {
        account_id: account(account_number),
        link_id: Some(ids(link).link_id),
        request,
        metadata: Metadata::default(),
    })
}

fn point_to(to: &str, expected_version: ExpectedVersion) -> ChangeRequest {
    let patch = LinkPatch {
        destination: Some(destination(to)),
        ..LinkPatch::default()
    };
    ChangeRequest::Patch(Ok(ChangeLink {
        patch,
        expected_version,
    }))
}

/// Sets or removes the external id; a change of the destination comes with it, and links with an external id are
/// disabled.
fn identify(external_id: Option<&str>, expected_version: ExpectedVersion) -> ChangeRequest {
    let patch = LinkPatch {
        destination: Some(destination("https://identified.com")),
        details: DetailsPatch {
            external_id: ValueUpdate::to(external_id.map(str::to_owned)),
            ..DetailsPatch::default()
        },
        disabled: Some(external_id.is_some()),
    };
    ChangeRequest::Patch(Ok(ChangeLink {
        patch,
        expected_version,
    }))
}

fn destination(text: &str) -> Destination {
    Destination::parse(text, &DestinationRules::default()).unwrap()
}

fn taken(slug: &str) -> Rejection {
    Rejection::SlugTaken(Slug::parse(slug).unwrap())
}

fn field_error() -> FieldError {
    FieldError::of_member("destination_url", FieldCode::Required)
}

#[test]
fn accepted_create_appends_link_and_charge() {
    let terms = terms();
    let credits = HashMap::from([(
        account(1),
        Credits {
            balance: 5,
            version: 2,
            ..Credits::default()
        },
    )]);
    let state = LoadedState {
        credits,
        reserved_slugs: HashMap::from([("spring".to_owned(), ids(7).link_id)]),
        ..LoadedState::default()
    };
    let mut group = CommitGroup::new(&terms, 1, state);

    let outcome = group.decide(&create(1, 1, 1, Some("Spring")), &[ids(7)]);

    let Some(CommandOutcome::Create(Ok(Created { settled, is_replay }))) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(!is_replay);
    let decided = group.finish();
    assert!(decided.unused_slugs.is_empty());
    let [link, charge] = &decided.events[..] else {
        panic!("{:?}", decided.events);
    };
    assert_eq!((link.event.event_type(), link.version), ("LinkCreated", 1));
    assert_eq!(
        (charge.event.event_type(), charge.version),
        ("CreditsCharged", 3)
    );
    assert_eq!(link.metadata.renderer, Some(1));
    assert!(link.idempotency.is_some() && charge.idempotency.is_none());
    assert_eq!(settled.link.short_url, "https://sho.rt/Spring");
    assert_eq!(settled.charge.balance_after, 4);
}

#[test]
fn commit_group_records_each_crossing_once() {
    let mut world = World::with_balances(&[6, 3]).with_thresholds(&[2, 4]);
    let batch = batch_create::atomic([create(0, 4, 1, None), create(0, 5, 1, None)]);
    let commands = [
        (create(0, 1, 1, None), ids(1)),
        (create(1, 2, 1, None), ids(2)),
        // A replay of the first one.
        (create(0, 1, 1, None), ids(3)),
        (create(0, 3, 1, None), ids(4)),
        (batch, ids(5)),
        (create(1, 6, 1, None), ids(6)),
        (create(0, 7, 1, None), ids(7)),
    ];
    let answers = world.run(&commands);
    assert_eq!(answers[0], answers[2]);
    assert_eq!(world.crossed(account(0)), [4, 2]);
    assert_eq!(world.crossed(account(1)), [2]);
    let log = world.log.clone();
    world.run(&commands);
    assert_eq!(world.log, log, "all are replayed");
}

#[test]
fn used_key_is_answered_before_body_validation() {
    let mut world = World::with_balances(&[1]);
    let first = world.run(&[(create(0, 1, 1, None), ids(1))]);
    assert_eq!(first, [Answer::Created(ids(1).link_id)]);
    // The balance is now 0.
    let again = world.run(&[
        (create(0, 1, 1, None), ids(2)),
        (create(0, 1, 0, None), ids(3)),
        (create(0, 2, 0, None), ids(4)),
    ]);
    let invalid = Rejection::Invalid(vec![field_error()]);
    assert_eq!(
        again,
        [
            Answer::Created(ids(1).link_id),
            Answer::Rejected(Rejection::KeyReused),
            Answer::Rejected(invalid)
        ]
    );
}

#[test]
fn first_accepted_command_takes_the_slug() {
    let mut world = World::with_balances(&[0, 1, 1]);
    let outcomes = world.run(&[
        (create(0, 1, 1, Some("Spring")), ids(1)),
        (create(1, 2, 1, Some("sprinG")), ids(2)),
        (create(2, 3, 1, Some("spring")), ids(3)),
    ]);
    let broke = Rejection::InsufficientCredits(InsufficientCredits {
        balance: 0,
        required: 1,
    });
    assert_eq!(
        outcomes,
        [
            Answer::Rejected(broke),
            Answer::Created(ids(2).link_id),
            Answer::Rejected(taken("spring"))
        ]
    );
}

#[test]
fn key_of_rejected_create_can_be_reused() {
    let mut world = World::with_balances(&[5]);
    world.run(&[(create(0, 1, 1, Some("taken")), ids(1))]);
    let group = [
        (create(0, 2, 1, Some("taken")), ids(2)),
        (create(0, 2, 2, Some("other")), ids(3)),
    ];
    let outcomes = world.run_with_retries(&group).into_iter().map(|it| it.1);
    assert_eq!(
        outcomes.collect::<Vec<_>>(),
        [
            Answer::Rejected(taken("taken")),
            Answer::Created(ids(3).link_id)
        ]
    );
}

#[test]
fn create_is_retried_if_rejection_leaves_credits() {
    let mut world = World::with_balances(&[2]);
    world.run(&[(create(0, 1, 1, Some("taken")), ids(1))]);
    let outcomes = world.run(&[
        (create(0, 2, 1, Some("taken")), ids(2)),
        (create(0, 3, 1, Some("free")), ids(3)),
        (create(0, 4, 1, Some("taken")), ids(4)),
    ]);
    let taken = Answer::Rejected(taken("taken"));
    assert_eq!(outcomes, [taken.clone(), Answer::SlugNotReserved, taken]);
    let retried = world.run(&[(create(0, 3, 1, Some("free")), ids(5))]);
    assert_eq!(retried, [Answer::Created(ids(5).link_id)]);
}

/// The second create finds the slug free and can pay, but the slug is reserved for the third.
#[test]
fn slug_reserved_for_another_link_is_not_used() {
    let mut world = World::with_balances(&[2, 1]);
    world.run(&[(create(0, 1, 1, Some("taken")), ids(1))]);
    let outcomes = world.run(&[
        (create(0, 2, 1, Some("taken")), ids(2)),
        (create(0, 3, 1, Some("xyz")), ids(3)),
        (create(1, 4, 1, Some("xyz")), ids(4)),
    ]);
    let taken = Answer::Rejected(taken("taken"));
    let expected = [
        taken,
        Answer::SlugNotReserved,
        Answer::Created(ids(4).link_id),
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(world.taken_slugs["xyz"], ids(4).link_id);
}

#[test]
fn unpayable_create_reserves_no_slug() {
    let commands = [
        create(0, 1, 1, None),
        create(0, 2, 1, Some("Spring")),
        create(0, 3, 1, None),
    ];
    let credits = HashMap::from([(
        account(0),
        Credits {
            balance: 1,
            version: 1,
            ..Credits::default()
        },
    )]);
    let commands: Vec<_> = commands.iter().collect();
    let ids = [ids(1), ids(2), ids(3)];
    let input = SlugPlanInput {
        credits: &credits,
        stored: &HashMap::new(),
        taken: &HashSet::new(),
        price: 1,
    };
    let plan = SlugPlan::new(&commands, &ids, input);
    let reserved: Vec<_> = plan.to_reserve.iter().map(|it| it.slug.key()).collect();
    assert_eq!(reserved, ["gen1"]);
    assert_eq!(plan.to_look_up, ["spring"]);
}

#[test]
fn taken_generated_slug_is_retried() {
    let mut world = World::with_balances(&[5]);
    world.run(&[(create(0, 1, 1, Some("gen2")), ids(1))]);
    let outcomes = world.run(&[(create(0, 2, 1, None), ids(2))]);
    assert_eq!(outcomes, [Answer::SlugNotReserved]);
}

/// `ABC` is `abc` requested by another body. The last slugs are those that the first five decision
/// ids would generate, so the later command gets `SlugNotReserved` or `SlugTaken`.
const SLUGS: &[&str] = &[
    "abc", "ABC", "def", "ghi", "gen1", "gen2", "gen3", "gen4", "gen5",
];

#[test]
fn changes_of_one_link_apply_in_order() {
    let mut world = World::with_balances(&[1]);
    world.run(&[(create(0, 1, 1, None), ids(1))]);
    let at = |version| ExpectedVersion::OneOf(vec![version]);
    let answers = world.run(&[
        (change(0, 1, point_to("https://a.com", at(1))), ids(2)),
        (change(0, 1, point_to("https://b.com", at(1))), ids(3)),
        (
            change(0, 1, point_to("https://a.com", ExpectedVersion::Any)),
            ids(4),
        ),
        (change(0, 1, ChangeRequest::Delete(at(2))), ids(5)),
        (change(0, 1, ChangeRequest::Delete(at(2))), ids(6)),
        (change(0, 1, point_to("https://c.com", at(3))), ids(7)),
    ]);
    let conflict = Answer::Rejected(Rejection::VersionConflict { actual: 2 });
    let gone = Answer::Rejected(Rejection::LinkNotFound);
    assert_eq!(answers[0], answers[2], "it points there already");
    assert_eq!(answers[1], conflict);
    assert_eq!(answers[3], answers[4], "it is deleted already");
    assert_eq!(answers[5], gone);
    let types: Vec<_> = world.log.iter().map(|it| it.event.event_type()).collect();
    let expected = [
        "LinkCreated",
        "CreditsCharged",
        "LinkDestinationChanged",
        "LinkDeleted",
    ];
    assert_eq!(types, expected);
}

#[test]
fn external_id_is_held_by_one_link_of_an_account() {
    let mut world = World::with_balances(&[9, 9]);
    let any = || ExpectedVersion::Any;
    let answers = world.run_with_retries(&[
        (create(0, 1, 3, None), ids(1)),
        (create(0, 2, 3, Some("other")), ids(2)),
        (create(1, 3, 3, None), ids(3)),
        (create(0, 4, 1, None), ids(4)),
    ]);
    let taken = Answer::Rejected(Rejection::ExternalIdTaken {
        holder: Some(ids(1).link_id),
    });
    assert_eq!(answers[0].1, Answer::Created(ids(1).link_id));
    assert_eq!(answers[1].1, taken);
    assert_eq!(answers[2].1, Answer::Created(ids(3).link_id));
    assert!(!world.taken_slugs.contains_key("other"));
    let answers = world.run(&[
        (change(0, 4, identify(Some("a"), any())), ids(5)),
        (change(0, 1, identify(Some("b"), any())), ids(6)),
        (change(0, 4, identify(Some("a"), any())), ids(7)),
        (change(0, 1, ChangeRequest::Delete(any())), ids(8)),
        (change(0, 4, identify(Some("b"), any())), ids(9)),
    ]);
    assert_eq!(answers[0], taken);
    for answer in &answers[1..] {
        assert!(matches!(answer, Answer::Changed(_)), "{answer:?}");
    }
    let key = |account_number| (account(account_number), "b".to_owned());
    assert_eq!(world.external_ids()[&key(0)], ids(4).link_id);
    assert_eq!(world.external_ids().len(), 2);
}

#[test]
fn patch_of_all_members_appends_three_events() {
    let mut world = World::with_balances(&[1]);
    world.run(&[(create(0, 1, 1, None), ids(1))]);
    let answers = world.run(&[(
        change(0, 1, identify(Some("a"), ExpectedVersion::Any)),
        ids(2),
    )]);
    let Answer::Changed(settled) = &answers[0] else {
        panic!("{answers:?}");
    };
    assert_eq!((settled.link.version, settled.position), (4, 5));
    let versions: Vec<_> = world.log[2..]
        .iter()
        .map(|it| (it.event.event_type(), it.version, it.event_id))
        .collect();
    let [first, second, third] = ids(2).event_ids;
    let expected = [
        ("LinkDestinationChanged", 2, first),
        ("LinkDetailsChanged", 3, second),
        ("LinkDisabled", 4, third),
    ];
    assert_eq!(versions, expected);
}

#[test]
fn change_checks_body_then_existence_then_version() {
    let mut world = World::with_balances(&[1, 1]);
    world.run(&[(create(0, 1, 1, None), ids(1))]);
    let invalid = || ChangeRequest::Patch(Err(vec![field_error()]));
    let stale = || point_to("https://a.com", ExpectedVersion::OneOf(vec![9]));
    let no_link = LinkCommand::Change(LinkChange {
        account_id: account(0),
        link_id: None,
        request: stale(),
        metadata: Metadata::default(),
    });
    let answers = world.run(&[
        (change(0, 7, invalid()), ids(2)),
        (change(0, 7, stale()), ids(3)),
        (no_link, ids(4)),
        (change(1, 1, stale()), ids(5)),
        (change(0, 1, stale()), ids(6)),
    ]);
    let expected = [
        Rejection::Invalid(vec![field_error()]),
        Rejection::LinkNotFound,
        Rejection::LinkNotFound,
        Rejection::LinkNotFound,
        Rejection::VersionConflict { actual: 1 },
    ];
    assert_eq!(answers, expected.map(Answer::Rejected));
}

prop_compose! {
    /// Few accounts, keys, bodies and slugs, so that commands conflict often.
    fn any_create()(
        account in 0_u8..3,
        key in 0_u8..6,
        body in 0_u8..4,
        slug in prop::option::of(prop::sample::select(SLUGS)),
    ) -> LinkCommand {
        create(account, key, body, slug)
    }
}

prop_compose! {
    /// A change of a link that one of the first `existing` commands may have created.
    fn any_change(existing: u128)(
        account in 0_u8..3,
        link in 1..existing + 2,
        to in prop::option::of(prop::sample::select(&["https://a.com", "https://b.com"][..])),
        external_id in prop::option::of(prop::option::of(prop::sample::select(EXTERNAL_IDS))),
        version in prop::option::of(1_i64..4),
    ) -> LinkCommand {
        let expected = version.map_or(ExpectedVersion::Any, |it| ExpectedVersion::OneOf(vec![it]));
        let request = match (to, external_id) {
            (Some(to), None) => point_to(to, expected),
            (Some(_), Some(id)) => identify(id, expected),
            (None, _) => ChangeRequest::Delete(expected),
        };
        change(account, link, request)
    }
}

fn any_command(existing: u128) -> impl Strategy<Value = LinkCommand> {
    prop_oneof![
        3 => any_create(),
        3 => any_change(existing),
        1 => batch_create::any_batch(BatchMode::Atomic),
        1 => batch_create::any_batch(BatchMode::DryRun),
    ]
}

/// Maximal number of links that exist before the commit group.
const EXISTING_MAX: u128 = 8;

proptest! {
    #[test]
    fn group_equals_sequential_commands(
        balances in prop::collection::vec(0_i64..6, 3),
        thresholds in prop::collection::vec(1_i64..6, 0..3),
        creates in prop::collection::vec(any_create(), 1..EXISTING_MAX as usize),
        commands in prop::collection::vec(any_command(EXISTING_MAX), 1..20),
    ) {
        let earlier: Vec<_> = creates.into_iter().zip((1..).map(ids)).collect();
        // No command changes a link of its own commit group: the id of the link is unknown before the
        // answer.
        let group: Vec<_> = commands.into_iter().zip((100..).map(ids)).collect();
        let mut grouped = World::with_balances(&balances).with_thresholds(&thresholds);
        grouped.run(&earlier);
        let mut serial = grouped.clone();

        let (order, together): (Vec<_>, Vec<_>) = grouped.run_with_retries(&group).into_iter().unzip();
        let mut alone = Vec::new();
        for command in &order {
            alone.extend(serial.run(std::slice::from_ref(command)));
        }

        prop_assert_eq!(together, alone);
        prop_assert_eq!(&grouped.credits, &serial.credits);
        prop_assert_eq!(&grouped.taken_slugs, &serial.taken_slugs);
        prop_assert_eq!(&grouped.stored, &serial.stored);
        prop_assert_eq!(&grouped.links, &serial.links);
        prop_assert_eq!(&grouped.external_ids(), &serial.external_ids());
        prop_assert_eq!(&grouped.log, &serial.log);
        for (number, granted) in (0_u8..).zip(&balances) {
            let credits = grouped.credits[&account(number)];
            let links = grouped.stored.keys().filter(|(id, _)| *id == account(number)).count();
            prop_assert!(credits.balance >= 0);
            prop_assert_eq!(granted - credits.balance, i64::try_from(links).unwrap());
            // The price is 1, so each threshold is crossed by the charge that leaves one credit less.
            let thresholds = credits.low_balance_at.as_slice().iter().rev();
            let crossed = thresholds.filter(|it| *granted >= **it && **it > credits.balance);
            let crossed: Vec<i64> = crossed.copied().collect();
            prop_assert_eq!(grouped.crossed(account(number)), crossed);
        }
        for settled in grouped.stored.values() {
            let slug = settled.link.slug.to_ascii_lowercase();
            prop_assert_eq!(grouped.taken_slugs[&slug], settled.link.link_id);
        }
        for ((_, link_id), settled) in &grouped.links {
            prop_assert_eq!(grouped.fold(*link_id), Some(settled.link.clone()));
            let last = &grouped.log[usize::try_from(settled.position - 1).unwrap()];
            prop_assert_eq!(last.metadata.link.is_none(), settled.link.version == 1);
            let kept = last.metadata.link.as_ref().and_then(StateAfter::known);
            prop_assert_eq!(kept.unwrap_or(&settled.link.state), &settled.link.state);
        }
    }
}
