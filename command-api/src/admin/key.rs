//! `key issue|list|revoke|rotate` and `key scope add`.

mod scope;

use std::fmt;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use linkledger_core::{
    api_key::{ApiKey, Scope},
    clock::{Clock, new_uuid},
    event_store::api_keys::{self, ListedKey, NewKey},
    id::{AccountId, KeyId},
    operator::parse_text,
    timestamp,
};
use serde::Serialize;
use sqlx::PgPool;
use time::OffsetDateTime;

use super::{AdminCommandOptions, print};

/// Commands on API keys.
#[derive(Debug, Subcommand)]
pub enum KeySubcommand {
    /// Issue a key. The secret is shown only once.
    Issue {
        #[command(flatten)]
        request: IssueKey,
        #[command(flatten)]
        options: AdminCommandOptions,
    },
    /// List the keys of an account, without their secrets. The time of the last use lags by up to
    /// two minutes.
    List {
        /// Account id: acc_….
        #[arg(long)]
        account: AccountId,
        #[command(flatten)]
        options: AdminCommandOptions,
    },
    /// Revoke a key; every process refuses the key within 5 s.
    Revoke {
        /// Key id: key_….
        key: KeyId,
        #[command(flatten)]
        options: AdminCommandOptions,
    },
    /// Scopes of a key.
    #[command(subcommand)]
    Scope(scope::KeyScopeSubcommand),
    /// Issue a key with the same scopes, and revoke the old key after an overlap.
    Rotate {
        /// Id of the old key: key_….
        key: KeyId,
        /// Time for which both keys are valid, in hours.
        #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u16).range(..=8_760))]
        overlap_hours: u16,
        #[command(flatten)]
        options: AdminCommandOptions,
    },
}

/// Requested key.
#[derive(Debug, Clone, Args)]
pub struct IssueKey {
    /// Account that the key acts for: acc_….
    #[arg(long)]
    pub account: AccountId,
    /// Scopes of the key, repeated or separated by commas: link:links.write, link:links.read,
    /// link:credits.read, link:clicks.read.
    #[arg(long = "scope", required = true, value_delimiter = ',', value_parser = parse_scope)]
    pub scopes: Vec<Scope>,
    /// Display name of the key.
    #[arg(long, default_value = "API key", value_parser = parse_text)]
    pub name: String,
    /// Time from which on the key is refused, such as 2027-01-31T00:00:00Z; never by default.
    #[arg(long, value_parser = parse_instant)]
    pub expires_at: Option<OffsetDateTime>,
}

/// Issued key with its secret, which `Debug` does not show.
#[derive(Clone, Serialize)]
pub struct IssuedKey {
    /// Key id, for the other commands.
    pub key_id: KeyId,
    /// Account that the key acts for.
    pub account_id: AccountId,
    /// Secret of the key.
    pub api_key: String,
    /// Scopes of the key.
    pub scopes: Vec<&'static str>,
    /// Expiry, from which on the key is refused.
    pub expires_at: Option<String>,
}

impl fmt::Debug for IssuedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedKey")
            .field("key_id", &self.key_id)
            .field("account_id", &self.account_id)
            .field("scopes", &self.scopes)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

pub(super) async fn run(command: KeySubcommand, clock: &dyn Clock) -> anyhow::Result<()> {
    match command {
        KeySubcommand::Issue { request, options } => {
            let secret = ApiKey::generate();
            let key = issue(&options.pool().await?, clock, &request, &secret).await?;
            let text = format!(
                "Issued {} for {}. Store the key now; the key is not shown again:\n{}",
                key.key_id, key.account_id, key.api_key
            );
            print(options.json, &key, &text)
        }
        KeySubcommand::List { account, options } => {
            let keys = api_keys::list(&options.pool().await?, account).await?;
            let rows: Vec<KeyRow> = keys.iter().map(KeyRow::from).collect();
            print(options.json, &rows, &table(&rows))
        }
        KeySubcommand::Revoke { key, options } => {
            let revoked_at = revoke(&options.pool().await?, key, 0).await?;
            let revoked = RevokedKey {
                key_id: key,
                revoked_at,
            };
            let text = format!("Revoked {key} as of {}.", revoked.revoked_at);
            print(options.json, &revoked, &text)
        }
        KeySubcommand::Scope(command) => scope::run(command, clock).await,
        KeySubcommand::Rotate {
            key,
            overlap_hours,
            options,
        } => {
            let (new, revoked_at) =
                rotate(&options.pool().await?, clock, key, overlap_hours).await?;
            let text = format!(
                "Issued {} in place of {key}, which is refused from {revoked_at} on. Store the \
                 key now; the key is not shown again:\n{}",
                new.key_id, new.api_key
            );
            let old = RevokedKey {
                key_id: key,
                revoked_at,
            };
            print(options.json, &RotatedKey { new, old }, &text)
        }
    }
}

