//! `account create|list|show|suspend|resume`.

mod shown;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use linkledger_core::{
    account::{AccountEvent, AccountStatus},
    clock::{Clock, new_uuid},
    event::Event,
    id::AccountId,
};
use linkledger_event_store::accounts;
use linkledger_service::operator::parse_text;
use serde::Serialize;
use serde_json::json;
use sqlx::PgPool;

pub use self::shown::ListAccounts;
use super::{AdminCommandOptions, WithOptions, operator, print};

/// Commands on accounts.
#[derive(Debug, Subcommand)]
pub enum AccountSubcommand {
    /// Create an account without credits and keys.
    Create {
        /// Display name of the account.
        #[arg(long, value_parser = parse_text)]
        name: String,
        #[command(flatten)]
        options: AdminCommandOptions,
    },
    /// List accounts with status, balance and number of valid keys, the oldest first.
    List(ListAccounts),
    /// Show status, balance and number of keys of an account.
    Show {
        /// Account id: acc_….
        account: AccountId,
        #[command(flatten)]
        options: AdminCommandOptions,
    },
    /// Refuse the API calls of an account, within 5 seconds. The links of the account still redirect,
    /// unless --stop-redirects is given. Safe to repeat.
    Suspend {
        #[command(flatten)]
        subject: AccountSubject,
        /// Answer the short links of the account with 410 Gone during the suspension.
        #[arg(long)]
        stop_redirects: bool,
        #[command(flatten)]
        options: AdminCommandOptions,
    },
    /// Put a suspended account and its links back into service. Safe to repeat.
    Resume(WithOptions<AccountSubject>),
}

/// Account to change, and the reason.
#[derive(Debug, Clone, Args)]
pub struct AccountSubject {
    /// Account id: acc_….
    #[arg(long)]
    pub account: AccountId,
    /// Reason, recorded in the event log.
    #[arg(long, value_parser = parse_text)]
    pub reason: String,
}

/// State of an account after a command.
#[derive(Debug, Clone, Serialize)]
pub struct ChangedAccount {
    /// Account id.
    pub account_id: AccountId,
    /// Status of the account: `active` or `suspended`.
    pub status: &'static str,
    /// True if the links of the account answer 410 Gone.
    pub redirects_stopped: bool,
    /// True if the command has changed the account; false if the account was in this state before.
    pub changed: bool,
}

pub(super) async fn run(command: AccountSubcommand, clock: &dyn Clock) -> anyhow::Result<()> {
    match command {
        AccountSubcommand::Create { name, options } => {
            let account_id = create(&options.pool().await?, clock, &name).await?;
            let text = format!("Created account {account_id} ({name}).");
            let account = json!({ "account_id": account_id, "name": name });
            print(options.json, &account, &text)
        }
        AccountSubcommand::List(command) => shown::list(command, clock).await,
        AccountSubcommand::Show { account, options } => shown::show(account, &options, clock).await,
        AccountSubcommand::Suspend {
            subject,
            stop_redirects,
            options,
        } => {
            let status = AccountStatus::Suspended { stop_redirects };
            run_change(&subject, status, &options, clock).await
        }
        AccountSubcommand::Resume(WithOptions { request, options }) => {
            run_change(&request, AccountStatus::Active, &options, clock).await
        }
    }
}

async fn run_change(
    subject: &AccountSubject,
    to: AccountStatus,
    options: &AdminCommandOptions,
    clock: &dyn Clock,
) -> anyhow::Result<()> {
    let account = change(&options.pool().await?, clock, subject, to).await?;
    print(options.json, &account, &account.text())
}

/// Creates an account.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn create(pool: &PgPool, clock: &dyn Clock, name: &str) -> anyhow::Result<AccountId> {
    let now = clock.now();
    let account_id = AccountId::from_uuid(new_uuid(now));
    accounts::create(pool, account_id, name, now).await?;
    Ok(account_id)
}

/// Suspends an account, or puts the account back into service. For a suspended account, stops or resumes
/// redirects.
///
/// # Errors
/// Returns an error if the account does not exist, or the database fails.
pub async fn change(
    pool: &PgPool,
    clock: &dyn Clock,
    subject: &AccountSubject,
    to: AccountStatus,
) -> anyhow::Result<ChangedAccount> {
    let (account_id, reason) = (subject.account, subject.reason.as_str());
    let mut decision = operator::begin(pool, clock, account_id).await?;
    let status = accounts::status_in_tx(&mut decision.tx, account_id).await;
    let status = status.context("cannot read the account")?;
    let event = match to {
        AccountStatus::Active => status
            .decide_resume(account_id, reason)
            .map(AccountEvent::Resumed),
        AccountStatus::Suspended { stop_redirects } => status
            .decide_suspend(account_id, reason, stop_redirects)
            .map(AccountEvent::Suspended),
    };
    let Some(event) = event else {
        return Ok(ChangedAccount::of(account_id, status, false));
    };
    let status = status.apply(&event);
    accounts::set_status_in_tx(&mut decision.tx, account_id, status)
        .await
        .context("cannot change the account")?;
    let credits = decision.credits.pass();
    let (event, or_else) = (Event::Account(event), "retry the command");
    decision
        .append_to_account(event, credits, None, or_else)
        .await?;
    Ok(ChangedAccount::of(account_id, status, true))
}

impl ChangedAccount {
    const fn of(account_id: AccountId, status: AccountStatus, changed: bool) -> Self {
        let (status, redirects_stopped) = shown::status_and_redirects(status);
        Self {
            account_id,
            status,
            redirects_stopped,
            changed,
        }
    }

    fn text(&self) -> String {
        let account_id = self.account_id;
        let state = match (self.status, self.redirects_stopped) {
            ("suspended", true) => "suspended; its links answer 410 Gone",
            ("suspended", false) => "suspended; its links still redirect",
            _ => "in service",
        };
        let before = if self.changed { "" } else { " (unchanged)" };
        format!("Account {account_id} is {state}{before}.")
    }
}
