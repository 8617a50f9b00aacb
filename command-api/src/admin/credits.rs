//! Credits: grants, corrections, refunds and revocations, and the commands `credits …`.

mod command;

use linkledger_core::{
    credits::{CreditsEvent, GrantRequest, REFERENCE_LENGTH_MAX},
    envelope::{IdempotencyMark, NewEvent, RecordedEvent},
    event::Event,
    id::{AccountId, EntryId, EventId},
};
use linkledger_event_store::log;
use linkledger_http::admin_views::EntryView;
use serde_json::json;

pub(super) use self::command::run;
pub use self::command::{
    CreditsSubcommand, CreditsSubject, GrantArguments, RefundArguments, RevokeGrantArguments,
    SetBalanceArguments,
};
use super::{
    author::{EffectKind, Request, parse_ascii},
    error::{AdminError, AdminRefusal, AdminResult, Done},
    operator::{self, Decision},
};

/// Requested change of the credits of an account.
#[derive(Debug, Clone, Copy)]
enum CreditsChange<'a> {
    Grant(&'a GrantRequest),
    Adjust(&'a GrantRequest),
    SetBalance { balance: i64, reason: &'a str },
    Refund { charge: EntryId, reason: &'a str },
    Revoke { grant: EntryId, reason: &'a str },
}

/// Adds credits to an account, once per idempotency key.
///
/// # Errors
/// Returns an error if the account does not exist, if the idempotency key was used for another grant, if the amount is
/// not positive or the balance would be too large, or if the database fails.
pub async fn grant(
    request: &Request<'_>,
    account_id: AccountId,
    wanted: &GrantRequest,
) -> AdminResult<Done<EntryView>> {
    change(request, account_id, CreditsChange::Grant(wanted)).await
}

/// Corrects the balance of an account by an amount, upwards or downwards, once per idempotency key.
///
/// # Errors
/// Returns an error if the account does not exist, if the idempotency key was used for another correction, if the
/// amount is 0, the balance would fall below 0 or be too large, or if the database fails.
pub async fn adjust(
    request: &Request<'_>,
    account_id: AccountId,
    wanted: &GrantRequest,
) -> AdminResult<Done<EntryView>> {
    change(request, account_id, CreditsChange::Adjust(wanted)).await
}

/// Sets the balance of an account as one correction, once per idempotency key. The correction is by 0 if the account
/// has this balance already, so that a late retry of the request finds its effect.
///
/// # Errors
/// Returns an error if the account does not exist, if the idempotency key was used for another balance, if the balance
/// is negative, or if the database fails.
pub async fn set_balance(
    request: &Request<'_>,
    account_id: AccountId,
    balance: i64,
    reason: &str,
) -> AdminResult<Done<EntryView>> {
    let wanted = CreditsChange::SetBalance { balance, reason };
    change(request, account_id, wanted).await
}

/// Gives a charge back, as a whole and at most once.
///
/// # Errors
/// Returns an error if the account or its charge does not exist, if the charge was given back before, if the
/// idempotency key was used for another refund, or if the database fails.
pub async fn refund(
    request: &Request<'_>,
    account_id: AccountId,
    charge: EntryId,
    reason: &str,
) -> AdminResult<Done<EntryView>> {
    let wanted = CreditsChange::Refund { charge, reason };
    change(request, account_id, wanted).await
}

/// Takes a grant back, at most once: as many of its credits as the balance has. The entry tells how many are missing.
///
/// # Errors
/// Returns an error if the account or its grant does not exist, if the grant was taken back before, if the idempotency
/// key was used for another revocation, or if the database fails.
pub async fn revoke_grant(
    request: &Request<'_>,
    account_id: AccountId,
    grant: EntryId,
    reason: &str,
) -> AdminResult<Done<EntryView>> {
    let wanted = CreditsChange::Revoke { grant, reason };
    change(request, account_id, wanted).await
}

/// Parses a reference in the seller's system: 1 to 128 printable ASCII characters.
///
/// # Errors
/// Returns a description of valid references.
pub fn parse_reference(text: &str) -> Result<String, String> {
    parse_ascii(text, REFERENCE_LENGTH_MAX)
}

async fn change(
    request: &Request<'_>,
    account_id: AccountId,
    wanted: CreditsChange<'_>,
) -> AdminResult<Done<EntryView>> {
    let mark = wanted.mark(request);
    let reversed = match wanted.reversed() {
        Some(entry) => find_entry(request, account_id, entry).await?,
        None => None,
    };
    let mut decision = operator::begin(request, account_id).await?;
    if let Some(effect) = decision.find_effect(wanted.kind(), mark.as_ref()).await? {
        return replay(&effect);
    }
    let event = wanted.decide(&mut decision, reversed).await?;
    let credits = decision.credits.apply(&event);
    let new_event = NewEvent {
        idempotency: mark,
        ..decision.next_event(Event::Credits(event.clone()), credits)
    };
    let entry = EntryView::of(entry_id(new_event.event_id), &event, decision.now);
    Ok(Done {
        value: entry,
        replayed: false,
        position: Some(decision.append(&[new_event]).await?),
    })
}

/// Returns the answer to the request that has appended the event.
fn replay(event: &RecordedEvent) -> AdminResult<Done<EntryView>> {
    let Event::Credits(credits) = event.decode().map_err(AdminError::unreadable)? else {
        return Err(AdminError::unreadable(&event.event_type));
    };
    Ok(Done {
        value: EntryView::of(entry_id(event.event_id), &credits, event.recorded_at),
        replayed: true,
        position: Some(event.position),
    })
}

fn entry_id(event_id: EventId) -> EntryId {
    EntryId::from_uuid(event_id.uuid())
}

impl CreditsChange<'_> {
    const fn kind(self) -> EffectKind {
        match self {
            Self::Grant(_) => EffectKind::Grant,
            Self::Adjust(_) => EffectKind::Adjust,
            Self::SetBalance { .. } => EffectKind::Balance,
            Self::Refund { .. } => EffectKind::Refund,
            Self::Revoke { .. } => EffectKind::Revocation,
        }
    }

    fn mark(self, request: &Request<'_>) -> Option<IdempotencyMark> {
        let kind = self.kind();
        match self {
            Self::Grant(wanted) | Self::Adjust(wanted) => {
                let body = [
                    ("amount", json!(wanted.amount)),
                    ("reason", json!(wanted.reason)),
                    ("reference", json!(wanted.reference)),
                    ("description", json!(wanted.description)),
                ];
                request.mark(kind, body)
            }
            Self::SetBalance { balance, reason } => {
                let body = [("balance", json!(balance)), ("reason", json!(reason))];
                request.mark(kind, body)
            }
            Self::Refund {
                charge: entry,
                reason,
            }
            | Self::Revoke {
                grant: entry,
                reason,
            } => {
                let body = [("entry", json!(entry)), ("reason", json!(reason))];
                request.mark(kind, body)
            }
        }
    }

    /// Returns the entry that the change reverses.
    const fn reversed(self) -> Option<EntryId> {
        match self {
            Self::Refund { charge: entry, .. } | Self::Revoke { grant: entry, .. } => Some(entry),
            Self::Grant(_) | Self::Adjust(_) | Self::SetBalance { .. } => None,
        }
    }

    /// Decides the change. `reversed` is the entry that it reverses, if the account has this entry.
    async fn decide(
        self,
        decision: &mut Decision<'_>,
        reversed: Option<CreditsEvent>,
    ) -> AdminResult<CreditsEvent> {
        let (credits, account_id) = (decision.credits, decision.account_id);
        let decided = match self {
            Self::Grant(wanted) => {
                let granted = credits.decide_grant(account_id, wanted);
                granted.map(CreditsEvent::Granted)
            }
            Self::Adjust(wanted) => {
                let adjusted = credits.decide_adjust(account_id, wanted);
                adjusted.map(CreditsEvent::Adjusted)
            }
            Self::SetBalance { balance, reason } => {
                let adjusted = credits.decide_set_balance(account_id, balance, reason);
                adjusted.map(CreditsEvent::Adjusted)
            }
            Self::Refund { charge, reason } => {
                let charged = match reversed {
                    Some(CreditsEvent::Charged(charged)) => charged,
                    Some(_) => return Err(AdminRefusal::NotACharge(charge).into()),
                    None => return Err(AdminRefusal::EntryNotFound(charge).into()),
                };
                if is_reversed(decision, charge).await? {
                    return Err(AdminRefusal::AlreadyRefunded(charge).into());
                }
                let refunded = credits.decide_refund(account_id, &charged, charge, reason);
                refunded.map(CreditsEvent::Refunded)
            }
            Self::Revoke { grant, reason } => {
                let granted = match reversed {
                    Some(CreditsEvent::Granted(granted)) => granted,
                    Some(_) => return Err(AdminRefusal::NotAGrant(grant).into()),
                    None => return Err(AdminRefusal::EntryNotFound(grant).into()),
                };
                if is_reversed(decision, grant).await? {
                    return Err(AdminRefusal::AlreadyRevoked(grant).into());
                }
                let revoked = credits.decide_revoke(account_id, &granted, grant, reason);
                Ok(CreditsEvent::Revoked(revoked))
            }
        };
        decided.map_err(|error| AdminRefusal::Credits(error).into())
    }
}

/// Reads the event of an entry; `None` if the account has no such entry. The account need not be locked: an event never
/// changes.
async fn find_entry(
    request: &Request<'_>,
    account_id: AccountId,
    entry: EntryId,
) -> AdminResult<Option<CreditsEvent>> {
    let found = log::find_entry(request.pool, account_id, entry).await;
    let found = found.map_err(AdminError::of_statement("look up the entry"))?;
    let Some(event) = found else { return Ok(None) };
    match event.decode().map_err(AdminError::unreadable)? {
        Event::Credits(credits) => Ok(Some(credits)),
        // The event is no entry.
        Event::Link(_)
        | Event::Account(_)
        | Event::ApiKey(_)
        | Event::Webhook(_)
        | Event::Observation(_) => Ok(None),
    }
}

/// Returns true if a charge was given back, or a grant was taken back.
async fn is_reversed(decision: &mut Decision<'_>, entry: EntryId) -> AdminResult<bool> {
    let reversed = log::is_reversed_in_tx(&mut decision.tx, decision.account_id, entry).await;
    reversed.map_err(AdminError::of_statement("look up the entry"))
}
