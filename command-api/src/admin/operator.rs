//! Steps of all commands that append an event: locking the account, naming the operator, and the commit.

use std::collections::HashMap;

use anyhow::{Context as _, bail};
use linkledger_core::{
    clock::{Clock, new_uuid},
    credits::Credits,
    envelope::{IdempotencyMark, Metadata, NewEvent},
    event::Event,
    id::{AccountId, EventId},
};
use linkledger_event_store::{accounts, append, transaction::PoolTransaction};
use sqlx::PgPool;
use time::OffsetDateTime;

/// Actor of the events of operators.
pub(super) const OPERATOR: &str = "operator";

/// Transaction that locks an account until an event is appended, or until the decision is dropped.
pub(super) struct Decision {
    pub(super) tx: PoolTransaction,
    pub(super) account_id: AccountId,
    pub(super) credits: Credits,
    /// Time of the decision.
    pub(super) now: OffsetDateTime,
}

/// Locks the account.
///
/// # Errors
/// Returns an error if the account does not exist, or the database fails.
pub(super) async fn begin(
    pool: &PgPool,
    clock: &dyn Clock,
    account_id: AccountId,
) -> anyhow::Result<Decision> {
    let tx = PoolTransaction::begin(pool).await;
    let mut tx = tx.context("cannot begin a transaction; retry the command")?;
    let accounts = accounts::lock_in_tx(&mut tx, &[account_id]).await;
    let accounts = accounts.context("cannot lock the account; retry the command")?;
    let Some(credits) = accounts.get(&account_id).copied() else {
        bail!("there is no account {account_id}");
    };
    Ok(Decision {
        tx,
        account_id,
        credits,
        now: clock.now(),
    })
}

impl Decision {
    /// Returns a new id for an event.
    pub(super) fn event_id(&self) -> EventId {
        EventId::from_uuid(new_uuid(self.now))
    }

    /// Returns the metadata of an event of an operator.
    pub(super) fn metadata() -> Metadata {
        Metadata {
            actor: Some(OPERATOR.to_owned()),
            ..Metadata::default()
        }
    }

    /// Appends an event of the account's own stream, as [`Self::append`] does. `credits` are the credits
    /// after the event.
    pub(super) async fn append_to_account(
        self,
        event: Event,
        credits: Credits,
        idempotency: Option<IdempotencyMark>,
        or_else: &str,
    ) -> anyhow::Result<()> {
        let event = NewEvent {
            event_id: self.event_id(),
            account_id: self.account_id,
            version: credits.version,
            recorded_at: self.now,
            event,
            metadata: Self::metadata(),
            idempotency,
        };
        self.append(event, credits, or_else).await
    }

    /// Appends the event, sets the credits of the account, and commits.
    ///
    /// # Errors
    /// Returns an error if the database fails. The error contains the advice `or_else` if
    /// the outcome of the commit is unknown.
    pub(super) async fn append(
        mut self,
        event: NewEvent,
        credits: Credits,
        or_else: &str,
    ) -> anyhow::Result<()> {
        let accounts = HashMap::from([(self.account_id, credits)]);
        append::append_in_tx(&mut self.tx, &[&event], &accounts)
            .await
            .context("cannot append the event; nothing was done")?;
        let committed = self.tx.commit().await;
        committed.with_context(|| format!("the outcome of the commit is unknown; {or_else}"))
    }
}
