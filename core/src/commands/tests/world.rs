//! A database in memory, with the state that commands read.

use super::*;
use crate::{
    credits::LowBalanceAt,
    link::{ExistingLink, LinkEvent},
};

/// The state of the database that commands read.
#[derive(Clone, Default)]
pub(super) struct World {
    pub(super) credits: HashMap<AccountId, Credits>,
    pub(super) stored: HashMap<(AccountId, IdempotencyKey), Arc<CreateResult>>,
    /// Links by lower-cased slug.
    pub(super) taken_slugs: HashMap<String, LinkId>,
    pub(super) links: HashMap<(AccountId, LinkId), ChangeResult>,
    pub(super) log: Vec<NewEvent>,
}

/// Difference between the numbers of the ids of two creates of a batch, above all other numbers.
pub(super) const BATCH_IDS_STEP: u128 = 1_000;

/// Answer to a command.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Created(LinkId),
    Changed(ChangeResult),
    Batch(Vec<Answer>),
    WouldCreate(LinkId),
    Rejected(Rejection),
    SlugNotReserved,
}

impl World {
    pub(super) fn with_balances(balances: &[i64]) -> Self {
        let credits = |balance: &i64| Credits {
            balance: *balance,
            version: 0,
            ..Credits::default()
        };
        let accounts = (0_u8..).zip(balances);
        Self {
            credits: accounts
                .map(|(number, balance)| (account(number), credits(balance)))
                .collect(),
            ..Self::default()
        }
    }

    /// Gives the thresholds to all accounts.
    pub(super) fn with_thresholds(mut self, thresholds: &[i64]) -> Self {
        for credits in self.credits.values_mut() {
            credits.low_balance_at = LowBalanceAt::of(thresholds.to_vec()).unwrap();
        }
        self
    }

    /// Returns the crossed thresholds of the charges of an account, in the order of the log.
    pub(super) fn crossed(&self, account_id: AccountId) -> Vec<i64> {
        let of_account = self.log.iter().filter(|it| it.account_id == account_id);
        let charges = of_account.filter_map(|it| match &it.event {
            Event::Credits(CreditsEvent::Charged(charged)) => Some(charged),
            Event::Link(_)
            | Event::Account(_)
            | Event::ApiKey(_)
            | Event::Webhook(_)
            | Event::Observation(_)
            | Event::Credits(_) => None,
        });
        charges.filter_map(|charged| charged.low_balance).collect()
    }