/// Issues a key with the given secret.
///
/// # Errors
/// Returns an error if the account does not exist, if the expiry is in the past, or if the database
/// fails.
pub async fn issue(
    pool: &PgPool,
    clock: &dyn Clock,
    request: &IssueKey,
    secret: &ApiKey,
) -> anyhow::Result<IssuedKey> {
    let now = clock.now();
    if request.expires_at.is_some_and(|at| at <= now) {
        bail!("--expires-at is in the past; give an instant in the future");
    }
    let key_id = KeyId::from_uuid(new_uuid(now));
    let new_key = NewKey {
        key_id,
        account_id: request.account,
        secret,
        name: &request.name,
        scopes: &request.scopes,
        expires_at: request.expires_at,
        created_at: now,
    };
    if let Err(error) = api_keys::insert(pool, &new_key).await {
        let violated = error
            .as_database_error()
            .and_then(|error| error.constraint());
        if violated == Some("api_keys_account_id_fkey") {
            bail!("there is no account {}", request.account);
        }
        return Err(error).context("cannot store the key");
    }
    Ok(IssuedKey {
        key_id,
        account_id: request.account,
        api_key: secret.reveal().to_owned(),
        scopes: request.scopes.iter().map(|scope| scope.as_str()).collect(),
        expires_at: request.expires_at.map(timestamp::format),
    })
}

async fn revoke(pool: &PgPool, key_id: KeyId, overlap_hours: u16) -> anyhow::Result<String> {
    let revoked_at = api_keys::revoke(pool, key_id, overlap_hours).await?;
    revoked_at
        .map(timestamp::format)
        .with_context(|| format!("there is no key {key_id}"))
}

/// Issues the new key first, then revokes the old key: a failure in between leaves two valid keys.
async fn rotate(
    pool: &PgPool,
    clock: &dyn Clock,
    key_id: KeyId,
    overlap_hours: u16,
) -> anyhow::Result<(IssuedKey, String)> {
    let old = api_keys::get(pool, key_id).await?;
    let old = old.with_context(|| format!("there is no key {key_id}"))?;
    if old.revoked_at.is_some_and(|at| at <= clock.now()) {
        bail!("key {key_id} is revoked already; issue a new key instead");
    }
    if old.expires_at.is_some_and(|at| at <= clock.now()) {
        bail!(
            "key {key_id} has expired, and a rotated key keeps the expiry; issue a new key instead"
        );
    }
    let request = IssueKey {
        account: old.account_id,
        scopes: old
            .scopes
            .iter()
            .filter_map(|name| Scope::parse(name))
            .collect(),
        name: old.name,
        expires_at: old.expires_at,
    };
    let new = issue(pool, clock, &request, &ApiKey::generate()).await?;
    let revoked_at = revoke(pool, key_id, overlap_hours).await?;
    Ok((new, revoked_at))
}

#[derive(Serialize)]
struct RevokedKey {
    key_id: KeyId,
    revoked_at: String,
}

#[derive(Serialize)]
struct RotatedKey {
    new: IssuedKey,
    old: RevokedKey,
}

#[derive(Serialize)]
struct KeyRow {
    key_id: KeyId,
    name: String,
    prefix: String,
    scopes: Vec<String>,
    created_at: String,
    expires_at: Option<String>,
    revoked_at: Option<String>,
    last_used_at: Option<String>,
}

impl From<&ListedKey> for KeyRow {
    fn from(key: &ListedKey) -> Self {
        Self {
            key_id: key.key_id,
            name: key.name.clone(),
            prefix: key.prefix.clone(),
            scopes: key.scopes.clone(),
            created_at: timestamp::format(key.created_at),
            expires_at: key.expires_at.map(timestamp::format),
            revoked_at: key.revoked_at.map(timestamp::format),
            last_used_at: key.last_used_at.map(timestamp::format),
        }
    }
}

fn table(rows: &[KeyRow]) -> String {
    if rows.is_empty() {
        return "The account has no keys.".to_owned();
    }
    let mut lines = vec![format!(
        "{:<30}  {:<8}  {:<24}  {:<24}  {:<24}  {}",
        "KEY", "PREFIX", "EXPIRES", "REVOKED FROM", "LAST USED", "NAME"
    )];
    for row in rows {
        let instants = [&row.expires_at, &row.revoked_at, &row.last_used_at];
        let [expires, revoked, used] = instants.map(|instant| instant.as_deref().unwrap_or("-"));
        let (key_id, scopes) = (row.key_id.to_string(), row.scopes.join(" "));
        lines.push(format!(
            "{key_id:<30}  {:<8}  {expires:<24}  {revoked:<24}  {used:<24}  {} ({scopes})",
            row.prefix, row.name
        ));
    }
    lines.join("\n")
}

fn parse_scope(name: &str) -> Result<Scope, String> {
    let known = || Scope::ALL.map(Scope::as_str).join(", ");
    Scope::parse(name).ok_or_else(|| format!("no such scope; give one of: {}", known()))
}

fn parse_instant(text: &str) -> Result<OffsetDateTime, String> {
    timestamp::parse(text).ok_or_else(|| "give an instant such as 2027-01-31T00:00:00Z".to_owned())
}
