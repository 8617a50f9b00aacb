//! One batch, one transaction: lock, look up, reserve, decide, append, commit, answer.

mod decided;
mod failure;
mod reservation;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use linkledger_core::{
    batch::{
        CommandBatch, CommandOutcome, DecisionIds, IdempotencyKey, LinkCommand, LoadedState,
        Pricing,
    },
    clock::{Clock, new_uuid},
    envelope::NewEvent,
    event_store::{
        accounts, append, idempotency, is_lock_timeout, links, log, slugs,
        time_limit::{ANSWER_TIME_MAX, within},
    },
    id::{AccountId, EventId, LinkId},
    link::Slug,
    metrics::{APPEND_COMMIT_SECONDS, APPEND_LOCK_HOLD_SECONDS},
};
use metrics::histogram;
use sqlx::{Connection as _, PgConnection, PgPool};
use tokio::sync::Notify;

use crate::{
    command_queue::{GivenBack, Queued, Refusal, Reply},
    renderer,
};
use decided::{Decided, Verdict};
use failure::BatchFailure;

/// Longest wait for the answer to COMMIT, in seconds: a batch that turns out not to be committed
/// has to be repeated before its commands have waited too long.
const COMMIT_TIME_MAX: Duration = Duration::from_secs(3);
/// How long an unknown outcome is looked into before its callers are told so, in seconds.
const RESOLVE_TIME_MAX: Duration = Duration::from_secs(5);
/// Longest time of one such attempt, in seconds: it may wait for the other transaction's locks.
const LOOK_TIME_MAX: Duration = Duration::from_secs(3);
/// Delay between two such attempts.
const RESOLVE_DELAY: Duration = Duration::from_millis(100);

/// Runs batches against the event store.
pub struct CommandHandler {
    /// Sessions of kind `Writer`.
    pub pool: PgPool,
    /// Price and short host.
    pub pricing: Pricing,
    /// Read once for each command.
    pub clock: Arc<dyn Clock>,
    /// Told after each commit.
    pub appended: Arc<Notify>,
}

