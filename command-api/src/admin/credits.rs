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
    Options,
    operator::{self, Decision},
    print,
};

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
    /// Correct the balance of an account, upwards or, with a negative amount, downwards; never below
    /// 0. With the same --idempotency-key it does so once.
    Adjust {
        #[command(flatten)]
        request: AdjustRequest,
        #[command(flatten)]
        options: Options,
    },
}

/// A grant that is asked for.
#[derive(Debug, Clone, Args)]
pub struct GrantRequest {
    /// How many credits; at least 1.
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(1..))]
    pub amount: i64,
    #[command(flatten)]
    pub subject: Subject,
}

/// An adjustment that is asked for.
#[derive(Debug, Clone, Args)]
pub struct AdjustRequest {
    /// How many credits to add, or to take if negative; not 0.
    #[arg(long, allow_negative_numbers = true)]
    pub amount: i64,
    #[command(flatten)]
    pub subject: Subject,
}

/// Whose credits, why, and under which name.
#[derive(Debug, Clone, Args)]
pub struct Subject {
    /// The account: acc_….
    #[arg(long)]
    pub account: AccountId,
    /// Why; it stands in the event log, not among the entries that the API lists.
    #[arg(long, value_parser = parse_text)]
    pub reason: String,
    /// Name of this change, such as an invoice's number; under one name it is made once.
    /// Default: a fresh UUID.
    #[arg(long, value_parser = parse_text)]
    pub idempotency_key: Option<String>,
}

/// A grant or an adjustment that has its effect.
#[derive(Debug, Clone, Serialize)]
pub struct ChangedCredits {
    /// Whose credits.
    pub account_id: AccountId,
    /// How many were added; taken if negative.
    pub amount: i64,
    /// The balance right after it.
    pub balance: i64,
    /// Whether it had its effect before.
    pub replayed: bool,
    /// Its name.
    pub idempotency_key: String,
}

pub(super) async fn run(command: Command, clock: &dyn Clock) -> anyhow::Result<()> {
    let (verb, changed, options) = match command {
        Command::Grant { request, options } => {
            let pool = options.pool().await?;
            ("Granted", grant(&pool, clock, &request).await?, options)
        }
        Command::Adjust { request, options } => {
            let pool = options.pool().await?;
            (
                "Adjusted by",
                adjust(&pool, clock, &request).await?,
                options,
            )
        }
    };
    let before = if changed.replayed {
        " (it was made before)"
    } else {
        ""
    };
    let text = format!(
        "{verb} {} credits for {}{before}; the balance after it: {}.",
        changed.amount, changed.account_id, changed.balance
    );
    print(&options, &changed, &text)
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
) -> anyhow::Result<ChangedCredits> {
    let GrantRequest { amount, subject } = request;
    change(pool, clock, Request::new("grant", *amount, subject), |it| {
        let command = GrantCredits {
            account_id: subject.account,
            amount: *amount,
            reason: subject.reason.clone(),
        };
        Ok(CreditsEvent::Granted(it.decide_grant(command)?))
    })
    .await
}

/// Corrects a balance, once per key.
///
/// # Errors
/// When the account does not exist, the key was used for another adjustment, the balance would fall
/// below 0 or be too large, or the database does not answer.
pub async fn adjust(
    pool: &PgPool,
    clock: &dyn Clock,
    request: &AdjustRequest,
) -> anyhow::Result<ChangedCredits> {
    let AdjustRequest { amount, subject } = request;
    change(
        pool,
        clock,
        Request::new("adjust", *amount, subject),
        |it| {
            let command = AdjustCredits {
                account_id: subject.account,
                amount: *amount,
                reason: subject.reason.clone(),
            };
            Ok(CreditsEvent::Adjusted(it.decide_adjust(command)?))
        },
    )
    .await
}

/// What both commands ask for.
struct Request<'a> {
    /// Keys of grants and of adjustments have nothing to do with each other.
    key_prefix: &'static str,
    amount: i64,
    subject: &'a Subject,
}

impl<'a> Request<'a> {
    const fn new(key_prefix: &'static str, amount: i64, subject: &'a Subject) -> Self {
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
    request: Request<'_>,
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
            bail!("this idempotency key was used for another {verb}; use a new one");
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
    let or_else = format!("repeat it with --idempotency-key \"{idempotency_key}\"");
    decision.append(event, credits, &or_else).await?;
    Ok(answer)
}
