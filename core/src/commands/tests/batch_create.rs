//! Creates of one request, decided together: all or nothing, or without effect.

use super::*;

/// Creates of one account with different keys, of which several have a fault now and then.
fn batch(mode: BatchMode, creates: impl IntoIterator<Item = LinkCommand>) -> LinkCommand {
    let creates = creates.into_iter().map(|create| match create {
        LinkCommand::Create(create) => create,
        LinkCommand::Batch(_) | LinkCommand::Change(_) => panic!("not a create"),
    });
    let creates: Vec<KeyedCreate> = creates.collect();
    LinkCommand::Batch(BatchCreate {
        account_id: creates[0].account_id,
        mode,
        creates,
    })
}

pub(super) fn atomic(creates: impl IntoIterator<Item = LinkCommand>) -> LinkCommand {
    batch(BatchMode::Atomic, creates)
}

fn dry_run(creates: impl IntoIterator<Item = LinkCommand>) -> LinkCommand {
    batch(BatchMode::DryRun, creates)
}

/// Few keys, bodies and slugs, as in [`any_create`].
fn any_creates() -> impl Strategy<Value = Vec<LinkCommand>> {
    let keys = prop::sample::subsequence((0_u8..6).collect::<Vec<_>>(), 1..5).prop_shuffle();
    let item = (0_u8..8, prop::option::of(prop::sample::select(SLUGS)));
    (0_u8..3, keys, prop::collection::vec(item, 5)).prop_map(|(account, keys, items)| {
        let items = keys.into_iter().zip(items);
        // Most bodies are valid, so that many atomic requests have an effect.
        let creates = items.map(|(key, (body, slug))| {
            let body = if body < 2 { body } else { 1 + body % 3 };
            create(account, key, body, slug)
        });
        creates.collect()
    })
}

pub(super) fn any_batch(mode: BatchMode) -> impl Strategy<Value = LinkCommand> {
    any_creates().prop_map(move |creates| batch(mode, creates))
}

fn answers(answer: &Answer) -> &[Answer] {
    match answer {
        Answer::Batch(answers) => answers,
        Answer::Created(_)
        | Answer::Changed(_)
        | Answer::WouldCreate(_)
        | Answer::Rejected(_)
        | Answer::SlugNotReserved => panic!("{answer:?}"),
    }
}

fn rejected(answer: &Answer) -> Vec<(usize, Rejection)> {
    match answer {
        Answer::Rejected(Rejection::Items(items)) => items.clone(),
        Answer::Rejected(_)
        | Answer::Created(_)
        | Answer::Changed(_)
        | Answer::WouldCreate(_)
        | Answer::Batch(_)
        | Answer::SlugNotReserved => panic!("{answer:?}"),
    }
}

#[test]
fn atomic_batch_creates_all_links() {
    let mut world = World::with_balances(&[3]);
    let command = atomic([
        create(0, 1, 1, Some("abc")),
        create(0, 2, 1, None),
        create(0, 3, 1, Some("def")),
    ]);
    let first = world.run(&[(command.clone(), ids(1))]);
    assert_eq!(answers(&first[0]).len(), 3);
    assert_eq!(world.log.len(), 6);
    assert_eq!(world.credits[&account(0)].balance, 0);
    // The same request again, at balance 0.
    assert_eq!(world.run(&[(command, ids(2))]), first);
    assert_eq!(world.log.len(), 6);
}

