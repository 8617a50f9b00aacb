//! `credits grant`, `credits adjust`.

use anyhow::bail;
use clap::{Args, Subcommand};
use linkledger_core::{
    clock::{Clock, new_uuid},
    credits::{AdjustCredits, Credits, CreditsEvent, GrantCredits},
    envelope::{IdempotencyMark, NewEvent},
    event::Event,
    event_store::idempotency,
    id::AccountId,
    json::JsonObject,
    operator::parse_text,
};
use serde::Serialize;
use serde_json::json;
use sqlx::PgPool;

use super::{
    AdminCommandOptions,
    operator::{self, Decision},
    print,
};

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
            (
                "Adjusted by",
                adjust(&pool, clock, &request).await?,
                options,
            )
        }
    };
    let before = if changed.replayed {
        " (replayed: an earlier command with the same key made the change)"
    } else {
        ""
    };
    let text = format!(
        "{verb} {} credits for {}{before}; balance after the change: {}.",
        changed.amount, changed.account_id, changed.balance
    );
    print(&options, &changed, &text)
}

/// Grants credits, once per key.
///
/// # Errors
/// Returns an error if the account does not exist, if the key was used for another grant, if the
/// balance would be too large, or if the database does not answer.
pub async fn grant(
    pool: &PgPool,
    clock: &dyn Clock,
    request: &GrantRequest,
) -> anyhow::Result<ChangedCredits> {
    let GrantRequest { amount, subject } = request;
    change(
        pool,
        clock,
        CreditsChange::new("grant", *amount, subject),
        |credits| {
            let command = GrantCredits {
                account_id: subject.account,
                amount: *amount,
                reason: subject.reason.clone(),
            };
            Ok(CreditsEvent::Granted(credits.decide_grant(command)?))
        },
    )
    .await
}

/// Corrects a balance, once per key.
///
/// # Errors
/// Returns an error if the account does not exist, if the key was used for another adjustment, if
/// the balance would fall below 0 or be too large, or if the database does not answer.
pub async fn adjust(
    pool: &PgPool,
    clock: &dyn Clock,
    request: &AdjustRequest,
) -> anyhow::Result<ChangedCredits> {
    let AdjustRequest { amount, subject } = request;
    change(
        pool,
        clock,
        CreditsChange::new("adjust", *amount, subject),
        |credits| {
            let command = AdjustCredits {
                account_id: subject.account,
                amount: *amount,
                reason: subject.reason.clone(),
            };
            Ok(CreditsEvent::Adjusted(credits.decide_adjust(command)?))
        },
    )
    .await
}

/// Grant or adjustment, as a change of an amount.
struct CreditsChange<'a> {
    /// Prefix that keeps the keys of grants and of adjustments apart.
    key_prefix: &'static str,
    amount: i64,
    subject: &'a CreditsSubject,
}

impl<'a> CreditsChange<'a> {
    const fn new(key_prefix: &'static str, amount: i64, subject: &'a CreditsSubject) -> Self {
        Self {
            key_prefix,
            amount,
            subject,
        }
    }

    fn mark(&self, idempotency_key: &str) -> anyhow::Result<IdempotencyMark> {
        let body = json!({ "amount": self.amount, "reason": self.subject.reason }).to_string();
        Ok(IdempotencyMark {
            key: format!("{}:{idempotency_key}", self.key_prefix),
            fingerprint: JsonObject::parse(body.as_bytes())?.fingerprint(),
        })
    }
}

async fn change(
    pool: &PgPool,
    clock: &dyn Clock,
    request: CreditsChange<'_>,
    decide: impl FnOnce(Credits) -> anyhow::Result<CreditsEvent>,
) -> anyhow::Result<ChangedCredits> {
    let account_id = request.subject.account;
    let given_key = request.subject.idempotency_key.clone();
    let idempotency_key =
        given_key.unwrap_or_else(|| new_uuid(clock.now()).hyphenated().to_string());
    let mark = request.mark(&idempotency_key)?;
    let mut decision = operator::begin(pool, clock, account_id).await?;
    let changed = |event: &CreditsEvent, replayed| ChangedCredits {
        account_id,
        amount: request.amount,
        balance: event.balance_after(),
        replayed,
        idempotency_key: idempotency_key.clone(),
    };
    let stored = idempotency::find_credits_in_tx(&mut decision.tx, account_id, &mark.key).await?;
    if let Some(stored) = stored {
        if stored.fingerprint != mark.fingerprint {
            let verb = request.key_prefix;
            bail!("this idempotency key was used for another {verb}; use a new key");
        }
        return Ok(changed(&stored.event, true));
    }
    let event = decide(decision.credits)?;
    let credits = decision.credits.apply(&event);
    let answer = changed(&event, false);
    let event = NewEvent {
        event_id: decision.event_id(),
        account_id,
        version: credits.version,
        recorded_at: decision.now,
        event: Event::Credits(event),
        metadata: Decision::metadata(),
        idempotency: Some(mark),
    };
    let or_else = format!("retry with --idempotency-key \"{idempotency_key}\"");
    decision.append(event, credits, &or_else).await?;
    Ok(answer)
}
