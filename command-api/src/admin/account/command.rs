//! `account create|list|show|change|suspend|resume`.

use clap::{Args, Subcommand};
use linkledger_core::{
    account::{self as core_account, AccountChangeRequest},
    change::ValueUpdate,
    clock::Clock,
    credits::{InvalidLowBalanceAt, LowBalanceAt},
    id::AccountId,
};
use linkledger_http::admin_views::AccountView;
use linkledger_service::operator::parse_text;

use super::{ListAccounts, NewAccount, change, create, resume, shown, suspend};
use crate::admin::{AdminCommandOptions, Authored, Keyed, error::Done, print_done};

/// Commands on accounts.
#[derive(Debug, Subcommand)]
pub enum AccountSubcommand {
    /// Create an account without credits and keys. A retry with the same --idempotency-key creates no other one.
    Create(Keyed<NewAccount>),
    /// List accounts with state, balance and number of valid keys, the oldest first.
    List(ListAccounts),
    /// Show state, balance and number of keys of an account.
    Show {
        /// Account id: acc_….
        account: AccountId,
        #[command(flatten)]
        options: AdminCommandOptions,
    },
    /// Change name, external id or thresholds of an account. Safe to repeat.
    Change(Authored<AccountChangeArguments>),
    /// Refuse the API calls of an account, within 5 seconds. The links of the account still redirect,
    /// unless --stop-redirects is given. Safe to repeat.
    Suspend(Keyed<SuspendArguments>),
    /// Put a suspended account and its links back into service. Safe to repeat.
    Resume(Keyed<AccountSubject>),
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

/// Arguments of `account suspend`.
#[derive(Debug, Clone, Args)]
pub struct SuspendArguments {
    #[command(flatten)]
    pub subject: AccountSubject,
    /// Answer the short links of the account with 410 Gone during the suspension, or, with `=false`, let them redirect
    /// [default: as before; links of an active account go on].
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub stop_redirects: Option<bool>,
}

/// Changes of `account change`.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = true, id = "account_change")]
pub struct AccountChangeOptions {
    /// New display name.
    #[arg(long, value_parser = parse_text)]
    pub name: Option<String>,
    /// New id in your system, unique in the service.
    #[arg(long, value_parser = parse_external_id)]
    pub external_id: Option<String>,
    /// Take the id in your system away.
    #[arg(long, conflicts_with = "external_id")]
    pub no_external_id: bool,
    /// New thresholds, instead of all earlier ones: up to 5 balances in credits, such as 10,100. A charge that crosses
    /// one downwards is a message credits.low to webhooks.
    #[arg(long, value_name = "CREDITS,…", value_parser = parse_low_balance_at)]
    pub low_balance_at: Option<LowBalanceAt>,
    /// Take all thresholds away.
    #[arg(long, conflicts_with = "low_balance_at")]
    pub no_low_balance_at: bool,
}

/// Account to change, and its changes.
#[derive(Debug, Clone, Args)]
pub struct AccountChangeArguments {
    /// Account id: acc_….
    #[arg(long)]
    pub account: AccountId,
    #[command(flatten)]
    pub changes: AccountChangeOptions,
}

/// Runs a command on accounts.
pub(in crate::admin) async fn run(
    command: AccountSubcommand,
    clock: &dyn Clock,
) -> anyhow::Result<()> {
    match command {
        AccountSubcommand::Create(command) => run_create(command, clock).await,
        AccountSubcommand::List(command) => shown::list(command, clock).await,
        AccountSubcommand::Show { account, options } => shown::show(account, &options, clock).await,
        AccountSubcommand::Change(command) => run_change(command, clock).await,
        AccountSubcommand::Suspend(command) => run_suspend(command, clock).await,
        AccountSubcommand::Resume(command) => run_resume(command, clock).await,
    }
}

async fn run_create(command: Keyed<NewAccount>, clock: &dyn Clock) -> anyhow::Result<()> {
    let pool = command.options().pool().await?;
    let request = command.request(&pool, clock);
    let created = create(&request, command.arguments()).await?;
    let AccountView { id, name, .. } = &created.value;
    let text = format!("Created account {id} ({name}){}.", created.note());
    print_done(command.options(), &request, &created, &text)
}

async fn run_change(
    command: Authored<AccountChangeArguments>,
    clock: &dyn Clock,
) -> anyhow::Result<()> {
    let pool = command.options.pool().await?;
    let request = command.request(&pool, clock);
    let AccountChangeArguments { account, changes } = &command.arguments;
    let changed = change(&request, *account, &changes.request()).await?;
    let AccountView { id, name, .. } = &changed.value;
    let external_id = changed.value.external_id.as_deref().unwrap_or("none");
    let note = changed.note();
    let thresholds = thresholds_text(&changed.value);
    let text = format!(
        "Account {id} has the name {name}, the external id {external_id} and the low-balance thresholds \
         {thresholds}{note}."
    );
    print_done(&command.options, &request, &changed, &text)
}

async fn run_suspend(command: Keyed<SuspendArguments>, clock: &dyn Clock) -> anyhow::Result<()> {
    let pool = command.options().pool().await?;
    let request = command.request(&pool, clock);
    let arguments = command.arguments();
    let AccountSubject { account, reason } = &arguments.subject;
    let suspended = suspend(&request, *account, reason, arguments.stop_redirects).await?;
    let text = state_text(&suspended);
    print_done(command.options(), &request, &suspended, &text)
}

async fn run_resume(command: Keyed<AccountSubject>, clock: &dyn Clock) -> anyhow::Result<()> {
    let pool = command.options().pool().await?;
    let request = command.request(&pool, clock);
    let AccountSubject { account, reason } = command.arguments();
    let resumed = resume(&request, *account, reason).await?;
    print_done(command.options(), &request, &resumed, &state_text(&resumed))
}

impl AccountChangeOptions {
    fn request(&self) -> AccountChangeRequest {
        let external_id = match &self.external_id {
            Some(external_id) => ValueUpdate::Set(external_id.clone()),
            None if self.no_external_id => ValueUpdate::Remove,
            None => ValueUpdate::Keep,
        };
        AccountChangeRequest {
            name: self.name.clone(),
            external_id,
            low_balance_at: if self.no_low_balance_at {
                Some(LowBalanceAt::NONE)
            } else {
                self.low_balance_at
            },
        }
    }
}

impl AccountSubcommand {
    /// Returns the options of the command.
    pub(in crate::admin) const fn options(&self) -> &AdminCommandOptions {
        match self {
            Self::Create(command) => command.options(),
            Self::List(command) => &command.options,
            Self::Show { options, .. } => options,
            Self::Change(command) => &command.options,
            Self::Suspend(command) => command.options(),
            Self::Resume(command) => command.options(),
        }
    }
}

fn state_text(account: &Done<AccountView>) -> String {
    let (id, state) = (account.value.id, state_and_links(&account.value));
    format!("Account {id} is {state}{}.", account.note())
}

/// Returns the state of an account, and what it means for the links.
pub(super) fn state_and_links(account: &AccountView) -> &'static str {
    match (account.state, account.redirects_stopped) {
        ("suspended", true) => "suspended; its links answer 410 Gone",
        ("suspended", false) => "suspended; its links still redirect",
        _ => "active",
    }
}

