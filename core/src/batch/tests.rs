use proptest::prelude::*;
use time::macros::datetime;

use super::*;
use crate::{
    field::FieldCode,
    link::{OwnHosts, Slug},
};

const TERMS_PRICE: i64 = 1;

fn terms() -> Terms {
    Terms {
        link_price: TERMS_PRICE,
        short_base_url: "https://sho.rt".to_owned(),
    }
}

fn account(number: u8) -> AccountId {
    AccountId::from_uuid(Uuid::from_u128(u128::from(number)))
}

fn stamp(number: u128) -> Stamp {
    Stamp {
        now: datetime!(2026-11-20 10:00 UTC),
        link_id: LinkId::from_uuid(Uuid::from_u128(number)),
        event_ids: [1, 2].map(|n| EventId::from_uuid(Uuid::from_u128(number * 10 + n))),
        generated_slug: Slug::parse(&format!("gen{number}")).unwrap(),
    }
}

/// Body `0` is invalid; the others differ from each other and ask for the slug, if any.
fn create(account_number: u8, key: u8, body: u8, slug: Option<&str>) -> KeyedCreate {
    let draft = LinkDraft {
        slug: slug.map(|slug| Slug::parse(slug).unwrap()),
        destination: Destination::parse("https://example.com", &OwnHosts::default()).unwrap(),
    };
    let error = FieldError::of_member("destination_url", FieldCode::Required);
    KeyedCreate {
        account_id: account(account_number),
        key: IdempotencyKey(Uuid::from_u128(u128::from(key))),
        fingerprint: [body; 32],
        body: if body == 0 {
            Err(vec![error])
        } else {
            Ok(draft)
        },
        metadata: Metadata::default(),
    }
}

/// The database as far as creates see it.
#[derive(Clone, Default)]
struct World {
    credits: HashMap<AccountId, Credits>,
    stored: HashMap<(AccountId, IdempotencyKey), SettledCreate>,
    taken_slugs: HashSet<String>,
}

impl World {
    fn with_balances(balances: &[i64]) -> Self {
        let credits = (0_u8..)
            .zip(balances)
            .map(|(number, balance)| {
                (
                    account(number),
                    Credits {
                        balance: *balance,
                        version: 0,
                    },
                )
            })
            .collect();
        Self {
            credits,
            ..Self::default()
        }
    }

    /// Runs the commands as one batch and "commits" it. Replays are told by the link they name.
    fn run(&mut self, commands: &[(KeyedCreate, Stamp)]) -> Vec<Result<LinkId, Outcome>> {
        let wanted = |(create, stamp): &(KeyedCreate, Stamp)| {
            let draft = create.body.as_ref().ok()?;
            Some(
                draft
                    .slug
                    .as_ref()
                    .unwrap_or(&stamp.generated_slug)
                    .folded(),
            )
        };
        let free: HashSet<String> = commands
            .iter()
            .filter_map(wanted)
            .filter(|slug| !self.taken_slugs.contains(slug))
            .collect();
        let terms = terms();
        let (credits, stored) = (self.credits.clone(), self.stored.clone());
        let mut batch = Batch::new(&terms, 1, credits, stored, free.clone());
        let outcomes: Vec<Outcome> = commands
            .iter()
            .map(|(create, stamp)| batch.decide(create, stamp))
            .collect();
        let decided = batch.finish();
        self.credits = decided.credits;
        self.taken_slugs.extend(free);
        for unused in &decided.unused_slugs {
            self.taken_slugs.remove(unused);
        }
        let keys = commands
            .iter()
            .zip(&outcomes)
            .filter_map(|((create, _), outcome)| {
                matches!(outcome, Outcome::Accepted(_)).then_some((create.account_id, create.key))
            });
        let settled = decided
            .accepted
            .iter()
            .map(|accepted| accepted.settled.clone());
        self.stored.extend(keys.zip(settled));
        let link_of = |outcome: Outcome| match outcome {
            Outcome::Accepted(n) | Outcome::ReplayOfAccepted(n) => {
                Ok(decided.accepted[n].settled.link.link_id)
            }
            Outcome::Replay(settled) => Ok(settled.link.link_id),
            other @ (Outcome::KeyReused
            | Outcome::Invalid(_)
            | Outcome::SlugTaken
            | Outcome::SlugCollision
            | Outcome::InsufficientCredits { .. }) => Err(other),
        };
        outcomes.into_iter().map(link_of).collect()
    }
}

#[test]
fn given_a_free_slug_and_credits_then_link_and_charge_stand_side_by_side() {
    let terms = terms();
    let credits = HashMap::from([(
        account(1),
        Credits {
            balance: 5,
            version: 2,
        },
    )]);
    let free = HashSet::from(["spring".to_owned()]);
    let mut batch = Batch::new(&terms, 1, credits, HashMap::new(), free);

    let outcome = batch.decide(&create(1, 1, 1, Some("Spring")), &stamp(7));

    assert_eq!(outcome, Outcome::Accepted(0));
    let decided = batch.finish();
    assert!(decided.unused_slugs.is_empty());
    let [link, charge] = &decided.accepted[0].events;
    assert_eq!((link.event.event_type(), link.version), ("LinkCreated", 1));
    assert_eq!(
        (charge.event.event_type(), charge.version),
        ("CreditsCharged", 3)
    );
    assert_eq!(link.metadata.renderer, Some(1));
    assert!(link.idempotency.is_some() && charge.idempotency.is_none());
    assert_eq!(
        decided.accepted[0].settled.link.short_url,
        "https://sho.rt/Spring"
    );
    assert_eq!(decided.accepted[0].settled.charge.balance_after, 4);
}