    /// Runs and "commits" the commands as one commit group.
    pub(super) fn run(&mut self, commands: &[(LinkCommand, DecisionInput)]) -> Vec<Answer> {
        let terms = terms();
        let of_group: Vec<&LinkCommand> = commands.iter().map(|(command, _)| command).collect();
        let ids: Vec<DecisionInput> = commands.iter().flat_map(ids_of).collect();
        let taken = |slug: &String| self.taken_slugs.contains_key(slug);
        let of_batches = SlugPlan::slugs_of_batches(&of_group).into_iter();
        let of_batches: HashSet<String> = of_batches.filter(taken).collect();
        let input = SlugPlanInput {
            credits: &self.credits,
            stored: &self.stored,
            taken: &of_batches,
            price: terms.link_price,
        };
        let plan = SlugPlan::new(&of_group, &ids, input);
        let found = plan.to_look_up.iter().filter(|slug| taken(slug));
        let found = found.cloned().chain(of_batches);
        let mut reserved: HashMap<String, LinkId> = HashMap::new();
        for wanted in &plan.to_reserve {
            let slug = wanted.slug.key();
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
        let mut group = CommitGroup::new(&terms, 1, state);
        let mut outcomes: Vec<Option<CommandOutcome>> = with_ids(&of_group, &ids)
            .map(|(command, ids)| group.decide(command, ids))
            .collect();
        let DecidedGroup {
            events,
            credits,
            unused_slugs,
        } = group.finish();
        let head = self.log.len();
        self.log.extend(events);
        let appended: Vec<_> = (head + 1..)
            .zip(&self.log[head..])
            .map(|(position, event)| event.recorded(i64::try_from(position).unwrap()))
            .collect();
        CommandOutcome::set_positions(outcomes.iter_mut().flatten(), &appended);
        self.credits = credits;
        let used = reserved.into_iter();
        self.taken_slugs
            .extend(used.filter(|(slug, _)| !unused_slugs.contains(slug)));
        for ((command, _), outcome) in commands.iter().zip(&outcomes) {
            if let Some(outcome) = outcome {
                self.commit(command, outcome);
            }
        }
        let answers = commands.iter().zip(outcomes);
        answers
            .map(|((command, _), outcome)| answer(command, outcome))
            .collect()
    }

    /// Runs the commands as one commit group, then those to retry as another one, until only commands that
    /// would fail alone too are left. Returns the commands with their answers, in the order in which
    /// they were decided at last.
    pub(super) fn run_with_retries(
        &mut self,
        commands: &[(LinkCommand, DecisionInput)],
    ) -> Vec<((LinkCommand, DecisionInput), Answer)> {
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

    fn commit(&mut self, command: &LinkCommand, outcome: &CommandOutcome) {
        match (command, outcome) {
            (LinkCommand::Create(create), CommandOutcome::Create(created)) => {
                self.commit_create(create, created);
            }
            (LinkCommand::Batch(batch), CommandOutcome::Batch(created)) => {
                let created = created.iter().flatten();
                let atomic = batch
                    .creates
                    .iter()
                    .filter(|_| batch.mode == BatchMode::Atomic);
                for (create, created) in atomic.zip(created) {
                    self.commit_create(create, created);
                }
            }
            (LinkCommand::Change(change), CommandOutcome::Change(changed)) => {
                if let Ok(settled) = changed {
                    self.links.insert(
                        (change.account_id, change.link_id.unwrap()),
                        ChangeResult::clone(settled),
                    );
                }
            }
            _ => panic!("{command:?} is settled otherwise: {outcome:?}"),
        }
    }

    fn commit_create(&mut self, create: &KeyedCreate, created: &Outcome<Created>) {
        let Ok(Created {
            settled,
            is_replay: false,
        }) = created
        else {
            return;
        };
        self.stored
            .insert((create.account_id, create.key), Arc::clone(settled));
        let link = ChangeResult {
            link: ExistingLink::new(&settled.link, settled.created_at),
            // Position of `LinkCreated`, right before the charge.
            position: settled.position - 1,
        };
        self.links
            .insert((create.account_id, settled.link.link_id), link);
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
            Event::Link(_)
            | Event::Account(_)
            | Event::ApiKey(_)
            | Event::Webhook(_)
            | Event::Observation(_)
            | Event::Credits(_) => None,
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
fn ids_of((command, first): &(LinkCommand, DecisionInput)) -> Vec<DecisionInput> {
    let number = first.link_id.uuid().as_u128();
    let later = (1..command.size() as u128).map(|create| ids(number + create * BATCH_IDS_STEP));
    std::iter::once(first.clone()).chain(later).collect()
}

fn answer(command: &LinkCommand, outcome: Option<CommandOutcome>) -> Answer {
    let is_dry_run =
        matches!(command, LinkCommand::Batch(batch) if batch.mode == BatchMode::DryRun);
    let of_create = |created: Outcome<Created>| match created {
        Ok(created) if is_dry_run && !created.is_replay => {
            Answer::WouldCreate(created.settled.link.link_id)
        }
        Ok(created) => Answer::Created(created.settled.link.link_id),
        Err(rejection) => Answer::Rejected(rejection),
    };
    match outcome {
        Some(CommandOutcome::Create(created)) => of_create(created),
        Some(CommandOutcome::Batch(Ok(created))) => {
            Answer::Batch(created.into_iter().map(of_create).collect())
        }
        Some(CommandOutcome::Change(Ok(settled))) => Answer::Changed(ChangeResult::clone(&settled)),
        Some(CommandOutcome::Batch(Err(rejection)) | CommandOutcome::Change(Err(rejection))) => {
            Answer::Rejected(rejection)
        }
        None => Answer::SlugNotReserved,
    }
}