/// Returns the thresholds of an account as text.
pub(super) fn thresholds_text(account: &AccountView) -> String {
    let thresholds = account.low_balance_at.as_slice().iter();
    let thresholds: Vec<String> = thresholds.map(i64::to_string).collect();
    if thresholds.is_empty() {
        return "none".to_owned();
    }
    thresholds.join(", ")
}

/// Parses thresholds, separated by commas.
pub(super) fn parse_low_balance_at(text: &str) -> Result<LowBalanceAt, String> {
    let thresholds = text.split(',').map(|threshold| threshold.trim().parse());
    let thresholds: Option<Vec<i64>> = thresholds.map(Result::ok).collect();
    let thresholds = thresholds.ok_or(InvalidLowBalanceAt::OutOfRange);
    let thresholds = thresholds.and_then(LowBalanceAt::of);
    thresholds.map_err(|error| format!("{error}; separate several by commas"))
}

/// Parses the id of an account in the seller's system.
pub(super) fn parse_external_id(text: &str) -> Result<String, String> {
    core_account::parse_external_id(text).ok_or_else(|| {
        "give 1 to 128 of A-Z, a-z, 0-9, `.`, `_`, `:`, `/`, `@` and `-`, but neither `.` nor `..`"
            .to_owned()
    })
}
