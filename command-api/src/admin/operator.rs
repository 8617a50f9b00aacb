//! Steps of all functions that append events: locking the account, finding the effect of an earlier request, and the
//! commit.

use std::collections::HashMap;

use anyhow::Context as _;
use linkledger_core::{
    clock::new_uuid,
    credits::Credits,
    envelope::{IdempotencyMark, NewEvent, RecordedEvent},
    event::Event,
    id::{AccountId, EventId},
    shard::Position,
};
use linkledger_event_store::{accounts, append, idempotency, transaction::PoolTransaction};
use time::OffsetDateTime;

use super::{
    author::{EffectKind, Request},
    error::{AdminError, AdminRefusal, AdminResult},
};

/// Transaction that locks an account until events are appended, or until the decision is dropped.
pub(super) struct Decision<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) tx: PoolTransaction,
    pub(super) account_id: AccountId,
    pub(super) credits: Credits,
    /// Time of the decision.
    pub(super) now: OffsetDateTime,
}

/// Begins a transaction.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn begin_transaction(request: &Request<'_>) -> AdminResult<PoolTransaction> {
    let tx = PoolTransaction::begin(request.pool).await;
    tx.map_err(AdminError::of_statement("begin a transaction"))
}

/// Locks the account.
///
/// # Errors
/// Returns an error if the account does not exist, or the database fails.
pub(super) async fn begin<'a>(
    request: &'a Request<'a>,
    account_id: AccountId,
) -> AdminResult<Decision<'a>> {
    let mut tx = begin_transaction(request).await?;
    let accounts = accounts::lock_in_tx(&mut tx, &[account_id]).await;
    let accounts = accounts.map_err(AdminError::of_statement("lock the account"))?;
    let credits = accounts.get(&account_id).copied();
    Ok(Decision {
        request,
        tx,
        account_id,
        credits: credits.ok_or(AdminRefusal::AccountNotFound(account_id))?,
        now: request.clock.now(),
    })
}

impl Decision<'_> {
    /// Returns the event that an earlier request with the same idempotency key has appended.
    ///
    /// # Errors
    /// Returns an error if the key was used for another request of the kind, or the database fails.
    pub(super) async fn find_effect(
        &mut self,
        kind: EffectKind,
        mark: Option<&IdempotencyMark>,
    ) -> AdminResult<Option<RecordedEvent>> {
        let Some(mark) = mark else { return Ok(None) };
        let effect = idempotency::find_effect_in_tx(&mut self.tx, self.account_id, &mark.key).await;
        let effect = effect.map_err(AdminError::of_statement("look up the idempotency key"))?;
        match effect {
            Some(effect) if effect.fingerprint != mark.fingerprint => {
                Err(AdminRefusal::IdempotencyKeyReused { kind: kind.name() }.into())
            }
            effect => Ok(effect.map(|effect| effect.event)),
        }
    }

    /// Returns a new id for an event.
    pub(super) fn event_id(&self) -> EventId {
        EventId::from_uuid(new_uuid(self.now))
    }

    /// Returns the next event of the account's own stream, and counts it. `credits` are the credits after the event.
    pub(super) fn next_event(&mut self, event: Event, credits: Credits) -> NewEvent {
        self.credits = credits;
        NewEvent {
            event_id: self.event_id(),
            account_id: self.account_id,
            version: credits.version,
            recorded_at: self.now,
            event,
            metadata: self.request.metadata.clone(),
            idempotency: None,
        }
    }

    /// Appends the events, stores the credits of the account, and commits. Returns the position of the last event.
    ///
    /// # Errors
    /// Returns an error if the database fails. The outcome may be unknown.
    pub(super) async fn append(mut self, events: &[NewEvent]) -> AdminResult<Position> {
        let accounts = HashMap::from([(self.account_id, self.credits)]);
        let events: Vec<&NewEvent> = events.iter().collect();
        let appended = append::append_in_tx(&mut self.tx, &events, &accounts).await;
        let appended = appended.map_err(AdminError::of_statement("append the event"))?;
        let position = appended.last().map(|event| event.position);
        commit(self.tx, self.request).await?;
        position.ok_or_else(|| AdminError::Failed(anyhow::anyhow!("no event was appended")))
    }
}

impl Decision<'_> {
    /// Commits without an event, for a decision about rows that the log does not describe.
    ///
    /// # Errors
    /// Returns an error if the database fails. The outcome may be unknown.
    pub(super) async fn commit(self) -> AdminResult<()> {
        commit(self.tx, self.request).await
    }
}

/// Commits the transaction of a request.
async fn commit(tx: PoolTransaction, request: &Request<'_>) -> AdminResult<()> {
    // The server may have committed before any error.
    let committed = tx.commit().await.with_context(|| {
        let advice = request.advice_to_retry();
        format!("the outcome of the commit is unknown; {advice}")
    });
    committed.map_err(AdminError::OutcomeUnknown)
}
