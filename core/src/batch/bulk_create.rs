//! Several creates of one request that are decided as one command: all or nothing, or as a trial
//! without effect (`docs/api.md#batches`).
//!
//! The creates of a request in mode `partial` are commands of their own, and never come here.

use super::{
    CommandBatch, CommandOutcome, CommandRejection, DecisionIds, KeyedCreate, LinkCommand,
    SettledCreate,
};
use crate::{credits::InsufficientCredits, id::AccountId};

/// Creates of one account, decided together.
#[derive(Debug, Clone)]
pub struct BulkCreate {
    /// Account that pays for the links.
    pub account_id: AccountId,
    /// Effect of the creates.
    pub mode: BulkMode,
    /// Creates in the order of the request. No two creates have the same idempotency key.
    pub creates: Vec<KeyedCreate>,
}

/// Effect of the creates of a [`BulkCreate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkMode {
    /// All creates have their effect, or none has.
    Atomic,
    /// No create has an effect.
    DryRun,
}

/// Outcome of one create of a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DryRunOutcome {
    /// The create would be accepted, with this result except for ids, time and generated slug.
    WouldCreate(Box<SettledCreate>),
    /// The idempotency key was used: the create would be replayed.
    WouldReplay(Box<SettledCreate>),
    /// The create would be rejected.
    Rejected(CommandRejection),
}

type CreateDecision = Result<CommandOutcome, CommandRejection>;

/// Pairs each command with the ids of its decisions. `ids` has [`LinkCommand::size`] ids for each
/// command, in order.
///
/// # Panics
/// Panics if `ids` is too short.
pub fn with_ids<'c>(
    commands: &'c [&'c LinkCommand],
    mut ids: &'c [DecisionIds],
) -> impl Iterator<Item = (&'c LinkCommand, &'c [DecisionIds])> {
    commands.iter().map(move |command| {
        let (own, later) = ids.split_at(command.size());
        ids = later;
        (*command, own)
    })
}

