//! Accounts: creation, changes and suspension, and the commands `account …`.

mod command;
mod shown;

use linkledger_core::{
    account::{Account, AccountChangeRequest, AccountCreated, AccountEvent, OPERATORS_EXTERNAL_ID},
    change::ValueUpdate,
    clock::new_uuid,
    credits::{Credits, LowBalanceAt},
    envelope::{IdempotencyMark, RecordedEvent},
    event::Event,
    id::AccountId,
};
use linkledger_event_store::accounts;
use linkledger_http::admin_views::AccountView;
use linkledger_service::operator::parse_text;
use serde_json::json;

pub(super) use self::command::run;
pub use self::{
    command::{
        AccountChangeArguments, AccountChangeOptions, AccountSubcommand, AccountSubject,
        SuspendArguments,
    },
    shown::ListAccounts,
};
use super::{
    author::{EffectKind, Request},
    error::{AdminError, AdminRefusal, AdminResult, Done, violates},
    operator::{self, Decision},
};

/// Number of attempts to write an account while others write one with the same external id.
const ATTEMPTS_MAX: u32 = 5;
const CREATION_KEY_UNIQUE: &str = "accounts_creation_key_unique";
const EXTERNAL_ID_UNIQUE: &str = "accounts_external_id_unique";

/// Account to create.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct NewAccount {
    /// Display name of the account.
    #[arg(long, value_parser = parse_text)]
    pub name: String,
    /// Id of the account in your system, unique in the service: 1 to 128 of A-Z, a-z, 0-9, `.`, `_`, `:`, `/`, `@`
    /// and `-`, but neither `.` nor `..`.
    #[arg(long, value_parser = command::parse_external_id)]
    pub external_id: Option<String>,
    /// Up to 5 balances in credits, such as 10,100: a charge that crosses one downwards is a message credits.low to
    /// webhooks.
    #[arg(long, value_name = "CREDITS,…", value_parser = command::parse_low_balance_at)]
    pub low_balance_at: Option<LowBalanceAt>,
}

/// Creates an account without credits and keys, once per idempotency key.
///
/// # Errors
/// Returns an error if another account has the external id, if the idempotency key was used for another account, or if
/// the database fails.
pub async fn create(request: &Request<'_>, new: &NewAccount) -> AdminResult<Done<AccountView>> {
    refuse_reserved(new.external_id.as_deref())?;
    for _ in 0..ATTEMPTS_MAX {
        if let Some(created) = try_create(request, new).await? {
            return Ok(created);
        }
        // There is an account with this key or this external id. The key comes first: requests with one key have one
        // answer.
        if let Some(created) = find_created(request, new).await? {
            return Ok(created);
        }
        refuse_taken(request, new.external_id.as_deref()).await?;
    }
    Err(contended())
}

/// Gives the name to the account with the external id, and the thresholds, unless they are `None`; or creates the
/// account: of many requests at once, one creates. Returns true beside the account if this request has created it.
///
/// # Errors
/// Returns an error if the external id belongs to the account of the operators, or if the database fails.
pub async fn upsert(
    request: &Request<'_>,
    external_id: &str,
    name: &str,
    low_balance_at: Option<LowBalanceAt>,
) -> AdminResult<(Done<AccountView>, bool)> {
    refuse_reserved(Some(external_id))?;
    create_or_change(request, external_id, name, low_balance_at).await
}

/// Returns the account with an external id of the service's own, and creates the account if there is none.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn ensure(
    request: &Request<'_>,
    external_id: &str,
    name: &str,
) -> AdminResult<AccountId> {
    let request = Request {
        // The key is that of what needs the account.
        idempotency_key: None,
        ..request.clone()
    };
    let (done, _) = create_or_change(&request, external_id, name, None).await?;
    Ok(done.value.id)
}

async fn create_or_change(
    request: &Request<'_>,
    external_id: &str,
    name: &str,
    low_balance_at: Option<LowBalanceAt>,
) -> AdminResult<(Done<AccountView>, bool)> {
    let wanted = AccountChangeRequest {
        name: Some(name.to_owned()),
        external_id: ValueUpdate::Keep,
        low_balance_at,
    };
    let new = NewAccount {
        name: name.to_owned(),
        external_id: Some(external_id.to_owned()),
        low_balance_at,
    };
    for _ in 0..ATTEMPTS_MAX {
        let Some(account_id) = find_holder(request, external_id).await? else {
            if let Some(created) = try_create(request, &new).await? {
                return Ok((created, true));
            }
            continue;
        };
        let (decision, account) = begin(request, account_id).await?;
        // A change may have given the external id to another account since the look-up.
        if account.external_id.as_deref() != Some(external_id) {
            continue;
        }
        let event = account.decide_change(&wanted).map(AccountEvent::Changed);
        if let Some(changed) = store(decision, account, event, None).await? {
            return Ok((changed, false));
        }
    }
    Err(contended())
}

