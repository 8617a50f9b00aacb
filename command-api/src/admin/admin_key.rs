//! Keys of the admin API: `admin-key issue|list|revoke`. These commands need access to the database: the admin API
//! cannot issue admin keys.

use clap::{Args, Subcommand};
use linkledger_core::{
    api_key::{AdminKey, AdminScope},
    clock::{Clock, new_uuid},
    id::AdminKeyId,
    timestamp,
};
use linkledger_event_store::admin_keys::{self, ListedAdminKey, NewAdminKey};
use linkledger_service::operator::parse_text;
use serde::Serialize;
use serde_json::json;
use sqlx::PgPool;
use time::OffsetDateTime;

use super::{
    AdminCommandOptions, Authored,
    error::{AdminError, AdminRefusal, AdminResult},
    key::parse_instant,
    print,
};

/// Commands on keys of the admin API.
#[derive(Debug, Subcommand)]
pub enum AdminKeySubcommand {
    /// Issue a key of the admin API. The secret is shown only once.
    Issue(Authored<IssueAdminKey>),
    /// List the keys of the admin API, without their secrets.
    List(AdminCommandOptions),
    /// Revoke a key of the admin API; every process refuses the key at once. Safe to repeat.
    Revoke(Authored<RevokeAdminKey>),
}

/// Requested key of the admin API.
#[derive(Debug, Clone, Args)]
pub struct IssueAdminKey {
    /// Display name of the key, such as that of the system that uses it.
    #[arg(long, value_parser = parse_text)]
    pub name: String,
    /// Scopes of the key, repeated or separated by commas: admin:read, admin:accounts, admin:keys, admin:credits,
    /// admin:links, admin:operations, admin:webhooks.
    #[arg(long = "scope", required = true, value_delimiter = ',', value_parser = parse_scope)]
    pub scopes: Vec<AdminScope>,
    /// Time from which on the key is refused, such as 2027-01-31T00:00:00Z; never by default.
    #[arg(long, value_parser = parse_instant)]
    pub expires_at: Option<OffsetDateTime>,
}

/// Key of the admin API to revoke.
#[derive(Debug, Clone, Args)]
pub struct RevokeAdminKey {
    /// Id of the key: adm_….
    pub key: AdminKeyId,
}

/// Issued key with its secret, so not for `Debug`.
#[derive(Serialize)]
pub struct IssuedAdminKey {
    /// Id of the key, for the other commands.
    pub id: AdminKeyId,
    /// Display name of the key.
    pub name: String,
    /// Scopes of the key.
    pub scopes: Vec<&'static str>,
    /// Expiry: the key is refused from this time on.
    #[serde(serialize_with = "timestamp::serialize")]
    pub expires_at: Option<OffsetDateTime>,
    /// The secret.
    pub secret: String,
}

pub(super) async fn run(command: AdminKeySubcommand, clock: &dyn Clock) -> anyhow::Result<()> {
    match command {
        AdminKeySubcommand::Issue(command) => run_issue(command, clock).await,
        AdminKeySubcommand::List(options) => {
            let keys = admin_keys::list(&options.pool().await?).await;
            let keys = keys.map_err(AdminError::of_statement("read the keys"))?;
            print(options.json, &keys, &table(&keys))
        }
        AdminKeySubcommand::Revoke(command) => run_revoke(command).await,
    }
}

async fn run_issue(command: Authored<IssueAdminKey>, clock: &dyn Clock) -> anyhow::Result<()> {
    let pool = command.options.pool().await?;
    let operator = command.operator.name();
    let secret = AdminKey::generate();
    let key = issue(&pool, clock, &command.arguments, &secret, &operator).await?;
    let text = format!(
        "Issued {} for the admin API. Store the key now; the key is not shown again:\n{}",
        key.id, key.secret
    );
    print(command.options.json, &key, &text)
}

