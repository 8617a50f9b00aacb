//! Runs a commit group in one transaction: locks the accounts, loads, reserves slugs, decides, appends and commits.

mod group_failure;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use linkledger_core::{
    clock::{Clock, new_uuid},
    commands::{
        CommandOutcome, CommitGroup, CreateTerms, DecisionInput, EVENTS_MAX, IdempotencyKey,
        LinkCommand, LoadedState, SlugPlan, SlugPlanInput, with_ids,
    },
    credits::Credits,
    envelope::{NewEvent, RecordedEvent},
    id::{AccountId, EventId, LinkId},
    link::Slug,
};
use linkledger_event_store::{
    accounts, append,
    errors::{ends_session, is_lock_timeout},
    external_ids, idempotency, links, log, slugs,
    time_limit::{ANSWER_TIME_MAX, within},
    transaction::PoolTransaction,
};
use linkledger_service::{
    fail_point,
    metrics::{
        APPEND_COMMIT_SECONDS, APPEND_LOAD_SECONDS, APPEND_LOCK_HOLD_SECONDS,
        APPEND_LOCK_WAIT_SECONDS,
    },
};
use metrics::histogram;
use sqlx::{Connection as _, PgConnection, PgPool};

use crate::{committed_events::CommittedEvents, renderer};
pub(crate) use group_failure::GroupFailure;

/// Timeout of COMMIT. A commit group that turns out not to be committed must be retried before
/// the deadlines of its commands.
const COMMIT_TIME_MAX: Duration = Duration::from_secs(3);
/// Time for which an unknown outcome of COMMIT is looked up before the callers get 504.
const RESOLVE_TIME_MAX: Duration = Duration::from_secs(5);
/// Timeout of one such lookup: the lookup may wait for the locks of the other transaction.
const LOOKUP_TIME_MAX: Duration = Duration::from_secs(3);
/// Delay between two lookups.
const LOOKUP_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Runs commit groups against the event store.
pub struct CommandHandler {
    /// Sessions of kind `Writer`.
    pub pool: PgPool,
    /// Price and short host.
    pub terms: CreateTerms,
    /// Clock of the decisions, read once for each command.
    pub clock: Arc<dyn Clock>,
    /// Gets the events of each commit.
    pub committed: Arc<CommittedEvents>,
}

/// Accounts that an attempt locks before the attempt takes its commands.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AccountLocks {
    /// The accounts of the commands, but those that another transaction locks.
    SkipLocked,
    /// One account, after the other transactions that wait for the account. Postgres serves the
    /// waiting transactions in the order of their arrival.
    WaitFor(AccountId),
}

/// Decision on a command.
#[derive(Debug, Clone)]
pub struct Decision<T = CommandOutcome> {
    /// Outcome of the command.
    pub outcome: T,
    /// Credits of the account right after the decision.
    pub credits: Credits,
}

/// Result of an attempt, for one command of the commit group.
pub(crate) enum AttemptResult {
    /// The command is decided.
    Decided(Decision),
    /// The command has not run: another process locks the account.
    AccountLockedElsewhere,
    /// The command has not run: no slug was reserved. A retry reserves one.
    SlugNotReserved,
}

/// A commit group that is decided and appended, but perhaps not committed.
struct UncommittedGroup {
    /// Result of each command of the commit group, in order.
    results: Vec<AttemptResult>,
    /// Accounts that this commit group locks.
    account_ids: Vec<AccountId>,
    /// Appended events, which are in the log if and only if the commit group is committed.
    events: Vec<RecordedEvent>,
    /// Instant at which the accounts were locked.
    locked_at: Instant,
}

