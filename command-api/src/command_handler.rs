//! One batch, one transaction: lock, look up, reserve, decide, append, commit, answer.

mod failure;

use std::{collections::HashSet, sync::Arc, time::Duration};

use linkledger_core::{
    batch::{
        AcceptedCreate, Batch, IdempotencyKey, KeyedCreate, Outcome, SettledCreate, Stamp, Terms,
    },
    clock::{Clock, new_uuid},
    event_store::{
        accounts, append, idempotency,
        slugs::{self, Reservation},
    },
    id::{AccountId, EventId, LinkId},
    link::Slug,
    shard::Shard,
};
use sqlx::{Connection as _, PgConnection, PgPool};
use tokio::sync::Notify;

use crate::{
    command_queue::{GivenBack, Queued, Refusal, Reply},
    renderer,
};
use failure::{BatchFailure, is_lock_timeout};

/// How long an unknown outcome is looked into before its callers are told so, in seconds.
const RESOLVE_TIME_MAX: Duration = Duration::from_secs(5);
/// Delay between two such attempts.
const RESOLVE_DELAY: Duration = Duration::from_millis(100);

/// Runs batches against the event store.
pub struct CommandHandler {
    /// Sessions of kind `Writer`.
    pub pool: PgPool,
    /// Price and short host.
    pub terms: Terms,
    /// Read once per batch.
    pub clock: Arc<dyn Clock>,
    /// Told after each commit.
    pub appended: Arc<Notify>,
}

/// What an attempt came to, for one of its commands.
enum Verdict {
    Answer(Reply),
    /// Its account is held by another process.
    Held,
    /// It needs another slug.
    Again,
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
        let mut tx = connection
            .begin()
            .await
            .map_err(BatchFailure::before_commit)?;
        let decided = self
            .decide(&mut tx, batch)
            .await
            .map_err(BatchFailure::before_commit)?;
        if decided.accepted.is_empty() {
            // Nothing depends on a commit: the refusals were right while the accounts were locked.
            tx.rollback().await.map_err(BatchFailure::before_commit)?;
            return Ok(decided.verdicts());
        }
        if let Err(error) = tx.commit().await {
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
        let creates: Vec<&KeyedCreate> = batch.iter().map(|command| &command.create).collect();
        let mut account_ids: Vec<AccountId> = creates.iter().map(|it| it.account_id).collect();
        account_ids.sort_unstable();
        account_ids.dedup();
        let credits = accounts::lock_free_ones_in_tx(tx, &account_ids).await?;
        let ours: Vec<&KeyedCreate> = creates
            .iter()
            .copied()
            .filter(|it| credits.contains_key(&it.account_id))
            .collect();
        let keys: Vec<_> = ours
            .iter()
            .map(|create| (create.account_id, create.key))
            .collect();
        let stored = idempotency::find_creates_in_tx(tx, &keys).await?;

        let stamps: Vec<Stamp> = ours.iter().map(|_| self.stamp()).collect();
        let wanted: Vec<Reservation> = ours
            .iter()
            .zip(&stamps)
            .filter(|(create, _)| !stored.contains_key(&(create.account_id, create.key)))
            .filter_map(|(create, stamp)| reservation(create, stamp))
            .collect();
        let free = slugs::reserve_in_tx(tx, &wanted).await?;

        let mut decisions = Batch::new(&self.terms, renderer::CURRENT, credits, stored, free);
        let outcomes: Vec<Outcome> = ours
            .iter()
            .zip(&stamps)
            .map(|(create, stamp)| decisions.decide(create, stamp))
            .collect();
        let decided = decisions.finish();
        let mut accepted = decided.accepted;
        if !accepted.is_empty() {
            let taken_over = taken_over(&wanted, &accepted);
            slugs::settle_in_tx(tx, &taken_over, &decided.unused_slugs).await?;
            let events: Vec<_> = accepted.iter().flat_map(|it| it.events.clone()).collect();
            let positions = append::append_in_tx(tx, &events, &decided.credits).await?;
            for (create, position) in accepted.iter_mut().zip(positions.chunks_exact(2)) {
                create.settled.position = position[1];
            }
        }
        let mut outcomes = outcomes.into_iter();
        let is_ours = |create: &KeyedCreate| decided.credits.contains_key(&create.account_id);
        let outcomes = creates
            .iter()
            .map(|it| if is_ours(it) { outcomes.next() } else { None })
            .collect();
        Ok(Decided {
            accepted: accepted
                .into_iter()
                .map(|it| Arc::new(it.settled))
                .collect(),
            outcomes,
            account_ids: decided.credits.into_keys().collect(),
            keys,
        })
    }