#[test]
fn a_used_key_is_answered_before_the_body_is_looked_at() {
    let mut world = World::with_balances(&[1]);
    let first = world.run(&[(create(0, 1, 1, None), stamp(1))]);
    assert_eq!(first, [Ok(stamp(1).link_id)]);
    // The balance is 0 by now.
    let again = world.run(&[
        (create(0, 1, 1, None), stamp(2)),
        (create(0, 1, 0, None), stamp(3)),
        (create(0, 2, 0, None), stamp(4)),
    ]);
    let invalid = Outcome::Invalid(create(0, 2, 0, None).body.unwrap_err());
    assert_eq!(
        again,
        [Ok(stamp(1).link_id), Err(Outcome::KeyReused), Err(invalid)]
    );
}

#[test]
fn a_slug_goes_to_the_first_command_that_is_accepted() {
    let mut world = World::with_balances(&[0, 1, 1]);
    let outcomes = world.run(&[
        (create(0, 1, 1, Some("Spring")), stamp(1)),
        (create(1, 2, 1, Some("sprinG")), stamp(2)),
        (create(2, 3, 1, Some("spring")), stamp(3)),
    ]);
    let broke = Outcome::InsufficientCredits {
        balance: 0,
        required: 1,
    };
    assert_eq!(
        outcomes,
        [Err(broke), Ok(stamp(2).link_id), Err(Outcome::SlugTaken)]
    );
}

#[test]
fn when_the_first_use_of_a_key_is_refused_the_second_is_decided_on_its_own() {
    let mut world = World::with_balances(&[5]);
    world.run(&[(create(0, 1, 1, Some("taken")), stamp(1))]);
    let outcomes = world.run(&[
        (create(0, 2, 1, Some("taken")), stamp(2)),
        (create(0, 2, 2, Some("other")), stamp(3)),
    ]);
    assert_eq!(outcomes, [Err(Outcome::SlugTaken), Ok(stamp(3).link_id)]);
}

#[test]
fn a_generated_slug_that_is_not_free_is_to_be_drawn_again() {
    let mut world = World::with_balances(&[5]);
    world.run(&[(create(0, 1, 1, Some("gen2")), stamp(1))]);
    let outcomes = world.run(&[(create(0, 2, 1, None), stamp(2))]);
    assert_eq!(outcomes, [Err(Outcome::SlugCollision)]);
}

/// `ABC` is `abc` asked for by another request. The last ones are those that the first five
/// stamps would generate: whoever comes second gets `SlugCollision` or `SlugTaken`. Together and
/// one after the other agree on that too, because a batch reserves chosen and generated slugs
/// alike, and a slug stays free for the next command until one is accepted with it.
const SLUGS: &[&str] = &[
    "abc", "ABC", "def", "ghi", "gen1", "gen2", "gen3", "gen4", "gen5",
];

prop_compose! {
    /// Few accounts, keys, bodies and slugs, so that commands get into each other's way.
    fn any_command()(
        account in 0_u8..3,
        key in 0_u8..6,
        body in 0_u8..4,
        slug in prop::option::of(prop::sample::select(SLUGS)),
    ) -> KeyedCreate {
        create(account, key, body, slug)
    }
}

proptest! {
    #[test]
    fn a_batch_equals_the_same_commands_one_after_the_other(
        balances in prop::collection::vec(0_i64..4, 3),
        commands in prop::collection::vec(any_command(), 1..20),
        split in 0_usize..20,
    ) {
        let commands: Vec<_> = commands.into_iter().zip((1..).map(stamp)).collect();
        let (earlier, batch) = commands.split_at(split.min(commands.len()));
        let mut batched = World::with_balances(&balances);
        batched.run(earlier);
        let mut serial = batched.clone();

        let together = batched.run(batch);
        let mut alone = Vec::new();
        for command in batch {
            alone.extend(serial.run(std::slice::from_ref(command)));
        }

        prop_assert_eq!(together, alone);
        prop_assert_eq!(&batched.credits, &serial.credits);
        prop_assert_eq!(&batched.taken_slugs, &serial.taken_slugs);
        prop_assert_eq!(&batched.stored, &serial.stored);
        for (number, granted) in (0_u8..).zip(&balances) {
            let credits = batched.credits[&account(number)];
            let links = batched.stored.keys().filter(|(id, _)| *id == account(number)).count();
            prop_assert!(credits.balance >= 0);
            prop_assert_eq!(granted - credits.balance, i64::try_from(links).unwrap());
        }
    }
}
