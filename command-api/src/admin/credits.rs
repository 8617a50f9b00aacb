//! `credits grant`, `credits adjust`.

use anyhow::bail;
use clap::{Args, Subcommand};
use linkledger_core::{
    clock::{Clock, new_uuid},
    credits::CreditsEvent,
    envelope::IdempotencyMark,
    event::Event,
    id::AccountId,
    json::JsonObject,
};
use linkledger_event_store::idempotency;
use linkledger_service::{figures::counted, operator::parse_text};
use serde::Serialize;
use serde_json::json;
use sqlx::PgPool;

use super::{WithOptions, operator, print};

/// Commands on credits.
#[derive(Debug, Subcommand)]
pub enum CreditsSubcommand {
    /// Add credits to an account. A retry with the same --idempotency-key adds nothing.
    Grant(WithOptions<CreditsRequest>),
    /// Correct the balance of an account, upwards or, with a negative amount, downwards; never below
    /// 0. A retry with the same --idempotency-key changes nothing.
    Adjust(WithOptions<CreditsRequest>),
}

/// Requested change of credits.
#[derive(Debug, Clone, Args)]
pub struct CreditsRequest {
    /// Number of credits to add; `adjust` subtracts a negative number.
    #[arg(long, allow_negative_numbers = true, value_parser = parse_amount)]
    pub amount: i64,
    /// Account id: acc_….
    #[arg(long)]
    pub account: AccountId,
    /// Reason, recorded in the event log; the API does not show the reason.
    #[arg(long, value_parser = parse_text)]
    pub reason: String,
    /// Name of this change, such as an invoice number: a change with a used name has no effect.
    /// Default: a new UUID.
    #[arg(long, value_parser = parse_text)]
    pub idempotency_key: Option<String>,
}

/// Grant or adjustment that had its effect.
#[derive(Debug, Clone, Serialize)]
pub struct ChangedCredits {
    /// Account id.
    pub account_id: AccountId,
    /// Number of credits added; negative if subtracted.
    pub amount: i64,
    /// Balance right after the change.
    pub balance: i64,
    /// True if an earlier command with the same key made the change.
    pub replayed: bool,
    /// Idempotency key of the change.
    pub idempotency_key: String,
}

pub(super) async fn run(command: CreditsSubcommand, clock: &dyn Clock) -> anyhow::Result<()> {
    let (verb, kind, WithOptions { request, options }) = match command {
        CreditsSubcommand::Grant(command) => ("Granted", CreditsChange::Grant, command),
        CreditsSubcommand::Adjust(command) => ("Adjusted by", CreditsChange::Adjust, command),
    };
    let pool = options.pool().await?;
    let changed = change(&pool, clock, kind, &request).await?;
    let before = if changed.replayed {
        " (replayed: an earlier command with the same key made the change)"
    } else {
        ""
    };
    let sign = if changed.amount < 0 { "-" } else { "" };
    let amount = counted(changed.amount.unsigned_abs(), "credit");
    let text = format!(
        "{verb} {sign}{amount} for {}{before}; balance after the change: {}.",
        changed.account_id, changed.balance
    );
    print(options.json, &changed, &text)
}

linkledger_core::named_enum! {
    /// Kind of a change of credits, by the name that also keeps the keys of grants and of adjustments apart.
    pub enum CreditsChange {
        /// Adds at least one credit.
        Grant = "grant",
        /// Corrects the balance, upwards or downwards.
        Adjust = "adjust",
    }
}

/// Grants credits, or corrects a balance, once per key.
///
/// # Errors
/// Returns an error if the account does not exist, if the key was used for another change of this kind,
/// if the amount is not allowed, if the balance would fall below 0 or be too large, or if the database
/// fails.
pub async fn change(
    pool: &PgPool,
    clock: &dyn Clock,
    kind: CreditsChange,
    request: &CreditsRequest,
) -> anyhow::Result<ChangedCredits> {
    let (account_id, amount, reason) = (request.account, request.amount, &request.reason);
    let name = kind.name();
    let given_key = request.idempotency_key.clone();
    let idempotency_key =
        given_key.unwrap_or_else(|| new_uuid(clock.now()).hyphenated().to_string());
    let body = json!({ "amount": amount, "reason": reason }).to_string();
    let mark = IdempotencyMark {
        key: format!("{name}:{idempotency_key}"),
        fingerprint: JsonObject::parse(body.as_bytes())?.fingerprint(),
    };
    let mut decision = operator::begin(pool, clock, account_id).await?;
    let changed = |event: &CreditsEvent, replayed| ChangedCredits {
        account_id,
        amount,
        balance: event.balance_after(),
        replayed,
        idempotency_key: idempotency_key.clone(),
    };
    let stored = idempotency::find_credits_in_tx(&mut decision.tx, account_id, &mark.key).await?;
    if let Some(stored) = stored {
        if stored.fingerprint != mark.fingerprint {
            bail!("this idempotency key was used for another {name}; use a new key");
        }
        return Ok(changed(&stored.event, true));
    }
    let credits = decision.credits;
    let event = match kind {
        CreditsChange::Grant => {
            CreditsEvent::Granted(credits.decide_grant(account_id, amount, reason)?)
        }
        CreditsChange::Adjust => {
            CreditsEvent::Adjusted(credits.decide_adjust(account_id, amount, reason)?)
        }
    };
    let credits = credits.apply(&event);
    let answer = changed(&event, false);
    let or_else = format!("retry with --idempotency-key \"{idempotency_key}\"");
    decision
        .append_to_account(Event::Credits(event), credits, Some(mark), &or_else)
        .await?;
    Ok(answer)
}

fn parse_amount(text: &str) -> Result<i64, String> {
    match text.parse() {
        Ok(0) => Err("give a number of credits other than 0".to_owned()),
        Ok(amount) => Ok(amount),
        Err(error) => Err(format!("{error}; give a number of credits")),
    }
}