    /// Looks on a fresh session whether the batch's transaction was committed.
    async fn is_committed(&self, decided: &Decided) -> Result<bool, BatchFailure> {
        let until = tokio::time::Instant::now() + RESOLVE_TIME_MAX;
        loop {
            match self.look_for(decided).await {
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
        accounts::lock_in_tx(&mut tx, &decided.account_ids).await?;
        let stored = idempotency::find_creates_in_tx(&mut tx, &decided.keys).await?;
        tx.rollback().await?;
        let link_ids: HashSet<LinkId> = stored.values().map(|it| it.link.link_id).collect();
        Ok(decided
            .accepted
            .iter()
            .any(|it| link_ids.contains(&it.link.link_id)))
    }

    fn stamp(&self) -> Stamp {
        let now = self.clock.now();
        Stamp {
            now,
            link_id: LinkId::from_uuid(new_uuid(now)),
            event_ids: [(); 2].map(|()| EventId::from_uuid(new_uuid(now))),
            generated_slug: Slug::generate(),
        }
    }
}

/// A batch that is decided and appended, but perhaps not committed.
struct Decided {
    accepted: Vec<Arc<SettledCreate>>,
    /// `None`: the account is held by another process.
    outcomes: Vec<Option<Outcome>>,
    /// Those that are locked.
    account_ids: Vec<AccountId>,
    keys: Vec<(AccountId, IdempotencyKey)>,
}

impl Decided {
    fn verdicts(self) -> Vec<Verdict> {
        let accepted = self.accepted;
        let refused = |refusal| Verdict::Answer(Reply::Refused(refusal));
        let verdict = |outcome| match outcome {
            Outcome::Accepted(index) => {
                Verdict::Answer(Reply::Created(Arc::clone(&accepted[index])))
            }
            Outcome::ReplayOfAccepted(index) => {
                Verdict::Answer(Reply::Replayed(Arc::clone(&accepted[index])))
            }
            Outcome::Replay(settled) => Verdict::Answer(Reply::Replayed(Arc::new(*settled))),
            Outcome::KeyReused => refused(Refusal::KeyReused),
            Outcome::Invalid(errors) => refused(Refusal::Invalid(errors)),
            Outcome::SlugTaken => refused(Refusal::SlugTaken),
            Outcome::InsufficientCredits { balance, required } => {
                refused(Refusal::InsufficientCredits { balance, required })
            }
            Outcome::SlugCollision => Verdict::Again,
        };
        let outcomes = self.outcomes.into_iter();
        outcomes
            .map(|outcome| outcome.map_or(Verdict::Held, verdict))
            .collect()
    }
}

fn reservation(create: &KeyedCreate, stamp: &Stamp) -> Option<Reservation> {
    let draft = create.body.as_ref().ok()?;
    Some(Reservation {
        slug: draft.slug.as_ref().unwrap_or(&stamp.generated_slug).clone(),
        shard: Shard::of(create.account_id),
        link_id: stamp.link_id,
    })
}

/// The reservations whose slug was accepted for a later command than the one that is noted with
/// it, because the earlier one was refused.
fn taken_over(wanted: &[Reservation], accepted: &[AcceptedCreate]) -> Vec<Reservation> {
    let is_accepted: HashSet<LinkId> = accepted.iter().map(|it| it.settled.link.link_id).collect();
    let mut noted: HashSet<String> = HashSet::new();
    wanted
        .iter()
        .filter(|reservation| {
            let is_first = noted.insert(reservation.slug.folded());
            !is_first && is_accepted.contains(&reservation.link_id)
        })
        .cloned()
        .collect()
}

fn refuse_all(batch: Vec<Queued>, refusal: &Refusal) {
    for command in batch {
        command.answer(Reply::Refused(refusal.clone()));
    }
}
