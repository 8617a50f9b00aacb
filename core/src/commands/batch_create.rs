//! Several creates of one request that are decided as one command: all or nothing, or as a trial
//! without effect (`docs/api.md#batches`).
//!
//! The creates of a request in mode `partial` are commands of their own, and never come here.

use super::{CommitGroup, Created, DecisionInput, KeyedCreate, Outcome, Rejection};
use crate::{credits::InsufficientCredits, id::AccountId};

/// Creates of one account, decided together.
#[derive(Debug, Clone)]
pub struct BatchCreate {
    /// Account that pays for the links.
    pub account_id: AccountId,
    /// Effect of the creates.
    pub mode: BatchMode,
    /// Creates in the order of the request. No two creates have the same idempotency key.
    pub creates: Vec<KeyedCreate>,
}

/// Effect of the creates of a [`BatchCreate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchMode {
    /// All creates have their effect, or none has.
    Atomic,
    /// No create has an effect.
    DryRun,
}

impl CommitGroup<'_> {
    /// Decides all creates, or none. A rejection names every create that fails in the first failing
    /// stage of the order of checks.
    pub(super) fn decide_atomic(
        &mut self,
        creates: &[KeyedCreate],
        ids: &[DecisionInput],
    ) -> Outcome<Option<Vec<Outcome<Created>>>> {
        if let Some(replays) = self.answer_for_used_keys(creates)? {
            return Ok(Some(replays));
        }
        let (trial, decided) = self.try_creates(creates, ids);
        let rejections = decided.iter().enumerate().filter_map(|(index, decided)| {
            let rejection = decided.as_ref().err()?;
            Some((index, rejection.clone()))
        });
        let mut rejections = first_stage(rejections.collect());
        for (_, rejection) in &mut rejections {
            if let Rejection::InsufficientCredits(missing) = rejection {
                *missing = self.required_by(creates);
            }
        }
        if !rejections.is_empty() {
            return Err(Rejection::Items(rejections));
        }
        let is_reserved = ids
            .iter()
            .zip(creates)
            .all(|(ids, create)| self.is_reserved(create, ids));
        let outcomes: Option<Vec<_>> = decided.into_iter().map(Result::transpose).collect();
        let outcomes = outcomes.filter(|_| is_reserved);
        if outcomes.is_some() {
            *self = trial;
        }
        Ok(outcomes)
    }

    /// Decides the creates one after the other, and forgets their effects. Ids, time and generated slugs of the new
    /// links are made up.
    pub(super) fn decide_dry_run(
        &self,
        creates: &[KeyedCreate],
        ids: &[DecisionInput],
    ) -> Option<Vec<Outcome<Created>>> {
        let (_, decided) = self.try_creates(creates, ids);
        // `None` if a generated slug is taken: a retry draws another slug.
        decided.into_iter().map(Result::transpose).collect()
    }

    /// Decides the creates on a copy of the commit group, as if a slug were reserved for each of them.
    fn try_creates(
        &self,
        creates: &[KeyedCreate],
        ids: &[DecisionInput],
    ) -> (Self, Vec<Outcome<Option<Created>>>) {
        let mut trial = self.clone();
        let decided = creates.iter().zip(ids).map(|(create, ids)| {
            if let Ok(draft) = &create.body {
                let slug = draft.slug.as_ref().unwrap_or(&ids.generated_slug);
                let reserved = &mut trial.state.reserved_slugs;
                reserved.insert(slug.key(), ids.link_id);
            }
            trial.decide_create(create, ids)
        });
        let mut decided: Vec<_> = decided.collect();
        // The links of the trial do not exist, so no client may learn their ids.
        for decided in &mut decided {
            if let Err(Rejection::ExternalIdTaken { holder }) = decided {
                *holder = holder.filter(|holder| ids.iter().all(|ids| ids.link_id != *holder));
            }
        }
        (trial, decided)
    }

    /// Returns balance and price of all creates.
    fn required_by(&self, creates: &[KeyedCreate]) -> InsufficientCredits {
        let links = u64::try_from(creates.len()).unwrap_or(u64::MAX);
        InsufficientCredits {
            balance: self.credits(creates[0].account_id).balance,
            required: self.terms.link_price.unsigned_abs().saturating_mul(links),
        }
    }

    fn is_reserved(&self, create: &KeyedCreate, ids: &DecisionInput) -> bool {
        create.body.as_ref().is_ok_and(|draft| {
            let slug = draft.slug.as_ref().unwrap_or(&ids.generated_slug);
            self.state.reserved_slugs.get(&slug.key()) == Some(&ids.link_id)
        })
    }

    /// Returns the replay of all creates if all keys were used with these bodies, and `None` if no
    /// key was used. A mixture is rejected.
    fn answer_for_used_keys(
        &self,
        creates: &[KeyedCreate],
    ) -> Outcome<Option<Vec<Outcome<Created>>>> {
        let answers = creates
            .iter()
            .map(|create| self.answer_for_used_key(create));
        let answers: Vec<Outcome<Option<Created>>> = answers.collect();
        if answers.iter().all(|answer| matches!(answer, Ok(None))) {
            return Ok(None);
        }
        let has_reused = answers.iter().any(Result::is_err);
        let is_offender = |answer: &Outcome<Option<Created>>| match answer {
            Err(_) => true,
            Ok(replay) => !has_reused && replay.is_some(),
        };
        let offenders = answers.iter().enumerate();
        let offenders = offenders
            .filter(|(_, answer)| is_offender(answer))
            .map(|(index, _)| (index, Rejection::KeyReused))
            .collect();
        let replays = answers.into_iter().map(|it| it.ok().flatten().map(Ok));
        let replays: Option<Vec<_>> = replays.collect();
        replays.map(Some).ok_or(Rejection::Items(offenders))
    }
}

/// Keeps the rejections of the first failing stage of the order of checks.
fn first_stage(mut rejections: Vec<(usize, Rejection)>) -> Vec<(usize, Rejection)> {
    let stages = rejections.iter().map(|(_, rejection)| rejection.stage());
    let first = stages.min();
    rejections.retain(|(_, rejection)| Some(rejection.stage()) == first);
    rejections
}