/// Changes name, external id or thresholds of an account.
///
/// # Errors
/// Returns an error if the account does not exist, if another account has the external id, or if the database fails.
pub async fn change(
    request: &Request<'_>,
    account_id: AccountId,
    wanted: &AccountChangeRequest,
) -> AdminResult<Done<AccountView>> {
    refuse_reserved(wanted.external_id.value().map(String::as_str))?;
    for _ in 0..ATTEMPTS_MAX {
        let (decision, account) = begin(request, account_id).await?;
        if wanted.external_id != ValueUpdate::Keep {
            // The account of the operators keeps its external id, by which its webhooks are found.
            refuse_reserved(account.external_id.as_deref())?;
        }
        let event = account.decide_change(wanted).map(AccountEvent::Changed);
        if let Some(changed) = store(decision, account, event, None).await? {
            return Ok(changed);
        }
        let external_id = wanted.external_id.value();
        refuse_taken(request, external_id.map(String::as_str)).await?;
    }
    Err(contended())
}

/// Suspends an account, once per idempotency key; of a suspended account, stops or resumes the redirects. Without
/// `stop_redirects` they stay as they are.
///
/// # Errors
/// Returns an error if the account does not exist, if the idempotency key was used for another suspension, or if the
/// database fails.
pub async fn suspend(
    request: &Request<'_>,
    account_id: AccountId,
    reason: &str,
    stop_redirects: Option<bool>,
) -> AdminResult<Done<AccountView>> {
    let body = [
        ("reason", json!(reason)),
        ("stop_redirects", json!(stop_redirects)),
    ];
    let mark = request.mark(EffectKind::Suspend, body);
    set_status(
        request,
        account_id,
        (EffectKind::Suspend, mark),
        |account| {
            // Links that a former suspension has stopped stay so, unless the request says otherwise.
            let stop_redirects = stop_redirects.unwrap_or(account.status.redirects_stopped());
            let suspended = account.decide_suspend(reason, stop_redirects);
            suspended.map(AccountEvent::Suspended)
        },
    )
    .await
}

/// Puts a suspended account and its links back into service, once per idempotency key.
///
/// # Errors
/// Returns an error if the account does not exist, if the idempotency key was used for another resumption, or if the
/// database fails.
pub async fn resume(
    request: &Request<'_>,
    account_id: AccountId,
    reason: &str,
) -> AdminResult<Done<AccountView>> {
    let mark = request.mark(EffectKind::Resume, [("reason", json!(reason))]);
    set_status(request, account_id, (EffectKind::Resume, mark), |account| {
        account.decide_resume(reason).map(AccountEvent::Resumed)
    })
    .await
}

async fn set_status(
    request: &Request<'_>,
    account_id: AccountId,
    (kind, mark): (EffectKind, Option<IdempotencyMark>),
    decide: impl FnOnce(&Account) -> Option<AccountEvent> + Send,
) -> AdminResult<Done<AccountView>> {
    let (mut decision, account) = begin(request, account_id).await?;
    if let Some(effect) = decision.find_effect(kind, mark.as_ref()).await? {
        return replay(&effect);
    }
    let event = decide(&account);
    let stored = store(decision, account, event, mark).await?;
    stored.ok_or_else(contended)
}

/// Locks an account and reads it.
async fn begin<'a>(
    request: &'a Request<'a>,
    account_id: AccountId,
) -> AdminResult<(Decision<'a>, Account)> {
    let mut decision = operator::begin(request, account_id).await?;
    let account = accounts::get_in_tx(&mut decision.tx, account_id).await;
    let account = account.map_err(AdminError::of_statement("read the account"))?;
    Ok((decision, account))
}

/// Creates the account; returns `None` if there is an account with this idempotency key or this external id.
async fn try_create(
    request: &Request<'_>,
    new: &NewAccount,
) -> AdminResult<Option<Done<AccountView>>> {
    let mut tx = operator::begin_transaction(request).await?;
    let now = request.clock.now();
    let created = AccountCreated {
        account_id: AccountId::from_uuid(new_uuid(now)),
        name: new.name.clone(),
        external_id: new.external_id.clone(),
        low_balance_at: new.low_balance_at.unwrap_or_default(),
    };
    let account = Account::new(&created, now);
    let key = request.idempotency_key.as_deref();
    if let Err(error) = accounts::create_in_tx(&mut tx, &account, key).await {
        if violates(&error, &[CREATION_KEY_UNIQUE, EXTERNAL_ID_UNIQUE]) {
            return Ok(None);
        }
        return Err(AdminError::of_statement("create the account")(error));
    }
    let decision = Decision {
        request,
        tx,
        account_id: account.account_id,
        credits: Credits::default(),
        now,
    };
    let mark = creation_mark(request, new);
    let event = AccountEvent::Created(created);
    append(decision, &account, event, mark).await.map(Some)
}