impl CommandHandler {
    /// Runs the batch and answers its commands, except those that are to be tried again: they are
    /// given back in their order.
    pub(crate) async fn run(&self, batch: Vec<Queued>) -> Vec<GivenBack> {
        let mut given_back = Vec::new();
        let mut parts = vec![batch];
        while let Some(mut part) = parts.pop() {
            match self.attempt(&part).await {
                Ok(verdicts) => {
                    for (command, verdict) in part.into_iter().zip(verdicts) {
                        match verdict {
                            Verdict::Answer(reply) => command.answer(reply),
                            Verdict::Held => given_back.push(GivenBack {
                                command,
                                is_held: true,
                            }),
                            Verdict::Again => {
                                given_back.push(GivenBack {
                                    command,
                                    is_held: false,
                                });
                            }
                        }
                    }
                }
                Err(BatchFailure::Repeat(error)) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "batch is repeated"
                    );
                    // After a moment, as if the accounts were held: what was in the way may be.
                    let again = |command| GivenBack {
                        command,
                        is_held: true,
                    };
                    given_back.extend(part.into_iter().map(again));
                }
                Err(BatchFailure::Poison(error)) if part.len() == 1 => {
                    tracing::error!(error = &error as &dyn std::error::Error, "command failed");
                    refuse_all(part, &Refusal::Failed);
                }
                // One poison command must not hurt the others: halve until it is alone.
                Err(BatchFailure::Poison(_)) => {
                    let later = part.split_off(part.len() / 2);
                    parts.extend([later, part]);
                }
                Err(BatchFailure::Unavailable(error)) => {
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        "storage is unavailable"
                    );
                    refuse_all(part, &Refusal::StorageUnavailable);
                }
                Err(BatchFailure::OutcomeUnknown(error)) => {
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        "outcome stays unknown"
                    );
                    refuse_all(part, &Refusal::OutcomeUnknown);
                }
            }
        }
        given_back
    }

    async fn attempt(&self, batch: &[Queued]) -> Result<Vec<Verdict>, BatchFailure> {
        let mut connection = self
            .pool
            .acquire()
            .await
            .map_err(BatchFailure::before_commit)?;
        let deciding = async {
            let mut tx = connection.begin().await?;
            let decided = self.decide(&mut tx, batch).await?;
            Ok((tx, decided))
        };
        let (tx, decided) = within(ANSWER_TIME_MAX, deciding)
            .await
            .map_err(BatchFailure::before_commit)?;
        if decided.first_event().is_none() {
            // Nothing depends on a commit: the refusals were right while the accounts were locked.
            within(ANSWER_TIME_MAX, tx.rollback())
                .await
                .map_err(BatchFailure::before_commit)?;
            return Ok(decided.verdicts());
        }
        let commit_began_at = Instant::now();
        let committed = within(COMMIT_TIME_MAX, tx.commit()).await;
        histogram!(APPEND_COMMIT_SECONDS).record(commit_began_at.elapsed());
        histogram!(APPEND_LOCK_HOLD_SECONDS).record(decided.locked_at.elapsed());
        if let Err(error) = committed {
            // Whatever the error says: the server may have committed before it came about.
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "outcome of a commit is unknown"
            );
            // Given back to the pool, the session would be used for the look-up.
            drop(connection.detach());
            if !self.is_committed(&decided).await? {
                return Err(BatchFailure::Repeat(error));
            }
        }
        self.appended.notify_one();
        Ok(decided.verdicts())
    }

    async fn decide(&self, tx: &mut PgConnection, batch: &[Queued]) -> sqlx::Result<Decided> {
        let commands: Vec<&LinkCommand> = batch.iter().map(|queued| &queued.command).collect();
        let mut account_ids: Vec<AccountId> = commands.iter().map(|it| it.account_id()).collect();
        account_ids.sort_unstable();
        account_ids.dedup();
        let credits = accounts::lock_free_ones_in_tx(tx, &account_ids).await?;
        let locked_at = Instant::now();
        let is_ours = |command: &LinkCommand| credits.contains_key(&command.account_id());
        let is_held: Vec<bool> = commands.iter().map(|it| !is_ours(it)).collect();
        let ours: Vec<&LinkCommand> = commands.into_iter().filter(|it| is_ours(it)).collect();

        let stored = idempotency::find_creates_in_tx(tx, &keys(&ours)).await?;
        let links = links::load_in_tx(tx, &link_ids(&ours)).await?;
        let ids: Vec<DecisionIds> = ours.iter().map(|_| self.new_ids()).collect();
        let wanted = reservation::wanted(&ours, &ids, &stored);
        let free_slugs = slugs::reserve_in_tx(tx, &wanted).await?;

        let state = LoadedState {
            credits,
            stored,
            free_slugs,
            links,
        };
        let mut decisions = CommandBatch::new(&self.pricing, renderer::CURRENT, state);
        let outcomes: Vec<CommandOutcome> = ours
            .iter()
            .zip(&ids)
            .map(|(command, ids)| decisions.decide(command, ids))
            .collect();
        let mut decided = decisions.finish();
        let events: Vec<&NewEvent> = decided.accepted.iter().flat_map(|it| &it.events).collect();
        if !events.is_empty() {
            let taken_over = reservation::taken_over(&wanted, &decided.accepted);
            slugs::settle_in_tx(tx, &taken_over, &decided.unused_slugs).await?;
            let positions = append::append_in_tx(tx, &events, &decided.credits).await?;
            decided.set_positions(&positions);
        }
        Ok(Decided::new(decided, outcomes, is_held, locked_at))
    }

    /// Looks on a fresh session whether the batch's transaction was committed.
    async fn is_committed(&self, decided: &Decided) -> Result<bool, BatchFailure> {
        let until = tokio::time::Instant::now() + RESOLVE_TIME_MAX;
        loop {
            match within(LOOK_TIME_MAX, self.look_for(decided)).await {
                Ok(is_committed) => return Ok(is_committed),
                Err(error) if is_lock_timeout(&error) || tokio::time::Instant::now() >= until => {
                    return Err(BatchFailure::OutcomeUnknown(error));
                }
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "can't look yet");
                    tokio::time::sleep(RESOLVE_DELAY).await;
                }
            }
        }
    }

    async fn look_for(&self, decided: &Decided) -> sqlx::Result<bool> {
        let mut tx = self.pool.begin().await?;
        // Waits for the end of the transaction in question, should it still be running.
        accounts::lock_in_tx(&mut tx, decided.account_ids()).await?;
        let is_committed = match decided.first_event() {
            Some(event) => log::contains_in_tx(&mut tx, event).await?,
            None => true,
        };
        tx.rollback().await?;
        Ok(is_committed)
    }

    fn new_ids(&self) -> DecisionIds {
        let now = self.clock.now();
        DecisionIds {
            now,
            link_id: LinkId::from_uuid(new_uuid(now)),
            event_ids: [(); 2].map(|()| EventId::from_uuid(new_uuid(now))),
            generated_slug: Slug::generate(),
        }
    }
}

fn keys(commands: &[&LinkCommand]) -> Vec<(AccountId, IdempotencyKey)> {
    let key = |command: &&LinkCommand| match command {
        LinkCommand::Create(create) => Some((create.account_id, create.key)),
        LinkCommand::Change(_) => None,
    };
    commands.iter().filter_map(key).collect()
}

fn link_ids(commands: &[&LinkCommand]) -> Vec<(AccountId, LinkId)> {
    let link_id = |command: &&LinkCommand| match command {
        LinkCommand::Create(_) => None,
        LinkCommand::Change(change) => Some((change.account_id, change.link_id?)),
    };
    let mut link_ids: Vec<_> = commands.iter().filter_map(link_id).collect();
    link_ids.sort_unstable();
    link_ids.dedup();
    link_ids
}

fn refuse_all(batch: Vec<Queued>, refusal: &Refusal) {
    for command in batch {
        command.answer(Reply::Refused(refusal.clone()));
    }
}
