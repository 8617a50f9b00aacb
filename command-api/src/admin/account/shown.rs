//! `account list`, `account show`: accounts with state, balance and number of keys. Changes nothing.

use anyhow::Context as _;
use clap::Args;
use linkledger_core::{account::AccountState, clock::Clock, id::AccountId, timestamp};
use linkledger_event_store::{
    accounts::{self, AccountFilter, ListedAccount},
    api_keys,
};
use linkledger_http::admin_views::AccountView;
use linkledger_service::{number_format::counted, operator::parse_text};
use serde::Serialize;
use sqlx::PgPool;

use super::command::{parse_external_id, state_and_links, thresholds_text};
use crate::admin::{AdminCommandOptions, AdminError, AdminRefusal, print};

/// Arguments of `account list`.
#[derive(Debug, Args)]
pub struct ListAccounts {
    /// List only accounts whose name or external id contains this text, in upper or lower case.
    #[arg(long, value_name = "TEXT", value_parser = parse_text)]
    pub q: Option<String>,
    /// List only accounts in this state: active or suspended.
    #[arg(long, value_parser = parse_state)]
    pub state: Option<AccountState>,
    /// List only the account with this id in your system.
    #[arg(long, value_parser = parse_external_id)]
    pub external_id: Option<String>,
    /// Number of accounts on a page.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub limit: u16,
    /// Continue after this account: the last account of the page before.
    #[arg(long, value_name = "ACCOUNT")]
    pub after: Option<AccountId>,
    #[command(flatten)]
    pub options: AdminCommandOptions,
}

/// Account with the number of its keys, as operators see it.
#[derive(Debug, Serialize)]
struct ShownAccount {
    #[serde(flatten)]
    account: AccountView,
    /// Number of keys that are neither revoked nor expired.
    valid_keys: i64,
    /// Number of keys ever issued.
    issued_keys: i64,
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
        external_id: command.external_id.as_deref(),
        q: command.q.as_deref(),
        state: command.state,
    };
    // One account more tells if there is a next page.
    let found = accounts::list(&pool, &filter, command.after, i64::from(command.limit) + 1).await;
    let mut found = found.map_err(AdminError::of_statement("read the accounts"))?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let accounts = with_keys(&pool, clock, &found).await?;
    let last = accounts.last().map(|shown| shown.account.id);
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
    let account = accounts::get(&pool, account_id).await;
    let account = account.map_err(AdminError::of_statement("read the account"))?;
    let account =
        account.ok_or_else(|| AdminError::from(AdminRefusal::AccountNotFound(account_id)))?;
    let shown = with_keys(&pool, clock, &[account]).await?;
    let shown = shown.first().context("the account was not read")?;
    print(options.json, shown, &shown.text())
}

async fn with_keys(
    pool: &PgPool,
    clock: &dyn Clock,
    found: &[ListedAccount],
) -> anyhow::Result<Vec<ShownAccount>> {
    let ids: Vec<AccountId> = found.iter().map(|found| found.account.account_id).collect();
    let keys = api_keys::count(pool, &ids, clock.now()).await;
    let keys = keys.map_err(AdminError::of_statement("count the keys of the accounts"))?;
    let accounts = found.iter().map(
        |ListedAccount {
             account, balance, ..
         }| {
            let keys = keys.get(&account.account_id).copied().unwrap_or_default();
            ShownAccount {
                account: AccountView::of_account(account, *balance),
                valid_keys: keys.valid,
                issued_keys: keys.issued,
            }
        },
    );
    Ok(accounts.collect())
}

impl ShownAccount {
    fn text(&self) -> String {
        let account = &self.account;
        let external_id = account.external_id.as_deref().unwrap_or("-");
        [
            ("Account", account.id.to_string()),
            ("Name", account.name.clone()),
            ("External id", external_id.to_owned()),
            ("State", state_and_links(account).to_owned()),
            ("Balance", counted(account.balance.unsigned_abs(), "credit")),
            ("Low balance", thresholds_text(account)),
            (
                "Keys",
                format!("{} valid, {} issued", self.valid_keys, self.issued_keys),
            ),
            ("Created", timestamp::format(account.created_at)),
        ]
        .map(|(label, value)| format!("{label:<11} {value}"))
        .join("\n")
    }
}

impl AccountPage {
    fn text(&self, command: &ListAccounts) -> String {
        if self.accounts.is_empty() {
            let is_filtered =
                command.q.is_some() || command.state.is_some() || command.external_id.is_some();
            return match (is_filtered, command.after) {
                (true, None) => "No account matches.".to_owned(),
                (false, None) => "There are no accounts.".to_owned(),
                (_, Some(_)) => "There are no further accounts.".to_owned(),
            };
        }
        let mut lines = vec![format!(
            "{:<30}  {:<9}  {:>15}  {:>5}  {:<24}  NAME",
            "ACCOUNT", "STATE", "BALANCE", "KEYS", "CREATED"
        )];
        for shown in &self.accounts {
            let account = &shown.account;
            let external_id = account.external_id.as_ref();
            let external_id = external_id.map(|external_id| format!(" ({external_id})"));
            lines.push(format!(
                "{:<30}  {:<9}  {:>15}  {:>5}  {:<24}  {}{}",
                account.id.to_string(),
                account.state,
                account.balance,
                shown.valid_keys,
                timestamp::format(account.created_at),
                account.name,
                external_id.unwrap_or_default()
            ));
        }
        if let Some(after) = self.next_after {
            lines.push(format!("There are more accounts: add --after {after}"));
        }
        lines.join("\n")
    }
}

fn parse_state(name: &str) -> Result<AccountState, String> {
    let known = || AccountState::ALL.map(AccountState::name).join(", ");
    AccountState::of_name(name).ok_or_else(|| format!("no such state; give one of: {}", known()))
}