/// Returns the answer to the request that has created the account with the same idempotency key.
async fn find_created(
    request: &Request<'_>,
    new: &NewAccount,
) -> AdminResult<Option<Done<AccountView>>> {
    let Some(key) = &request.idempotency_key else {
        return Ok(None);
    };
    let mut tx = operator::begin_transaction(request).await?;
    let account_id = accounts::find_by_creation_key_in_tx(&mut tx, key).await;
    let account_id = account_id.map_err(AdminError::of_statement("look up the idempotency key"))?;
    let Some(account_id) = account_id else {
        return Ok(None);
    };
    // Not locked: the event of the creation is committed and never changes.
    let mut decision = Decision {
        request,
        tx,
        account_id,
        credits: Credits::default(),
        now: request.clock.now(),
    };
    let mark = creation_mark(request, new);
    let effect = decision.find_effect(EffectKind::Account, mark.as_ref());
    effect.await?.as_ref().map(replay).transpose()
}

fn creation_mark(request: &Request<'_>, new: &NewAccount) -> Option<IdempotencyMark> {
    let body = [
        ("name", json!(new.name)),
        ("external_id", json!(new.external_id)),
        (
            "low_balance_at",
            json!(new.low_balance_at.unwrap_or_default()),
        ),
    ];
    request.mark(EffectKind::Account, body)
}

/// Stores the account after the event, appends the event, and commits. Without an event nothing changes. Returns
/// `None` if another account has the external id.
async fn store(
    mut decision: Decision<'_>,
    account: Account,
    event: Option<AccountEvent>,
    mark: Option<IdempotencyMark>,
) -> AdminResult<Option<Done<AccountView>>> {
    let Some(event) = event else {
        let unchanged = AccountView::of_account(&account, decision.credits.balance);
        return Ok(Some(Done::unchanged(unchanged)));
    };
    let account = account.apply(&event);
    if let Err(error) = accounts::update_in_tx(&mut decision.tx, &account).await {
        if violates(&error, &[EXTERNAL_ID_UNIQUE]) {
            return Ok(None);
        }
        return Err(AdminError::of_statement("change the account")(error));
    }
    append(decision, &account, event, mark).await.map(Some)
}

/// Appends the event that has led to the account, and commits.
async fn append(
    mut decision: Decision<'_>,
    account: &Account,
    event: AccountEvent,
    mark: Option<IdempotencyMark>,
) -> AdminResult<Done<AccountView>> {
    let after = account.after(decision.credits.balance);
    let value = AccountView::of(account.account_id, &after);
    let credits = decision.credits.pass();
    let mut event = decision.next_event(Event::Account(event), credits);
    event.metadata.account = Some(after);
    event.idempotency = mark;
    Ok(Done {
        value,
        replayed: false,
        position: Some(decision.append(&[event]).await?),
    })
}

/// Returns the answer to the request that has appended the event.
fn replay(event: &RecordedEvent) -> AdminResult<Done<AccountView>> {
    let after = event.metadata.account.as_ref();
    let after = after.ok_or_else(|| AdminError::unreadable(&event.event_type))?;
    Ok(Done {
        value: AccountView::of(event.account_id, after),
        replayed: true,
        position: Some(event.position),
    })
}

/// Returns the account that has the external id now.
async fn find_holder(request: &Request<'_>, external_id: &str) -> AdminResult<Option<AccountId>> {
    let holder = accounts::find_by_external_id(request.pool, external_id).await;
    holder.map_err(AdminError::of_statement("look up the external id"))
}

/// Refuses the external id of the account of the operators.
fn refuse_reserved(external_id: Option<&str>) -> AdminResult<()> {
    match external_id {
        Some(OPERATORS_EXTERNAL_ID) => Err(AdminRefusal::ExternalIdReserved.into()),
        Some(_) | None => Ok(()),
    }
}

/// Refuses an external id that an account has.
async fn refuse_taken(request: &Request<'_>, external_id: Option<&str>) -> AdminResult<()> {
    let Some(external_id) = external_id else {
        return Ok(());
    };
    match find_holder(request, external_id).await? {
        Some(account_id) => Err(AdminRefusal::ExternalIdTaken { account_id }.into()),
        None => Ok(()),
    }
}

fn contended() -> AdminError {
    AdminError::Unavailable(anyhow::anyhow!(
        "other requests change accounts with this external id at the same time; nothing was done, retry"
    ))
}
