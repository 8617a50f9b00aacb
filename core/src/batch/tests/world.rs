//! A database in memory, with the state that commands read.

use super::*;

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

/// Answer to a command.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a test has few answers")]
pub(super) enum Answer {
    Created(LinkId),
    Changed(SettledLink),
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
        let (of_batch, ids): (Vec<_>, Vec<_>) = commands.iter().cloned().unzip();
        let of_batch: Vec<&LinkCommand> = of_batch.iter().collect();
        let price = pricing.link_price;
        let plan = SlugPlan::new(&of_batch, &ids, &self.credits, &self.stored, price);
        let taken = |slug: &String| self.taken_slugs.contains_key(slug);
        let found = plan.to_look_up.iter().filter(|slug| taken(slug));
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
            taken_slugs: plan.taken(&reserved, found.cloned().collect()),
            reserved_slugs: reserved.clone(),
            external_ids: self.external_ids(),
            links: self.links.clone(),
        };
        let mut batch = CommandBatch::new(&pricing, |_| 1, state);
        let outcomes: Vec<CommandOutcome> = commands
            .iter()
            .map(|(command, ids)| batch.decide(command, ids))
            .collect();
        let mut decided = batch.finish();
        let events = decided.accepted.iter().flat_map(|it| it.events.clone());
        let head = self.log.len();
        self.log.extend(events);
        let positions: Vec<Position> = (head + 1..=self.log.len())
            .map(|position| i64::try_from(position).unwrap())
            .collect();
        decided.set_positions(&positions);
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
            if let CommandOutcome::Accepted(number) = outcome {
                self.commit(command, &accepted[*number].settled);
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

    fn commit(&mut self, command: &LinkCommand, settled: &SettledCommand) {
        match (command, settled) {
            (LinkCommand::Create(create), SettledCommand::Create(settled)) => {
                self.stored
                    .insert((create.account_id, create.key), settled.clone());
                let link = SettledLink {
                    link: ExistingLink::new(settled.link.clone()),
                    created_at: settled.created_at,
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
            (LinkCommand::Create(_), SettledCommand::Change(_))
            | (LinkCommand::Change(_), SettledCommand::Create(_)) => {
                panic!("{command:?} is settled as {settled:?}")
            }
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
    pub(super) fn fold(&self, link_id: LinkId) -> Link {
        let events = self.log.iter().filter_map(|it| match &it.event {
            Event::Link(event) if event.link_id() == link_id => Some(event),
            Event::Link(_) | Event::Account(_) | Event::Credits(_) => None,
        });
        events.fold(Link::Absent, Link::apply)
    }
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
        CommandOutcome::Rejected(rejection) => Answer::Rejected(rejection),
        CommandOutcome::SlugNotReserved => Answer::SlugNotReserved,
    }
}