async fn run_revoke(command: Authored<RevokeAdminKey>) -> anyhow::Result<()> {
    let pool = command.options.pool().await?;
    let key = command.arguments.key;
    let revoked_at = revoke(&pool, key, &command.operator.name()).await?;
    let revoked_at = timestamp::format(revoked_at);
    let text = format!("Admin key {key} is revoked as of {revoked_at}.");
    let revoked = json!({ "id": key, "revoked_at": revoked_at });
    print(command.options.json, &revoked, &text)
}

/// Issues a key of the admin API with the given secret, in the name of an operator.
///
/// # Errors
/// Returns an error if the expiry is in the past, or the database fails.
pub async fn issue(
    pool: &PgPool,
    clock: &dyn Clock,
    wanted: &IssueAdminKey,
    secret: &AdminKey,
    operator: &str,
) -> AdminResult<IssuedAdminKey> {
    let now = clock.now();
    if wanted.expires_at.is_some_and(|at| at <= now) {
        return Err(AdminRefusal::ExpiryInPast.into());
    }
    let given = |scope: &AdminScope| wanted.scopes.contains(scope);
    let scopes: Vec<AdminScope> = AdminScope::ALL.into_iter().filter(given).collect();
    let key_id = AdminKeyId::from_uuid(new_uuid(now));
    let key = NewAdminKey {
        key_id,
        secret,
        name: &wanted.name,
        scopes: &scopes,
        created_at: now,
        created_by: operator,
        expires_at: wanted.expires_at,
    };
    let stored = admin_keys::insert(pool, &key).await;
    stored.map_err(AdminError::of_statement("store the key"))?;
    Ok(IssuedAdminKey {
        id: key_id,
        name: wanted.name.clone(),
        scopes: scopes.into_iter().map(AdminScope::name).collect(),
        expires_at: wanted.expires_at,
        secret: secret.reveal().to_owned(),
    })
}

/// Revokes a key of the admin API, in the name of an operator. Returns the time of the revocation; an earlier one
/// stays.
///
/// # Errors
/// Returns an error if the key does not exist, or the database fails.
pub async fn revoke(
    pool: &PgPool,
    key_id: AdminKeyId,
    operator: &str,
) -> AdminResult<OffsetDateTime> {
    let revoked_at = admin_keys::revoke(pool, key_id, operator).await;
    let revoked_at = revoked_at.map_err(AdminError::of_statement("revoke the key"))?;
    Ok(revoked_at.ok_or(AdminRefusal::AdminKeyNotFound(key_id))?)
}

impl AdminKeySubcommand {
    /// Returns the options of the command.
    pub(super) const fn options(&self) -> &AdminCommandOptions {
        match self {
            Self::Issue(command) => &command.options,
            Self::List(options) => options,
            Self::Revoke(command) => &command.options,
        }
    }
}

fn table(keys: &[ListedAdminKey]) -> String {
    if keys.is_empty() {
        return "There are no keys of the admin API.".to_owned();
    }
    let mut lines = vec![format!(
        "{:<30}  {:<8}  {:<24}  {:<24}  {}",
        "KEY", "PREFIX", "EXPIRES", "REVOKED FROM", "NAME"
    )];
    for key in keys {
        let instants = [key.expires_at, key.revoked_at];
        let [expires, revoked] =
            instants.map(|instant| instant.map_or("-".to_owned(), timestamp::format));
        let (key_id, scopes) = (key.key_id.to_string(), key.scopes.join(" "));
        lines.push(format!(
            "{key_id:<30}  {:<8}  {expires:<24}  {revoked:<24}  {} ({scopes}), issued by {}",
            key.prefix, key.name, key.created_by
        ));
    }
    lines.join("\n")
}

fn parse_scope(name: &str) -> Result<AdminScope, String> {
    let known = || AdminScope::ALL.map(AdminScope::name).join(", ");
    AdminScope::of_name(name).ok_or_else(|| format!("no such scope; give one of: {}", known()))
}