impl CommandHandler {
    /// Locks accounts, runs the commands that `commands` returns then, and commits. Returns one
    /// result for each command.
    ///
    /// # Errors
    /// Returns an error if no command of the commit group has run, or if the outcome of COMMIT is unknown.
    pub(crate) async fn attempt<'c>(
        &self,
        locks: AccountLocks,
        commands: impl FnOnce() -> Vec<&'c LinkCommand>,
    ) -> Result<Vec<AttemptResult>, GroupFailure> {
        let mut connection = self
            .pool
            .acquire()
            .await
            .map_err(GroupFailure::before_commit)?;
        let run = self.run(&mut connection, locks, commands).await;
        let (group, commit_error) = run.map_err(|error| {
            if ends_session(&error) {
                connection.close_on_drop();
            }
            GroupFailure::before_commit(error)
        })?;
        if let Some(error) = commit_error {
            // The server may have committed before any error.
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the outcome of a commit is unknown; looking it up on another session"
            );
            // Detached from the pool, so that the lookup gets another session.
            drop(connection.detach());
            if !self.is_committed(&group).await? {
                return Err(GroupFailure::Transient(error));
            }
        }
        self.committed.add(group.events, group.locked_at);
        Ok(group.results)
    }

    /// Runs the transaction of a commit group. Returns the group with the error of COMMIT, if any.
    async fn run<'c>(
        &self,
        connection: &mut PgConnection,
        locks: AccountLocks,
        commands: impl FnOnce() -> Vec<&'c LinkCommand>,
    ) -> sqlx::Result<(UncommittedGroup, Option<sqlx::Error>)> {
        let began_at = Instant::now();
        let deciding = async {
            let mut tx = connection.begin().await?;
            let group = self.decide(&mut tx, locks, commands).await?;
            Ok::<_, sqlx::Error>((tx, group))
        };
        let (tx, group) = within(ANSWER_TIME_MAX, deciding).await?;
        histogram!(APPEND_LOCK_WAIT_SECONDS).record(group.locked_at - began_at);
        if group.events.is_empty() {
            // Without events no commit is needed: the rejections were right while the accounts were locked.
            within(ANSWER_TIME_MAX, tx.rollback()).await?;
            return Ok((group, None));
        }
        let commit_began_at = Instant::now();
        let committed = within(COMMIT_TIME_MAX, tx.commit()).await;
        histogram!(APPEND_COMMIT_SECONDS).record(commit_began_at.elapsed());
        fail_point::reached("writer.committed");
        histogram!(APPEND_LOCK_HOLD_SECONDS).record(group.locked_at.elapsed());
        Ok((group, committed.err()))
    }

    async fn decide<'c>(
        &self,
        tx: &mut PgConnection,
        locks: AccountLocks,
        commands: impl FnOnce() -> Vec<&'c LinkCommand>,
    ) -> sqlx::Result<UncommittedGroup> {
        let (credits, commands) = match locks {
            AccountLocks::SkipLocked => {
                let commands = commands();
                let account_ids = account_ids(&commands);
                let credits = accounts::lock_free_ones_in_tx(tx, &account_ids).await?;
                (credits, commands)
            }
            AccountLocks::WaitFor(account_id) => {
                (accounts::lock_in_tx(tx, &[account_id]).await?, commands())
            }
        };
        let locked_at = Instant::now();
        let is_locked = |command: &&LinkCommand| credits.contains_key(&command.account_id());
        let are_locked: Vec<bool> = commands.iter().map(is_locked).collect();
        let commands: Vec<&LinkCommand> = commands.iter().copied().filter(is_locked).collect();

        let ids = self.new_ids(&commands);
        let state = self.load(tx, &commands, &ids, credits).await?;
        histogram!(APPEND_LOAD_SECONDS).record(locked_at.elapsed());
        let mut decisions = CommitGroup::new(&self.terms, renderer::CURRENT, state);
        let mut decided = with_ids(&commands, &ids).map(|(command, ids)| {
            let Some(outcome) = decisions.decide(command, ids) else {
                return AttemptResult::SlugNotReserved;
            };
            let credits = decisions.credits(command.account_id());
            AttemptResult::Decided(Decision { outcome, credits })
        });
        let result = |is_locked: bool| is_locked.then(|| decided.next()).flatten();
        let results = are_locked.into_iter().map(result);
        let results = results.map(|result| result.unwrap_or(AttemptResult::AccountLockedElsewhere));
        let mut results: Vec<AttemptResult> = results.collect();
        drop(decided);
        let decided = decisions.finish();
        let mut appended = Vec::new();
        if !decided.events.is_empty() {
            if !decided.unused_slugs.is_empty() {
                slugs::release_in_tx(tx, &decided.unused_slugs).await?;
            }
            let events: Vec<&NewEvent> = decided.events.iter().collect();
            appended = append::append_in_tx(tx, &events, &decided.credits).await?;
            let outcomes = results.iter_mut().filter_map(|result| match result {
                AttemptResult::Decided(decision) => Some(&mut decision.outcome),
                AttemptResult::AccountLockedElsewhere | AttemptResult::SlugNotReserved => None,
            });
            CommandOutcome::set_positions(outcomes, &appended);
        }
        Ok(UncommittedGroup {
            results,
            account_ids: decided.credits.into_keys().collect(),
            events: appended,
            locked_at,
        })
    }

    /// Loads the state that the commands need, and reserves the slugs of their creates.
    async fn load(
        &self,
        tx: &mut PgConnection,
        commands: &[&LinkCommand],
        ids: &[DecisionInput],
        credits: HashMap<AccountId, Credits>,
    ) -> sqlx::Result<LoadedState> {
        let stored = idempotency::find_creates_in_tx(tx, &keys(commands)).await?;
        let links = links::load_in_tx(tx, &link_ids(commands)).await?;
        let taken = find_taken(tx, &SlugPlan::slugs_of_batches(commands)).await?;
        let input = SlugPlanInput {
            credits: &credits,
            stored: &stored,
            taken: &taken,
            price: self.terms.link_price,
        };
        let plan = SlugPlan::new(commands, ids, input);
        // Looked up before the reservation: the slug is still free for commands before the one that
        // reserves the slug.
        let found = find_taken(tx, &plan.to_look_up).await?;
        let reserved_slugs = match &plan.to_reserve[..] {
            [] => HashMap::new(),
            wanted => slugs::reserve_in_tx(tx, wanted).await?,
        };
        let external_ids = commands.iter().flat_map(|command| command.external_ids());
        let external_ids: Vec<_> = external_ids.collect();
        Ok(LoadedState {
            credits,
            stored,
            taken_slugs: plan.taken(&reserved_slugs, found.into_iter().chain(taken)),
            reserved_slugs,
            external_ids: external_ids::find_holders_in_tx(tx, &external_ids).await?,
            links,
        })
    }

    /// Returns true if the commit group was committed. Looks up its events on another session, with retries.
    async fn is_committed(&self, group: &UncommittedGroup) -> Result<bool, GroupFailure> {
        let until = tokio::time::Instant::now() + RESOLVE_TIME_MAX;
        loop {
            match within(LOOKUP_TIME_MAX, self.look_up(group)).await {
                Ok(is_committed) => return Ok(is_committed),
                Err(error) if is_lock_timeout(&error) || tokio::time::Instant::now() >= until => {
                    return Err(GroupFailure::OutcomeUnknown(error));
                }
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "cannot read the outcome of a commit; retrying in 100 ms"
                    );
                    tokio::time::sleep(LOOKUP_RETRY_DELAY).await;
                }
            }
        }
    }

    async fn look_up(&self, group: &UncommittedGroup) -> sqlx::Result<bool> {
        let mut tx = PoolTransaction::begin(&self.pool).await?;
        // Waits for the end of the transaction of the commit group, which may still be running.
        accounts::lock_in_tx(&mut tx, &group.account_ids).await?;
        let is_committed = match group.events.first() {
            Some(event) => log::contains_in_tx(&mut tx, event).await?,
            None => true,
        };
        tx.rollback().await?;
        Ok(is_committed)
    }

    /// Draws the ids of all decisions on the commands.
    fn new_ids(&self, commands: &[&LinkCommand]) -> Vec<DecisionInput> {
        let sizes = commands.iter().map(|command| command.size());
        let ids = || {
            let now = self.clock.now();
            DecisionInput {
                now,
                link_id: LinkId::from_uuid(new_uuid(now)),
                event_ids: [(); EVENTS_MAX].map(|()| EventId::from_uuid(new_uuid(now))),
                generated_slug: Slug::generate(),
            }
        };
        std::iter::repeat_with(ids).take(sizes.sum()).collect()
    }
}