#[test]
fn atomic_batch_names_offenders_of_first_stage() {
    let mut world = World::with_balances(&[2, 2]);
    world.run(&[(create(1, 1, 1, Some("abc")), ids(1))]);
    let invalid = Rejection::Invalid(vec![field_error()]);
    let broke = Rejection::InsufficientCredits(InsufficientCredits {
        balance: 2,
        required: 4,
    });
    let no_fault = || create(0, 9, 1, None);
    for (creates, expected) in [
        (
            vec![
                create(0, 1, 1, Some("abc")),
                create(0, 2, 0, None),
                no_fault(),
                create(0, 3, 0, None),
            ],
            vec![(1, invalid.clone()), (3, invalid)],
        ),
        (
            vec![
                create(0, 1, 1, Some("abc")),
                no_fault(),
                create(0, 2, 1, Some("def")),
                create(0, 3, 1, Some("DEF")),
            ],
            vec![(0, taken("abc")), (3, taken("DEF"))],
        ),
        (
            vec![
                no_fault(),
                create(0, 1, 1, Some("def")),
                create(0, 2, 1, None),
                create(0, 3, 1, None),
            ],
            vec![(2, broke.clone()), (3, broke)],
        ),
    ] {
        let answers = world.run(&[(atomic(creates), ids(5))]);
        assert_eq!(rejected(&answers[0]), expected);
    }
    assert_eq!(world.stored.len(), 1);
}

#[test]
fn batch_gives_an_external_id_to_one_link() {
    let mut world = World::with_balances(&[9]);
    let creates = || {
        [
            create(0, 1, 3, Some("abc")),
            create(0, 2, 1, None),
            create(0, 3, 3, Some("def")),
        ]
    };
    let taken = |holder| Rejection::ExternalIdTaken { holder };
    let refused = world.run(&[(atomic(creates()), ids(5))]);
    assert_eq!(rejected(&refused[0]), [(2, taken(None))]);
    assert!(world.taken_slugs.is_empty());
    let tried = world.run(&[(dry_run(creates()), ids(6))]);
    let [first, second, third] = answers(&tried[0]) else {
        panic!("{tried:?}");
    };
    assert_eq!(*first, Answer::WouldCreate(ids(6).link_id));
    assert!(matches!(second, Answer::WouldCreate(_)), "{second:?}");
    assert_eq!(*third, Answer::Rejected(taken(None)));

    // A create before the batch has taken the external id.
    let committed = world.run(&[
        (create(0, 4, 3, Some("abc")), ids(7)),
        (atomic([create(0, 5, 3, None)]), ids(8)),
    ]);
    assert_eq!(committed[0], Answer::Created(ids(7).link_id));
    assert_eq!(rejected(&committed[1]), [(0, taken(Some(ids(7).link_id)))]);
}

#[test]
fn mixture_of_used_and_new_keys_is_rejected() {
    let mut world = World::with_balances(&[5]);
    world.run(&[
        (create(0, 1, 1, None), ids(1)),
        (create(0, 2, 1, None), ids(2)),
    ]);
    let reused = Rejection::KeyReused;
    for (creates, expected) in [
        // Used keys beside a new one.
        (
            [
                create(0, 1, 1, None),
                create(0, 3, 1, None),
                create(0, 2, 1, None),
            ],
            vec![(0, reused.clone()), (2, reused.clone())],
        ),
        // A key that was used for another body, even if all keys were used.
        (
            [
                create(0, 1, 1, None),
                create(0, 2, 2, None),
                create(0, 3, 0, None),
            ],
            vec![(1, reused.clone())],
        ),
    ] {
        let answers = world.run(&[(atomic(creates), ids(9))]);
        assert_eq!(rejected(&answers[0]), expected);
    }
    assert_eq!(world.stored.len(), 2);
}

#[test]
fn dry_run_shows_outcomes_and_changes_nothing() {
    let mut world = World::with_balances(&[2]);
    world.run(&[(create(0, 1, 1, Some("abc")), ids(1))]);
    let before = world.clone();
    let command = dry_run([
        create(0, 1, 1, Some("abc")),
        create(0, 2, 1, Some("abc")),
        create(0, 3, 1, Some("def")),
        create(0, 4, 1, None),
    ]);
    let outcome = world.run(&[(command, ids(2))]);
    let broke = Rejection::InsufficientCredits(InsufficientCredits {
        balance: 0,
        required: 1,
    });
    let third = ids(2 + 2 * world::BATCH_IDS_STEP).link_id;
    let expected = [
        Answer::Created(ids(1).link_id),
        Answer::Rejected(taken("abc")),
        Answer::WouldCreate(third),
        Answer::Rejected(broke),
    ];
    assert_eq!(answers(&outcome[0]), expected);
    assert_eq!(world.log, before.log);
    assert_eq!(world.credits, before.credits);
    assert_eq!(world.taken_slugs, before.taken_slugs);
}

