//! What all commands that append an event have in common: the account's lock, who the operator is,
//! and the commit.

use std::collections::HashMap;

use anyhow::{Context as _, bail};
use linkledger_core::{
    clock::{Clock, new_uuid},
    credits::Credits,
    envelope::{Metadata, NewEvent},
    event_store::{accounts, append},
    id::{AccountId, EventId},
};
use sqlx::{PgPool, Postgres, Transaction};
use time::OffsetDateTime;

/// Who the log says has done it.
pub(super) const OPERATOR: &str = "operator";

/// A decision in the making: the account is locked until it is appended, or dropped.
pub(super) struct Decision {
    pub(super) tx: Transaction<'static, Postgres>,
    pub(super) account_id: AccountId,
    pub(super) credits: Credits,
    /// The one clock reading of the decision.
    pub(super) now: OffsetDateTime,
}

/// Locks the account.
///
/// # Errors
/// When it does not exist, or the database does not answer.
pub(super) async fn begin(
    pool: &PgPool,
    clock: &dyn Clock,
    account_id: AccountId,
) -> anyhow::Result<Decision> {
    let mut tx = pool.begin().await.context("can't begin")?;
    let accounts = accounts::lock_in_tx(&mut tx, &[account_id]).await;
    let accounts = accounts.context("can't lock the account; try again")?;
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
    /// A fresh id for an event.
    pub(super) fn event_id(&self) -> EventId {
        EventId::from_uuid(new_uuid(self.now))
    }

    /// Circumstances of the event: by whom.
    pub(super) fn metadata() -> Metadata {
        Metadata {
            actor: Some(OPERATOR.to_owned()),
            ..Metadata::default()
        }
    }

    /// Appends the event and commits; the account has `credits` afterwards.
    ///
    /// # Errors
    /// When the database does not answer. `or_else` says what to do if it is not known whether the
    /// event was appended.
    pub(super) async fn append(
        mut self,
        event: NewEvent,
        credits: Credits,
        or_else: &str,
    ) -> anyhow::Result<()> {
        let accounts = HashMap::from([(self.account_id, credits)]);
        append::append_in_tx(&mut self.tx, &[event], &accounts)
            .await
            .context("can't append")?;
        let committed = self.tx.commit().await;
        committed.with_context(|| format!("it is not known whether it was done; {or_else}"))
    }
}
