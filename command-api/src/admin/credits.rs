//! `credits grant`, `credits adjust`.

use anyhow::bail;
use clap::{Args, Subcommand};
use linkledger_core::{
    clock::{Clock, new_uuid},
    credits::{Credits, CreditsEvent},
    envelope::IdempotencyMark,
    event::Event,
    event_store::idempotency,
    figures::counted,
    id::AccountId,
    json::JsonObject,
    operator::parse_text,
};
use serde::Serialize;
use serde_json::json;
use sqlx::PgPool;

use super::{AdminCommandOptions, operator, print};

/// Commands on credits.
#[derive(Debug, Subcommand)]
pub enum CreditsSubcommand {
    /// Add credits to an account. A retry with the same --idempotency-key adds nothing.
    Grant {
        #[command(flatten)]
        request: GrantRequest,
        #[command(flatten)]
        options: AdminCommandOptions,
    },
    /// Correct the balance of an account, upwards or, with a negative amount, downwards; never below
    /// 0. A retry with the same --idempotency-key changes nothing.
    Adjust {
        #[command(flatten)]
        request: AdjustRequest,
        #[command(flatten)]
        options: AdminCommandOptions,
    },
}

/// Requested grant.
#[derive(Debug, Clone, Args)]
pub struct GrantRequest {
    /// Number of credits to add; at least 1.
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(1..))]
    pub amount: i64,
    #[command(flatten)]
    pub subject: CreditsSubject,
}

/// Requested adjustment.
#[derive(Debug, Clone, Args)]
pub struct AdjustRequest {
    /// Number of credits to add, or to subtract if negative; not 0.
    #[arg(long, allow_negative_numbers = true)]
    pub amount: i64,
    #[command(flatten)]
    pub subject: CreditsSubject,
}

/// Account, reason and idempotency key of a change of credits.
#[derive(Debug, Clone, Args)]
pub struct CreditsSubject {
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
    let (verb, changed, options) = match command {
        CreditsSubcommand::Grant { request, options } => {
            let pool = options.pool().await?;
            ("Granted", grant(&pool, clock, &request).await?, options)
        }
        CreditsSubcommand::Adjust { request, options } => {
            let pool = options.pool().await?;
            let adjusted = adjust(&pool, clock, &request).await?;
            ("Adjusted by", adjusted, options)
        }
    };
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

/// Grants credits, once per key.
///
/// # Errors
/// Returns an error if the account does not exist, if the key was used for another grant, if the
/// balance would be too large, or if the database fails.
pub async fn grant(
    pool: &PgPool,
    clock: &dyn Clock,
    request: &GrantRequest,
) -> anyhow::Result<ChangedCredits> {
    let change = CreditsChange {
        verb: "grant",
        amount: request.amount,
        subject: &request.subject,
    };
    let (account_id, amount) = (request.subject.account, request.amount);
    let decide = |credits: Credits| {
        let decided = credits.decide_grant(account_id, amount, &request.subject.reason);
        Ok(CreditsEvent::Granted(decided?))
    };
    execute(pool, clock, change, decide).await
}

/// Corrects a balance, once per key.
///
/// # Errors
/// Returns an error if the account does not exist, if the key was used for another adjustment, if
/// the balance would fall below 0 or be too large, or if the database fails.
pub async fn adjust(
    pool: &PgPool,
    clock: &dyn Clock,
    request: &AdjustRequest,
) -> anyhow::Result<ChangedCredits> {
    let change = CreditsChange {
        verb: "adjust",
        amount: request.amount,
        subject: &request.subject,
    };
    let (account_id, amount) = (request.subject.account, request.amount);
    let decide = |credits: Credits| {
        let decided = credits.decide_adjust(account_id, amount, &request.subject.reason);
        Ok(CreditsEvent::Adjusted(decided?))
    };
    execute(pool, clock, change, decide).await
}

/// Grant or adjustment, as a change of an amount.
struct CreditsChange<'a> {
    /// Kind of the change, and prefix that keeps the keys of grants and of adjustments apart.
    verb: &'static str,
    amount: i64,
    subject: &'a CreditsSubject,
}

async fn execute(
    pool: &PgPool,
    clock: &dyn Clock,
    change: CreditsChange<'_>,
    decide: impl FnOnce(Credits) -> anyhow::Result<CreditsEvent>,
) -> anyhow::Result<ChangedCredits> {
    let CreditsChange {
        verb,
        amount,
        subject,
    } = change;
    let account_id = subject.account;
    let given_key = subject.idempotency_key.clone();
    let idempotency_key =
        given_key.unwrap_or_else(|| new_uuid(clock.now()).hyphenated().to_string());
    let body = json!({ "amount": amount, "reason": subject.reason }).to_string();
    let mark = IdempotencyMark {
        key: format!("{verb}:{idempotency_key}"),
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
            bail!("this idempotency key was used for another {verb}; use a new key");
        }
        return Ok(changed(&stored.event, true));
    }
    let event = decide(decision.credits)?;
    let credits = decision.credits.apply(&event);
    let answer = changed(&event, false);
    let or_else = format!("retry with --idempotency-key \"{idempotency_key}\"");
    decision
        .append_to_account(Event::Credits(event), credits, Some(mark), &or_else)
        .await?;
    Ok(answer)
}