impl CommandBatch<'_> {
    /// Decides all creates, or none. A rejection names every create that fails in the first failing
    /// stage of the order of checks.
    pub(super) fn decide_atomic(
        &mut self,
        creates: &[KeyedCreate],
        ids: &[DecisionIds],
    ) -> CreateDecision {
        if let Some(replay) = self.answer_for_used_keys(creates)? {
            return Ok(replay);
        }
        let (trial, decided) = self.try_creates(creates, ids);
        let rejections = decided.iter().enumerate().filter_map(|(index, decided)| {
            let rejection = decided.as_ref().err()?;
            Some((index, rejection.clone()))
        });
        let mut rejections = first_stage(rejections.collect());
        for (_, rejection) in &mut rejections {
            if let CommandRejection::InsufficientCredits(missing) = rejection {
                *missing = self.required_by(creates);
            }
        }
        if !rejections.is_empty() {
            return Err(CommandRejection::Items(rejections));
        }
        let outcomes: Vec<CommandOutcome> = decided.into_iter().flatten().collect();
        let is_reserved = ids
            .iter()
            .zip(creates)
            .all(|(ids, create)| self.is_reserved(create, ids));
        if !is_reserved || outcomes.contains(&CommandOutcome::SlugNotReserved) {
            return Ok(CommandOutcome::SlugNotReserved);
        }
        *self = trial;
        Ok(CommandOutcome::Bulk(outcomes))
    }

    /// Decides the creates one after the other, and forgets their effects.
    pub(super) fn decide_dry_run(
        &self,
        creates: &[KeyedCreate],
        ids: &[DecisionIds],
    ) -> CommandOutcome {
        let (trial, decided) = self.try_creates(creates, ids);
        let outcomes = decided
            .into_iter()
            .map(|decided| trial.dry_run_outcome(decided));
        // `None` if a generated slug is taken: a retry draws another slug.
        let outcomes: Option<Vec<_>> = outcomes.collect();
        outcomes.map_or(CommandOutcome::SlugNotReserved, CommandOutcome::DryRun)
    }

    /// Decides the creates on a copy of the batch, as if a slug were reserved for each of them.
    fn try_creates(
        &self,
        creates: &[KeyedCreate],
        ids: &[DecisionIds],
    ) -> (Self, Vec<CreateDecision>) {
        let mut trial = self.clone();
        let decided = creates.iter().zip(ids).map(|(create, ids)| {
            if let Ok(draft) = &create.body {
                let slug = draft.slug.as_ref().unwrap_or(&ids.generated_slug);
                let reserved = &mut trial.state.reserved_slugs;
                reserved.insert(slug.folded(), ids.link_id);
            }
            trial.decide_create(create, ids)
        });
        let mut decided: Vec<CreateDecision> = decided.collect();
        // The links of the trial do not exist, so no client may learn their ids.
        for decided in &mut decided {
            if let Err(CommandRejection::ExternalIdTaken { holder }) = decided {
                *holder = holder.filter(|holder| ids.iter().all(|ids| ids.link_id != *holder));
            }
        }
        (trial, decided)
    }

    /// Returns balance and price of all creates.
    fn required_by(&self, creates: &[KeyedCreate]) -> InsufficientCredits {
        let account_id = creates.first().map(|create| create.account_id);
        let links = u64::try_from(creates.len()).unwrap_or(u64::MAX);
        InsufficientCredits {
            balance: account_id
                .and_then(|id| self.credits(id))
                .map_or(0, |credits| credits.balance),
            required: self.pricing.link_price.unsigned_abs().saturating_mul(links),
        }
    }

    fn is_reserved(&self, create: &KeyedCreate, ids: &DecisionIds) -> bool {
        create.body.as_ref().is_ok_and(|draft| {
            let slug = draft.slug.as_ref().unwrap_or(&ids.generated_slug);
            self.state.reserved_slugs.get(&slug.folded()) == Some(&ids.link_id)
        })
    }

    /// Returns the replay of all creates if all keys were used with these bodies, and `None` if no
    /// key was used. A mixture is rejected.
    fn answer_for_used_keys(
        &self,
        creates: &[KeyedCreate],
    ) -> Result<Option<CommandOutcome>, CommandRejection> {
        let answers = creates
            .iter()
            .map(|create| self.answer_for_used_key(create));
        let answers: Vec<Result<Option<CommandOutcome>, _>> = answers.collect();
        if answers.iter().all(|answer| matches!(answer, Ok(None))) {
            return Ok(None);
        }
        let has_reused = answers.iter().any(Result::is_err);
        let is_offender = |answer: &Result<Option<CommandOutcome>, _>| match answer {
            Err(_) => true,
            Ok(replay) => !has_reused && replay.is_some(),
        };
        let offenders = answers.iter().enumerate();
        let offenders = offenders
            .filter(|(_, answer)| is_offender(answer))
            .map(|(index, _)| (index, CommandRejection::KeyReused))
            .collect();
        let replays: Option<Vec<_>> = answers.into_iter().map(|it| it.ok().flatten()).collect();
        match replays {
            Some(replays) => Ok(Some(CommandOutcome::Bulk(replays))),
            None => Err(CommandRejection::Items(offenders)),
        }
    }

    fn dry_run_outcome(&self, decided: CreateDecision) -> Option<DryRunOutcome> {
        let settled = |accepted: usize| {
            let settled = self.accepted[accepted].settled.as_create()?;
            Some(Box::new(settled.clone()))
        };
        match decided {
            Err(rejection) => Some(DryRunOutcome::Rejected(rejection)),
            Ok(CommandOutcome::Accepted(accepted)) => {
                settled(accepted).map(DryRunOutcome::WouldCreate)
            }
            Ok(CommandOutcome::AcceptedBefore(accepted)) => {
                settled(accepted).map(DryRunOutcome::WouldReplay)
            }
            Ok(CommandOutcome::Replay(settled)) => Some(DryRunOutcome::WouldReplay(settled)),
            Ok(
                CommandOutcome::SlugNotReserved
                | CommandOutcome::Unchanged(_)
                | CommandOutcome::Bulk(_)
                | CommandOutcome::DryRun(_)
                | CommandOutcome::Rejected(_),
            ) => None,
        }
    }
}

/// Keeps the rejections of the first failing stage of the order of checks.
fn first_stage(mut rejections: Vec<(usize, CommandRejection)>) -> Vec<(usize, CommandRejection)> {
    let stages = rejections.iter().map(|(_, rejection)| rejection.stage());
    let first = stages.min();
    rejections.retain(|(_, rejection)| Some(rejection.stage()) == first);
    rejections
}