/// The atomic request must not reserve its slugs: the earlier create has one of them.
#[test]
fn atomic_batch_loses_slug_to_earlier_command() {
    let mut world = World::with_balances(&[1, 2]);
    let command = atomic([create(1, 2, 1, Some("def")), create(1, 3, 1, Some("abc"))]);
    let answers = world.run(&[
        (create(0, 1, 1, Some("abc")), ids(1)),
        (command, ids(2)),
        (create(1, 4, 1, Some("def")), ids(3)),
    ]);
    assert_eq!(answers[0], Answer::Created(ids(1).link_id));
    assert_eq!(rejected(&answers[1]), [(1, taken("abc"))]);
    assert_eq!(answers[2], Answer::Created(ids(3).link_id));
}

proptest! {
    /// A dry run has the outcomes of the creates one after the other; an atomic request has their
    /// effect if all of them have one, and none otherwise.
    #[test]
    fn batch_equals_its_creates_or_has_no_effect(
        balances in prop::collection::vec(0_i64..6, 3),
        earlier in prop::collection::vec(any_create(), 1..6),
        creates in any_creates(),
    ) {
        let mut before = World::with_balances(&balances);
        let earlier: Vec<_> = earlier.into_iter().zip((1..).map(ids)).collect();
        before.run(&earlier);
        let numbers = (0..creates.len() as u128).map(|create| 100 + create * world::BATCH_IDS_STEP);
        let one_by_one: Vec<_> = creates.iter().cloned().zip(numbers.map(ids)).collect();
        let mut serial = before.clone();
        let expected: Vec<Answer> = one_by_one
            .iter()
            .map(|create| serial.run(std::slice::from_ref(create)).remove(0))
            .collect();

        let mut tried = before.clone();
        let outcomes = tried.run(&[(dry_run(creates.clone()), ids(100))]);
        let has_effect = |create: &(LinkCommand, DecisionInput), answer: &Answer| {
            *answer == Answer::Created(create.1.link_id)
        };
        let is_own = |link_id: &LinkId| one_by_one.iter().any(|(_, ids)| ids.link_id == *link_id);
        let would = one_by_one.iter().zip(&expected).map(|(create, answer)| {
            if has_effect(create, answer) {
                return Answer::WouldCreate(create.1.link_id);
            }
            if let Answer::Rejected(Rejection::ExternalIdTaken { holder: Some(link_id) }) = answer
                && is_own(link_id)
            {
                return Answer::Rejected(Rejection::ExternalIdTaken { holder: None });
            }
            answer.clone()
        });
        prop_assert_eq!(answers(&outcomes[0]), would.collect::<Vec<_>>());
        prop_assert_eq!(&tried.log, &before.log);
        prop_assert_eq!(&tried.credits, &before.credits);
        prop_assert_eq!(&tried.taken_slugs, &before.taken_slugs);

        let mut together = before.clone();
        let outcomes = together.run(&[(atomic(creates), ids(100))]);
        let effects = one_by_one.iter().zip(&expected);
        let effects = effects.filter(|(create, answer)| has_effect(create, answer)).count();
        let replays = expected.iter().filter(|answer| matches!(answer, Answer::Created(_)));
        let replays = replays.count() - effects;
        if effects == expected.len() {
            prop_assert_eq!(answers(&outcomes[0]), &expected[..]);
            prop_assert_eq!(&together.log, &serial.log);
            prop_assert_eq!(&together.credits, &serial.credits);
            prop_assert_eq!(&together.taken_slugs, &serial.taken_slugs);
        } else {
            if replays == expected.len() {
                prop_assert_eq!(answers(&outcomes[0]), &expected[..]);
            } else {
                prop_assert!(!rejected(&outcomes[0]).is_empty());
            }
            prop_assert_eq!(&together.log, &before.log);
            prop_assert_eq!(&together.credits, &before.credits);
            prop_assert_eq!(&together.taken_slugs, &before.taken_slugs);
        }
    }
}
