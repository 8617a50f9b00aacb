//! `account create|list|show|suspend|resume`.

mod shown;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use linkledger_core::{
    account::{AccountEvent, AccountStatus},
    clock::{Clock, new_uuid},
    event::Event,
    event_store::accounts,
    id::AccountId,
    operator::parse_text,
};
use serde::Serialize;
use sqlx::PgPool;

pub use self::shown::{AccountPage, ListAccounts, ShownAccount, list, show};
use super::{AdminCommandOptions, operator, print};

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
    List(shown::ListAccounts),
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
    Resume {
        #[command(flatten)]
        subject: AccountSubject,
        #[command(flatten)]
        options: AdminCommandOptions,
    },
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

/// Created account.
#[derive(Debug, Clone, Serialize)]
pub struct CreatedAccount {
    /// Account id, for the other commands.
    pub account_id: AccountId,
    /// Display name of the account.
    pub name: String,
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
            let account = create(&options.pool().await?, clock, &name).await?;
            let text = format!("Created account {} ({}).", account.account_id, account.name);
            print(options.json, &account, &text)
        }
        AccountSubcommand::List(command) => shown::run_list(command, clock).await,
        AccountSubcommand::Show { account, options } => {
            shown::run_show(account, &options, clock).await
        }
        AccountSubcommand::Suspend {
            subject,
            stop_redirects,
            options,
        } => {
            let pool = options.pool().await?;
            let account = suspend(&pool, clock, &subject, stop_redirects).await?;
            print(options.json, &account, &account.text())
        }
        AccountSubcommand::Resume { subject, options } => {
            let account = resume(&options.pool().await?, clock, &subject).await?;
            print(options.json, &account, &account.text())
        }
    }
}

/// Creates an account.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn create(
    pool: &PgPool,
    clock: &dyn Clock,
    name: &str,
) -> anyhow::Result<CreatedAccount> {
    let now = clock.now();
    let account_id = AccountId::from_uuid(new_uuid(now));
    accounts::create(pool, account_id, name, now).await?;
    Ok(CreatedAccount {
        account_id,
        name: name.to_owned(),
    })
}

/// Suspends an account. For a suspended account, stops or resumes redirects.
///
/// # Errors
/// Returns an error if the account does not exist, or the database fails.
pub async fn suspend(
    pool: &PgPool,
    clock: &dyn Clock,
    subject: &AccountSubject,
    stop_redirects: bool,
) -> anyhow::Result<ChangedAccount> {
    change(pool, clock, subject.account, |status| {
        let event = status.decide_suspend(subject.account, &subject.reason, stop_redirects);
        event.map(AccountEvent::Suspended)
    })
    .await
}

/// Puts an account back into service.
///
/// # Errors
/// Returns an error if the account does not exist, or the database fails.
pub async fn resume(
    pool: &PgPool,
    clock: &dyn Clock,
    subject: &AccountSubject,
) -> anyhow::Result<ChangedAccount> {
    change(pool, clock, subject.account, |status| {
        let event = status.decide_resume(subject.account, &subject.reason);
        event.map(AccountEvent::Resumed)
    })
    .await
}

async fn change(
    pool: &PgPool,
    clock: &dyn Clock,
    account_id: AccountId,
    decide: impl FnOnce(AccountStatus) -> Option<AccountEvent>,
) -> anyhow::Result<ChangedAccount> {
    let mut decision = operator::begin(pool, clock, account_id).await?;
    let status = accounts::status_in_tx(&mut decision.tx, account_id).await;
    let status = status.context("cannot read the account")?;
    let Some(event) = decide(status) else {
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
