//! `account list`, `account show`: accounts with status, balance and number of keys. Changes nothing.

use anyhow::Context as _;
use clap::Args;
use linkledger_core::{account::AccountStatus, clock::Clock, id::AccountId, timestamp};
use linkledger_event_store::{
    accounts::{self, AccountFilter, StoredAccount},
    api_keys,
};
use linkledger_service::{figures::counted, operator::parse_text};
use serde::Serialize;
use sqlx::PgPool;

use crate::admin::{AdminCommandOptions, print};

/// Arguments of `account list`.
#[derive(Debug, Args)]
pub struct ListAccounts {
    /// List only accounts whose name contains this text, in upper or lower case.
    #[arg(long, value_parser = parse_text)]
    pub name: Option<String>,
    /// Number of accounts on a page.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub limit: u16,
    /// Continue after this account: the last account of the page before.
    #[arg(long, value_name = "ACCOUNT")]
    pub after: Option<AccountId>,
    #[command(flatten)]
    pub options: AdminCommandOptions,
}

/// Account, as operators see it.
#[derive(Debug, Serialize)]
struct ShownAccount {
    /// Account id, for the other commands.
    account_id: AccountId,
    /// Display name of the account.
    name: String,
    /// Status of the account: `active` or `suspended`.
    status: &'static str,
    /// True if the links of the account answer 410 Gone.
    redirects_stopped: bool,
    /// Credit balance.
    balance: i64,
    /// Number of keys that are neither revoked nor expired.
    valid_keys: i64,
    /// Number of keys ever issued.
    issued_keys: i64,
    /// Creation of the account.
    created_at: String,
}

/// Page of accounts, the oldest first.
#[derive(Debug, Serialize)]
struct AccountPage {
    /// Accounts of the page.
    accounts: Vec<ShownAccount>,
    /// Value of `--after` for the next page; `None` on the last page.
    next_after: Option<AccountId>,
}

/// Lists one page of accounts, in order of their creation.
pub(super) async fn list(command: ListAccounts, clock: &dyn Clock) -> anyhow::Result<()> {
    let pool = command.options.pool().await?;
    let limit = usize::from(command.limit);
    let filter = AccountFilter {
        name: command.name.as_deref(),
        after: command.after,
        // One account more tells if there is a next page.
        limit: i64::from(command.limit) + 1,
    };
    let found = accounts::list(&pool, filter).await;
    let mut found = found.context("cannot read the accounts")?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let accounts = with_keys(&pool, clock, found).await?;
    let last = accounts.last().map(|account| account.account_id);
    let page = AccountPage {
        accounts,
        next_after: last.filter(|_| has_more),
    };
    print(command.options.json, &page, &page.text(&command))
}

/// Shows one account.
pub(super) async fn show(
    account_id: AccountId,
    options: &AdminCommandOptions,
    clock: &dyn Clock,
) -> anyhow::Result<()> {
    let pool = options.pool().await?;
    let account = accounts::find(&pool, account_id).await;
    let account = account.context("cannot read the account")?;
    let account = account.with_context(|| format!("there is no account {account_id}"))?;
    let shown = with_keys(&pool, clock, vec![(account_id, account)]).await?;
    print(options.json, &shown[0], &shown[0].text())
}

async fn with_keys(
    pool: &PgPool,
    clock: &dyn Clock,
    found: Vec<(AccountId, StoredAccount)>,
) -> anyhow::Result<Vec<ShownAccount>> {
    let ids: Vec<AccountId> = found.iter().map(|(account_id, _)| *account_id).collect();
    let keys = api_keys::count(pool, &ids, clock.now()).await;
    let keys = keys.context("cannot count the keys of the accounts")?;
    let accounts = found.into_iter().map(|(account_id, account)| {
        let keys = keys.get(&account_id).copied().unwrap_or_default();
        let (status, redirects_stopped) = status_and_redirects(account.status);
        ShownAccount {
            account_id,
            name: account.name,
            status,
            redirects_stopped,
            balance: account.credits.balance,
            valid_keys: keys.valid,
            issued_keys: keys.issued,
            created_at: timestamp::format(account.created_at),
        }
    });
    Ok(accounts.collect())
}

impl ShownAccount {
    fn text(&self) -> String {
        let links = match (self.status, self.redirects_stopped) {
            ("suspended", true) => "; its links answer 410 Gone",
            ("suspended", false) => "; its links still redirect",
            _ => "",
        };
        [
            ("Account", self.account_id.to_string()),
            ("Name", self.name.clone()),
            ("Status", format!("{}{links}", self.status)),
            ("Balance", counted(self.balance.unsigned_abs(), "credit")),
            (
                "Keys",
                format!("{} valid, {} issued", self.valid_keys, self.issued_keys),
            ),
            ("Created", self.created_at.clone()),
        ]
        .map(|(label, value)| format!("{label:<8} {value}"))
        .join("\n")
    }
}

impl AccountPage {
    fn text(&self, command: &ListAccounts) -> String {
        if self.accounts.is_empty() {
            return match (&command.name, command.after) {
                (Some(name), None) => format!("No account has `{name}` in its name."),
                (None, None) => "There are no accounts.".to_owned(),
                (_, Some(_)) => "There are no further accounts.".to_owned(),
            };
        }
        let mut lines = vec![format!(
            "{:<30}  {:<9}  {:>15}  {:>5}  {:<24}  NAME",
            "ACCOUNT", "STATUS", "BALANCE", "KEYS", "CREATED"
        )];
        for account in &self.accounts {
            lines.push(format!(
                "{:<30}  {:<9}  {:>15}  {:>5}  {:<24}  {}",
                account.account_id.to_string(),
                account.status,
                account.balance,
                account.valid_keys,
                account.created_at,
                account.name
            ));
        }
        if let Some(after) = self.next_after {
            lines.push(format!("There are more accounts: add --after {after}"));
        }
        lines.join("\n")
    }
}

/// Returns the name of the status, and true if the links answer 410 Gone.
pub(super) const fn status_and_redirects(status: AccountStatus) -> (&'static str, bool) {
    match status {
        AccountStatus::Active => ("active", false),
        AccountStatus::Suspended { stop_redirects } => ("suspended", stop_redirects),
    }
}
