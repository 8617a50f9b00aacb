//! Appends events that no command causes: links that have expired, first clicks of links, and clicks by minute.
//!
//! Every instance of command-api runs an [`Observer`]. Any number of them may work at once: an event is appended in the
//! transaction that claims its row, and only one transaction claims a row. Requests never wait for an observer, but for
//! the locks of accounts that it holds for a moment. A failure is logged, and the next round retries.

use std::{collections::HashSet, error::Error, time::Duration};

use linkledger_core::{
    clock::new_uuid,
    envelope::{Metadata, NewEvent},
    event::Event,
    id::{AccountId, EventId},
};
use linkledger_event_store::{
    accounts, append,
    errors::is_transient,
    observations::{Candidate, Source},
    time_limit::{ANSWER_TIME_MAX, within},
    transaction::{self, PoolTransaction},
};
use linkledger_service::{fail_point, metrics::OBSERVATIONS_WAITING_SECONDS};
use metrics::gauge;
use sqlx::PgPool;
use time::OffsetDateTime;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// Actor of the events that an observer appends.
const OBSERVER: &str = "observer";
/// Interval between two rounds.
const INTERVAL: Duration = Duration::from_secs(1);
/// Longest time of a source in one round: a backlog of one delays the others no longer.
const SOURCE_TIME_MAX: Duration = Duration::from_secs(5);

/// Background task that appends observations.
pub struct Observer {
    /// Sessions of kind `Writer`.
    pool: PgPool,
    /// End of the last round that left nothing that was due.
    finished_at: Instant,
    /// Failures that were logged since the last round without failure; each is logged once.
    logged_failures: HashSet<String>,
}

impl Observer {
    /// Returns an observer that uses one session of `pool` at a time.
    pub fn new(pool: PgPool) -> Self {
        Self {
            pool,
            finished_at: Instant::now(),
            logged_failures: HashSet::new(),
        }
    }

    /// Appends observations until the shutdown.
    ///
    /// # Errors
    /// Never returns an error: failures are logged and retried.
    pub async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        while !shutdown.is_cancelled() {
            shutdown.run_until_cancelled(Box::pin(self.round())).await;
            timeout(INTERVAL, shutdown.cancelled()).await.ok();
        }
        Ok(())
    }

    /// Appends the observations that are due. Returns false if some are left, because there are too many or because of a
    /// failure.
    pub async fn round(&mut self) -> bool {
        let (mut is_finished, mut failures) = (true, Vec::new());
        let sources = within(ANSWER_TIME_MAX, Source::of_database(&self.pool)).await;
        let sources = sources.unwrap_or_else(|error| {
            failures.push(error);
            &[]
        });
        for source in sources {
            match self.append_due(*source).await {
                Ok(all) => is_finished &= all,
                Err(error) => failures.push(error),
            }
        }
        self.log(&failures);
        is_finished &= failures.is_empty();
        self.report(is_finished);
        is_finished
    }

    /// Appends the observations of a source. Returns true if none is left that could be appended.
    async fn append_due(&self, source: Source) -> sqlx::Result<bool> {
        let end = Instant::now() + SOURCE_TIME_MAX;
        let (mut after, mut is_finished) = (None, true);
        while Instant::now() < end {
            let reading = source.candidates(&self.pool, after.as_ref());
            let candidates = within(ANSWER_TIME_MAX, reading).await?;
            let Some(last) = candidates.last() else {
                return Ok(is_finished);
            };
            after = Some(*last);
            is_finished &= self.append_each(source, &candidates).await?;
        }
        Ok(false)
    }

    /// Appends the observations of candidates in one transaction. What the database refuses is tried account by account,
    /// so that one damaged account delays no other. Returns false if some candidates are left.
    async fn append_each(&self, source: Source, candidates: &[Candidate]) -> sqlx::Result<bool> {
        let error = match within(ANSWER_TIME_MAX, self.append(source, candidates)).await {
            Err(error) if !is_transient(&error) => error,
            appended => return appended,
        };
        let of_accounts = candidates.chunk_by(|a, b| a.account_id == b.account_id);
        if of_accounts.clone().count() < 2 {
            return Err(error);
        }
        let mut failure = None;
        for of_account in of_accounts {
            let appended = within(ANSWER_TIME_MAX, self.append(source, of_account)).await;
            failure = appended.err().or(failure);
        }
        failure.map_or(Ok(true), Err)
    }

    /// Claims candidates and appends their events, in one transaction. Returns false if others have locked some accounts:
    /// the next round tries them again.
    async fn append(&self, source: Source, candidates: &[Candidate]) -> sqlx::Result<bool> {
        let mut account_ids: Vec<AccountId> = candidates.iter().map(|it| it.account_id).collect();
        account_ids.sort_unstable();
        account_ids.dedup();
        let mut tx = PoolTransaction::begin(&self.pool).await?;
        // Waiting for one account would keep the locks of the others meanwhile.
        let mut accounts = accounts::lock_free_ones_in_tx(&mut tx, &account_ids).await?;
        let can_be_claimed = candidates
            .iter()
            .filter(|it| accounts.contains_key(&it.account_id) || !it.is_of_known_account);
        let claimable: Vec<Candidate> = can_be_claimed.copied().collect();
        let observed = source.claim_in_tx(&mut tx, &claimable).await?;
        let is_whole = claimable.len() == candidates.len();
        if observed.is_empty() {
            tx.rollback().await?;
            return Ok(is_whole);
        }
        // Not the clock of this process: a link expires at one instant, whichever process looks.
        let now = transaction::database_now(&mut tx).await?;
        let events = observed.into_iter().filter_map(|event| {
            let event = Event::Observation(event);
            let account_id = event.account_id();
            let Some(credits) = accounts.get_mut(&account_id) else {
                tracing::warn!(%account_id, "the log lacks the account of clicks, which are dropped");
                return None;
            };
            *credits = credits.pass();
            Some(new_event(credits.version, now, event))
        });
        let events: Vec<NewEvent> = events.collect();
        let events: Vec<&NewEvent> = events.iter().collect();
        append::append_in_tx(&mut tx, &events, &accounts).await?;
        fail_point::reached("observer.claimed");
        tx.commit().await?;
        fail_point::reached("observer.committed");
        Ok(is_whole)
    }

    /// Reports for how long due observations have waited.
    fn report(&mut self, is_finished: bool) {
        let now = Instant::now();
        if is_finished {
            self.finished_at = now;
        }
        let waiting = now - self.finished_at;
        gauge!(OBSERVATIONS_WAITING_SECONDS).set(waiting.as_secs_f64());
    }

    fn log(&mut self, failures: &[sqlx::Error]) {
        for error in failures {
            if self.logged_failures.insert(error.to_string()) {
                tracing::warn!(
                    error = error as &dyn Error,
                    "observations could not be appended; the next round retries"
                );
            }
        }
        if failures.is_empty() && !self.logged_failures.is_empty() {
            self.logged_failures.clear();
            tracing::info!("observations can be appended again");
        }
    }
}

fn new_event(version: i64, now: OffsetDateTime, event: Event) -> NewEvent {
    NewEvent {
        event_id: EventId::from_uuid(new_uuid(now)),
        account_id: event.account_id(),
        version,
        recorded_at: now,
        event,
        metadata: Metadata {
            actor: Some(OBSERVER.to_owned()),
            ..Metadata::default()
        },
        idempotency: None,
    }
}
