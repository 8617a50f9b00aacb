//! `credits grant`.

use std::collections::HashMap;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use linkledger_core::{
    clock::{Clock, new_uuid},
    credits::{CreditsEvent, CreditsGranted, GrantCredits},
    envelope::{IdempotencyMark, Metadata, NewEvent},
    event::Event,
    event_store::{accounts, append, idempotency},
    id::{AccountId, EventId},
    json::JsonObject,
};
use serde::Serialize;
use serde_json::json;
use sqlx::PgPool;

use super::{Options, parse_text, print};

/// What may be done with credits.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Add credits to an account. With the same --idempotency-key it adds them once.
    Grant {
        #[command(flatten)]
        request: GrantRequest,
        #[command(flatten)]
        options: Options,
    },
}

/// A grant that is asked for.
#[derive(Debug, Clone, Args)]
pub struct GrantRequest {
    /// The account: acc_….
    #[arg(long)]
    pub account: AccountId,
    /// How many credits; at least 1.
    #[arg(long, value_parser = clap::value_parser!(i64).range(1..))]
    pub amount: i64,
    /// Why; it stands in the ledger.
    #[arg(long, value_parser = parse_text)]
    pub reason: String,
    /// Name of this grant, such as an invoice's number; a grant of that name is made once.
    /// Default: a fresh UUID.
    #[arg(long, value_parser = parse_text)]
    pub idempotency_key: Option<String>,
}

/// A grant that has its effect.
#[derive(Debug, Clone, Serialize)]
pub struct Granted {
    /// Whose credits.
    pub account_id: AccountId,
    /// How many were added.
    pub amount: i64,
    /// The balance right after the grant.
    pub balance: i64,
    /// Whether it had its effect before.
    pub replayed: bool,
    /// Its name.
    pub idempotency_key: String,
}

pub(super) async fn run(command: Command, clock: &dyn Clock) -> anyhow::Result<()> {
    match command {
        Command::Grant { request, options } => {
            let granted = grant(&options.pool().await?, clock, &request).await?;
            let before = if granted.replayed {
                " (it was made before)"
            } else {
                ""
            };
            let text = format!(
                "Granted {} credits to {}{before}; the balance after it: {}.",
                granted.amount, granted.account_id, granted.balance
            );
            print(&options, &granted, &text)
        }
    }
}

/// Grants credits, once per key.
///
/// # Errors
/// When the account does not exist, the key was used for another grant, the balance would be too
/// large, or the database does not answer.
pub async fn grant(
    pool: &PgPool,
    clock: &dyn Clock,
    request: &GrantRequest,
) -> anyhow::Result<Granted> {
    let GrantRequest {
        account: account_id,
        amount,
        ref reason,
        ref idempotency_key,
    } = *request;
    let idempotency_key = idempotency_key
        .clone()
        .unwrap_or_else(|| new_uuid(clock.now()).hyphenated().to_string());
    let mark = mark(request, &idempotency_key)?;
    let mut tx = pool.begin().await.context("can't begin")?;
    let accounts = accounts::lock_in_tx(&mut tx, &[account_id]).await;
    let accounts = accounts.context("can't lock the account")?;
    let Some(credits) = accounts.get(&account_id) else {
        bail!("there is no account {account_id}");
    };
    let granted = |event: &CreditsGranted, replayed| Granted {
        account_id,
        amount: event.amount,
        balance: event.balance_after,
        replayed,
        idempotency_key: idempotency_key.clone(),
    };
    if let Some(stored) = idempotency::find_grant_in_tx(&mut tx, account_id, &mark.key).await? {
        if stored.fingerprint != mark.fingerprint {
            bail!("this idempotency key was used for another grant; use a new one");
        }
        return Ok(granted(&stored.grant, true));
    }
    let command = GrantCredits {
        account_id,
        amount,
        reason: reason.clone(),
    };
    let event = credits.decide_grant(command)?;
    let after = credits.apply(&CreditsEvent::Granted(event.clone()));
    let now = clock.now();
    let new_event = NewEvent {
        event_id: EventId::from_uuid(new_uuid(now)),
        account_id,
        version: after.version,
        recorded_at: now,
        event: Event::Credits(CreditsEvent::Granted(event.clone())),
        metadata: Metadata {
            actor: Some("operator".to_owned()),
            ..Metadata::default()
        },
        idempotency: Some(mark),
    };
    append::append_in_tx(&mut tx, &[new_event], &HashMap::from([(account_id, after)])).await?;
    tx.commit().await.with_context(|| {
        format!(
            "it is not known whether the grant was made; repeat it with --idempotency-key \
             \"{idempotency_key}\""
        )
    })?;
    Ok(granted(&event, false))
}

fn mark(request: &GrantRequest, idempotency_key: &str) -> anyhow::Result<IdempotencyMark> {
    let body = json!({ "amount": request.amount, "reason": request.reason }).to_string();
    let fingerprint = JsonObject::parse(body.as_bytes())?.fingerprint();
    Ok(IdempotencyMark {
        key: format!("grant:{idempotency_key}"),
        fingerprint,
    })
}
