//! A database in memory, with the state that commands read.

use super::*;
use crate::link::{ExistingLink, LinkEvent};

/// The state of the database that commands read.
#[derive(Clone, Default)]
pub(super) struct World {
    pub(super) credits: HashMap<AccountId, Credits>,
    pub(super) stored: HashMap<(AccountId, IdempotencyKey), SettledCreate>,
    /// Links by folded slug.
    pub(super) taken_slugs: HashMap<String, LinkId>,
    pub(super) links: HashMap<(AccountId, LinkId), SettledLink>,
    pub(super) log: Vec<NewEvent>,
}

/// Difference between the numbers of the ids of two creates of a bulk, above all other numbers.
pub(super) const BULK_IDS_STEP: u128 = 1_000;

/// Answer to a command.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Created(LinkId),
    Changed(SettledLink),
    Bulk(Vec<Answer>),
    WouldCreate(LinkId),
    Rejected(CommandRejection),
    SlugNotReserved,
}

impl World {
    pub(super) fn with_balances(balances: &[i64]) -> Self {
        let credits = |balance: &i64| Credits {
            balance: *balance,
            version: 0,
        };
        let accounts = (0_u8..).zip(balances);
        Self {
            credits: accounts
                .map(|(number, balance)| (account(number), credits(balance)))
                .collect(),
            ..Self::default()
        }
    }

    /// Runs the commands as one batch and "commits" the batch.
    pub(super) fn run(&mut self, commands: &[(LinkCommand, DecisionIds)]) -> Vec<Answer> {
        let pricing = pricing();
        let of_batch: Vec<&LinkCommand> = commands.iter().map(|(command, _)| command).collect();
        let ids: Vec<DecisionIds> = commands.iter().flat_map(ids_of).collect();
        let taken = |slug: &String| self.taken_slugs.contains_key(slug);
        let of_bulks = SlugPlan::slugs_of_bulks(&of_batch).into_iter();
        let of_bulks: HashSet<String> = of_bulks.filter(taken).collect();
        let input = SlugPlanInput {
            credits: &self.credits,
            stored: &self.stored,
            taken: &of_bulks,
            price: pricing.link_price,
        };
        let plan = SlugPlan::new(&of_batch, &ids, input);
        let found = plan.to_look_up.iter().filter(|slug| taken(slug));
        let found = found.cloned().chain(of_bulks);
        let mut reserved: HashMap<String, LinkId> = HashMap::new();
        for wanted in &plan.to_reserve {
            let slug = wanted.slug.folded();
            if !taken(&slug) {
                reserved.entry(slug).or_insert(wanted.link_id);
            }
        }
        let state = LoadedState {
            credits: self.credits.clone(),
            stored: self.stored.clone(),
            taken_slugs: plan.taken(&reserved, found),
            reserved_slugs: reserved.clone(),
            external_ids: self.external_ids(),
            links: self.links.clone(),
        };
        let mut batch = CommandBatch::new(&pricing, 1, state);
        let outcomes: Vec<CommandOutcome> = with_ids(&of_batch, &ids)
            .map(|(command, ids)| batch.decide(command, ids))
            .collect();
        let mut decided = batch.finish();
        let events = decided.accepted.iter().flat_map(|it| it.events.clone());
        let head = self.log.len();
        self.log.extend(events);
        let appended: Vec<_> = (head + 1..)
            .zip(&self.log[head..])
            .map(|(position, event)| event.recorded(i64::try_from(position).unwrap()))
            .collect();
        decided.set_positions(&appended);
        let DecidedBatch {
            accepted,
            credits,
            unused_slugs,
        } = decided;
        self.credits = credits;
        let used = reserved.into_iter();
        self.taken_slugs
            .extend(used.filter(|(slug, _)| !unused_slugs.contains(slug)));
        for ((command, _), outcome) in commands.iter().zip(&outcomes) {
            match (command, outcome) {
                (LinkCommand::Bulk(bulk), CommandOutcome::Bulk(outcomes)) => {
                    let creates = bulk.creates.iter().cloned().map(LinkCommand::Create);
                    for (create, outcome) in creates.zip(outcomes) {
                        self.commit(&create, outcome, &accepted);
                    }
                }
                _ => self.commit(command, outcome, &accepted),
            }
        }
        outcomes
            .into_iter()
            .map(|outcome| answer(outcome, &accepted))
            .collect()
    }

