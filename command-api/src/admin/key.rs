//! `key issue|list|revoke|rotate` and `key scope add`.

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use linkledger_core::{
    api_key::{ApiKey, Scope},
    clock::{Clock, new_uuid},
    id::{AccountId, KeyId},
    timestamp,
};
use linkledger_event_store::api_keys::{self, ListedKey, NewKey};
use linkledger_service::operator::parse_text;
use serde::Serialize;
use serde_json::json;
use sqlx::PgPool;
use time::OffsetDateTime;

use super::{AdminCommandOptions, WithOptions, print};

/// Commands on API keys.
#[derive(Debug, Subcommand)]
pub enum KeySubcommand {
    /// Issue a key. The secret is shown only once.
    Issue(WithOptions<IssueKey>),
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
    Scope(KeyScopeSubcommand),
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

/// Commands on the scopes of a key.
#[derive(Debug, Subcommand)]
pub enum KeyScopeSubcommand {
    /// Add scopes to a key; every process knows the scopes within 5 s. Safe to repeat.
    Add {
        /// Key id: key_….
        key: KeyId,
        /// Scopes to add, such as link:clicks.read.
        #[arg(required = true, value_delimiter = ',', value_parser = parse_scope)]
        scopes: Vec<Scope>,
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

/// Issued key with its secret, so not for `Debug`.
#[derive(Serialize)]
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

pub(super) async fn run(command: KeySubcommand, clock: &dyn Clock) -> anyhow::Result<()> {
    match command {
        KeySubcommand::Issue(WithOptions { request, options }) => {
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
            print(options.json, &keys, &table(&keys))
        }
        KeySubcommand::Revoke { key, options } => {
            let revoked_at = revoke(&options.pool().await?, key, 0).await?;
            let text = format!("Revoked {key} as of {revoked_at}.");
            let revoked = json!({ "key_id": key, "revoked_at": revoked_at });
            print(options.json, &revoked, &text)
        }
        KeySubcommand::Scope(KeyScopeSubcommand::Add {
            key,
            scopes,
            options,
        }) => {
            let (scopes, added) = add(&options.pool().await?, key, &scopes, clock.now()).await?;
            let text = match added.join(" ") {
                added if added.is_empty() => format!("{key} has these scopes already."),
                added => {
                    format!("Added {added} to {key}; every process knows the scopes within 5 s.")
                }
            };
            let report = json!({ "key_id": key, "scopes": scopes, "added": added });
            print(options.json, &report, &text)
        }
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
            let old = json!({ "key_id": key, "revoked_at": revoked_at });
            print(options.json, &json!({ "new": new, "old": old }), &text)
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
        scopes: request.scopes.iter().map(|scope| scope.name()).collect(),
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
    let old = get_valid(pool, key_id, clock.now()).await?;
    let request = IssueKey {
        account: old.account_id,
        scopes: old
            .scopes
            .iter()
            .filter_map(|name| Scope::of_name(name))
            .collect(),
        name: old.name,
        expires_at: old.expires_at,
    };
    let new = issue(pool, clock, &request, &ApiKey::generate()).await?;
    let revoked_at = revoke(pool, key_id, overlap_hours).await?;
    Ok((new, revoked_at))
}

/// Adds scopes. Returns the scopes of the key, and the names of those that are new.
async fn add(
    pool: &PgPool,
    key_id: KeyId,
    scopes: &[Scope],
    now: OffsetDateTime,
) -> anyhow::Result<(Vec<String>, Vec<&'static str>)> {
    let key = get_valid(pool, key_id, now).await?;
    let after = api_keys::add_scopes(pool, key_id, scopes, now).await;
    let after = after.context("cannot store the scopes; retry the command")?;
    let after = after.with_context(|| format!("key {key_id} was revoked at this moment"))?;
    let is_added =
        |scope: &Scope| scopes.contains(scope) && key.scopes.iter().all(|had| had != scope.name());
    let added = Scope::ALL.into_iter().filter(is_added).map(Scope::name);
    Ok((after, added.collect()))
}

/// Reads a key that is neither revoked nor expired.
async fn get_valid(pool: &PgPool, key_id: KeyId, now: OffsetDateTime) -> anyhow::Result<ListedKey> {
    let key = api_keys::get(pool, key_id).await?;
    let key = key.with_context(|| format!("there is no key {key_id}"))?;
    if key.revoked_at.is_some_and(|at| at <= now) {
        bail!("key {key_id} is revoked; issue a new key instead");
    }
    if key.expires_at.is_some_and(|at| at <= now) {
        bail!("key {key_id} has expired; issue a new key instead");
    }
    Ok(key)
}

fn table(keys: &[ListedKey]) -> String {
    if keys.is_empty() {
        return "The account has no keys.".to_owned();
    }
    let mut lines = vec![format!(
        "{:<30}  {:<8}  {:<24}  {:<24}  {:<24}  {}",
        "KEY", "PREFIX", "EXPIRES", "REVOKED FROM", "LAST USED", "NAME"
    )];
    for key in keys {
        let instants = [key.expires_at, key.revoked_at, key.last_used_at];
        let [expires, revoked, used] =
            instants.map(|instant| instant.map_or("-".to_owned(), timestamp::format));
        let (key_id, scopes) = (key.key_id.to_string(), key.scopes.join(" "));
        lines.push(format!(
            "{key_id:<30}  {:<8}  {expires:<24}  {revoked:<24}  {used:<24}  {} ({scopes})",
            key.prefix, key.name
        ));
    }
    lines.join("\n")
}

fn parse_scope(name: &str) -> Result<Scope, String> {
    let known = || Scope::ALL.map(Scope::name).join(", ");
    Scope::of_name(name).ok_or_else(|| format!("no such scope; give one of: {}", known()))
}

fn parse_instant(text: &str) -> Result<OffsetDateTime, String> {
    timestamp::parse(text).ok_or_else(|| "give an instant such as 2027-01-31T00:00:00Z".to_owned())
}