/// Returns the lower-cased slugs that belong to a link.
async fn find_taken(tx: &mut PgConnection, slug_keys: &[String]) -> sqlx::Result<HashSet<String>> {
    if slug_keys.is_empty() {
        return Ok(HashSet::new());
    }
    let taken = slugs::find_taken_in_tx(tx, slug_keys).await?;
    Ok(taken.into_iter().collect())
}

fn account_ids(commands: &[&LinkCommand]) -> Vec<AccountId> {
    let mut account_ids: Vec<_> = commands
        .iter()
        .map(|command| command.account_id())
        .collect();
    account_ids.sort_unstable();
    account_ids.dedup();
    account_ids
}

fn keys(commands: &[&LinkCommand]) -> Vec<(AccountId, IdempotencyKey)> {
    let creates = commands.iter().flat_map(|command| command.creates());
    creates
        .map(|create| (create.account_id, create.key))
        .collect()
}

fn link_ids(commands: &[&LinkCommand]) -> Vec<(AccountId, LinkId)> {
    let link_id = |command: &&LinkCommand| match command {
        LinkCommand::Create(_) | LinkCommand::Batch(_) => None,
        LinkCommand::Change(change) => Some((change.account_id, change.link_id?)),
    };
    let mut link_ids: Vec<_> = commands.iter().filter_map(link_id).collect();
    link_ids.sort_unstable();
    link_ids.dedup();
    link_ids
}