    /// Runs the commands as one batch, then those to retry as another one, until only commands that
    /// would fail alone too are left. Returns the commands with their answers, in the order in which
    /// they were decided at last.
    pub(super) fn run_with_retries(
        &mut self,
        commands: &[(LinkCommand, DecisionIds)],
    ) -> Vec<((LinkCommand, DecisionIds), Answer)> {
        let mut decided = Vec::new();
        let mut waiting = commands.to_vec();
        while !waiting.is_empty() {
            let answers = self.run(&waiting);
            let count = waiting.len();
            let (retried, settled): (Vec<_>, Vec<_>) = waiting
                .into_iter()
                .zip(answers)
                .partition(|(_, answer)| *answer == Answer::SlugNotReserved);
            decided.extend(settled);
            if retried.len() == count {
                decided.extend(retried);
                break;
            }
            waiting = retried.into_iter().map(|(command, _)| command).collect();
        }
        decided
    }

    fn commit(
        &mut self,
        command: &LinkCommand,
        outcome: &CommandOutcome,
        accepted: &[AcceptedCommand],
    ) {
        let CommandOutcome::Accepted(number) = outcome else {
            return;
        };
        match (command, &accepted[*number].settled) {
            (LinkCommand::Create(create), SettledCommand::Create(settled)) => {
                self.stored
                    .insert((create.account_id, create.key), settled.clone());
                let link = SettledLink {
                    link: ExistingLink::new(&settled.link, settled.created_at),
                    // Position of `LinkCreated`, right before the charge.
                    position: settled.position - 1,
                };
                self.links
                    .insert((create.account_id, settled.link.link_id), link);
            }
            (LinkCommand::Change(change), SettledCommand::Change(settled)) => {
                self.links.insert(
                    (change.account_id, change.link_id.unwrap()),
                    settled.clone(),
                );
            }
            (
                LinkCommand::Create(_) | LinkCommand::Bulk(_) | LinkCommand::Change(_),
                SettledCommand::Change(_) | SettledCommand::Create(_),
            ) => panic!("{command:?} is settled otherwise"),
        }
    }

    /// Returns the links that hold an external id.
    pub(super) fn external_ids(&self) -> HashMap<ExternalIdKey, LinkId> {
        let held = self.links.iter().filter_map(|((account_id, link_id), it)| {
            let external_id = it.link.state.held_external_id()?;
            Some(((*account_id, external_id.to_owned()), *link_id))
        });
        held.collect()
    }

    /// Returns the link according to the log.
    pub(super) fn fold(&self, link_id: LinkId) -> Option<ExistingLink> {
        let events = self.log.iter().filter_map(|it| match &it.event {
            Event::Link(event) if event.link_id() == link_id => Some((event, it.recorded_at)),
            Event::Link(_) | Event::Account(_) | Event::Credits(_) => None,
        });
        events.fold(None, |link: Option<ExistingLink>, (event, at)| {
            if let LinkEvent::Created(created) = event {
                return Some(ExistingLink::new(created, at));
            }
            Some(link?.apply(event))
        })
    }
}

/// Returns the ids of all decisions of a command: the given ones for its first create.
fn ids_of((command, first): &(LinkCommand, DecisionIds)) -> Vec<DecisionIds> {
    let number = first.link_id.uuid().as_u128();
    let later = (1..command.size() as u128).map(|create| ids(number + create * BULK_IDS_STEP));
    std::iter::once(first.clone()).chain(later).collect()
}

fn answer(outcome: CommandOutcome, accepted: &[AcceptedCommand]) -> Answer {
    match outcome {
        CommandOutcome::Accepted(number) | CommandOutcome::AcceptedBefore(number) => {
            match &accepted[number].settled {
                SettledCommand::Create(settled) => Answer::Created(settled.link.link_id),
                SettledCommand::Change(settled) => Answer::Changed(settled.clone()),
            }
        }
        CommandOutcome::Replay(settled) => Answer::Created(settled.link.link_id),
        CommandOutcome::Unchanged(settled) => Answer::Changed(*settled),
        CommandOutcome::Bulk(outcomes) => {
            let answers = outcomes
                .into_iter()
                .map(|outcome| answer(outcome, accepted));
            Answer::Bulk(answers.collect())
        }
        CommandOutcome::DryRun(outcomes) => {
            let answers = outcomes.into_iter().map(|outcome| match outcome {
                DryRunOutcome::WouldCreate(settled) => Answer::WouldCreate(settled.link.link_id),
                DryRunOutcome::WouldReplay(settled) => Answer::Created(settled.link.link_id),
                DryRunOutcome::Rejected(rejection) => Answer::Rejected(rejection),
            });
            Answer::Bulk(answers.collect())
        }
        CommandOutcome::Rejected(rejection) => Answer::Rejected(rejection),
        CommandOutcome::SlugNotReserved => Answer::SlugNotReserved,
    }
}
