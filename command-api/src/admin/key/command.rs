//! `key issue|list|change|rotate|revoke`.

use clap::{Args, Subcommand};
use linkledger_core::{
    api_key::{ApiKey, KeyChangeRequest, KeyState, Scope},
    change::ValueUpdate,
    clock::Clock,
    id::{AccountId, KeyId},
    link::Expiry,
    timestamp,
};
use linkledger_event_store::api_keys::{KeyHash, KeySecret};
use linkledger_http::admin_views::KeyView;
use linkledger_service::operator::parse_text;
use time::OffsetDateTime;

use super::{
    IssueKey, NewSecret, OVERLAP_SECONDS_MAX, change_as, issue, parse_prefix, parse_sha256, revoke,
    rotate, rows::list, union,
};
use crate::admin::{AdminCommandOptions, Authored, Keyed, print, print_done};

/// Commands on API keys.
#[derive(Debug, Subcommand)]
pub enum KeySubcommand {
    /// Issue a key. The secret is shown only once. A retry with the same --idempotency-key issues no other key.
    Issue(Keyed<IssueArguments>),
    /// List the keys of an account, without their secrets. The time of the last use lags by up to
    /// two minutes.
    List {
        /// Account id: acc_….
        #[arg(long)]
        account: AccountId,
        #[command(flatten)]
        options: AdminCommandOptions,
    },
    /// Change name, scopes or expiry of a key; every process knows the change within 5 s. Safe to repeat.
    Change(Authored<ChangeArguments>),
    /// Issue a key with the same name, scopes and expiry, and refuse the old key after an overlap. A key is rotated
    /// once.
    Rotate(Keyed<RotateArguments>),
    /// Revoke a key; every process refuses the key within 5 s. Safe to repeat.
    Revoke(Authored<RevokeKey>),
}

/// Secret of a key, if the caller has made it.
#[derive(Debug, Clone, Args)]
pub struct GivenSecret {
    /// SHA-256 of a secret of your own, in 64 hexadecimal digits: no secret is made and shown.
    #[arg(long, value_name = "HEX", value_parser = parse_sha256)]
    pub sha256: Option<KeyHash>,
    /// First characters of that secret, by which people recognise the key.
    #[arg(long, requires = "sha256", value_parser = parse_prefix)]
    pub prefix: Option<String>,
}

/// Arguments of `key issue`.
#[derive(Debug, Clone, Args)]
pub struct IssueArguments {
    #[command(flatten)]
    pub key: IssueKey,
    #[command(flatten)]
    pub secret: GivenSecret,
}

/// Changes of `key change`.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = true, id = "key_changes")]
pub struct KeyChangeOptions {
    /// New display name.
    #[arg(long, value_parser = parse_text)]
    pub name: Option<String>,
    /// Scopes to add, repeated or separated by commas, such as link:clicks.read.
    #[arg(long, value_delimiter = ',', value_parser = parse_scope)]
    pub add_scope: Vec<Scope>,
    /// Scopes that replace all scopes of the key, repeated or separated by commas.
    #[arg(long = "scope", value_delimiter = ',', conflicts_with = "add_scope", value_parser = parse_scope)]
    pub scopes: Vec<Scope>,
    /// New time from which on the key is refused.
    #[arg(long, value_parser = parse_instant)]
    pub expires_at: Option<OffsetDateTime>,
    /// Let the key never expire.
    #[arg(long, conflicts_with = "expires_at")]
    pub no_expires_at: bool,
}

/// Arguments of `key change`.
#[derive(Debug, Clone, Args)]
pub struct ChangeArguments {
    /// Key id: key_….
    pub key: KeyId,
    #[command(flatten)]
    pub changes: KeyChangeOptions,
}

/// Arguments of `key rotate`.
#[derive(Debug, Clone, Args)]
pub struct RotateArguments {
    /// Id of the old key: key_….
    pub key: KeyId,
    /// Time for which both keys are valid, in seconds, up to a week.
    #[arg(long, default_value_t = 86_400, value_parser = clap::value_parser!(u32).range(..=i64::from(OVERLAP_SECONDS_MAX)))]
    pub overlap_seconds: u32,
    #[command(flatten)]
    pub secret: GivenSecret,
}

/// Key to revoke.
#[derive(Debug, Clone, Args)]
pub struct RevokeKey {
    /// Key id: key_….
    pub key: KeyId,
}

/// Runs a command on API keys.
pub(in crate::admin) async fn run(command: KeySubcommand, clock: &dyn Clock) -> anyhow::Result<()> {
    match command {
        KeySubcommand::Issue(command) => run_issue(command, clock).await,
        KeySubcommand::List { account, options } => {
            let keys = list(&options.pool().await?, account).await?;
            print(options.json, &keys, &table(&keys))
        }
        KeySubcommand::Change(command) => run_change(command, clock).await,
        KeySubcommand::Rotate(command) => run_rotate(command, clock).await,
        KeySubcommand::Revoke(command) => run_revoke(command, clock).await,
    }
}

async fn run_issue(command: Keyed<IssueArguments>, clock: &dyn Clock) -> anyhow::Result<()> {
    let pool = command.options().pool().await?;
    let request = command.request(&pool, clock);
    let IssueArguments { key, secret } = command.arguments();
    let issued = issue(&request, key, &secret.new_secret()).await?;
    let KeyView { id, account_id, .. } = &issued.value;
    let secret = secret_text(&issued.value, issued.replayed);
    let text = format!("Issued {id} for {account_id}{}. {secret}", issued.note());
    print_done(command.options(), &request, &issued, &text)
}

async fn run_change(command: Authored<ChangeArguments>, clock: &dyn Clock) -> anyhow::Result<()> {
    let pool = command.options.pool().await?;
    let request = command.request(&pool, clock);
    let ChangeArguments { key, changes } = &command.arguments;
    let changed = change_as(&request, *key, |key| changes.request(key)).await?;
    let text = if changed.has_changed() {
        let scopes = changed.value.scopes.join(" ");
        format!(
            "Key {key} ({}) has the scopes {scopes}{}; every process knows the change within 5 s.",
            changed.value.name,
            expiry_text(&changed.value)
        )
    } else {
        format!("Key {key} is so already (unchanged).")
    };
    print_done(&command.options, &request, &changed, &text)
}

async fn run_rotate(command: Keyed<RotateArguments>, clock: &dyn Clock) -> anyhow::Result<()> {
    let pool = command.options().pool().await?;
    let request = command.request(&pool, clock);
    let arguments = command.arguments();
    let (key, overlap) = (arguments.key, arguments.overlap_seconds);
    let rotated = rotate(&request, key, overlap, &arguments.secret.new_secret()).await?;
    let secret = secret_text(&rotated.value.key, rotated.replayed);
    let text = format!(
        "Issued {} in place of {key}, which is refused from {} on{}. {secret}",
        rotated.value.key.id,
        timestamp::format(rotated.value.overlap_until),
        rotated.note(),
    );
    print_done(command.options(), &request, &rotated, &text)
}

async fn run_revoke(command: Authored<RevokeKey>, clock: &dyn Clock) -> anyhow::Result<()> {
    let pool = command.options.pool().await?;
    let request = command.request(&pool, clock);
    let key = command.arguments.key;
    let revoked = revoke(&request, key).await?;
    let at = revoked.value.revoked_at.map(timestamp::format);
    let at = at.unwrap_or_default();
    let text = format!("Key {key} is revoked as of {at}{}.", revoked.note());
    print_done(&command.options, &request, &revoked, &text)
}

impl GivenSecret {
    fn new_secret(&self) -> NewSecret {
        match self.sha256 {
            Some(sha256) => NewSecret::Given(KeySecret {
                sha256,
                prefix: self.prefix.clone().unwrap_or_default(),
            }),
            None => NewSecret::Generated(ApiKey::generate()),
        }
    }
}

impl KeyChangeOptions {
    fn request(&self, key: &KeyState) -> KeyChangeRequest {
        let scopes = if !self.add_scope.is_empty() {
            Some(union(&key.scopes, &self.add_scope))
        } else if self.scopes.is_empty() {
            None
        } else {
            Some(Scope::names(&self.scopes))
        };
        let expires_at = match self.expires_at {
            Some(at) => ValueUpdate::Set(Expiry::at(at)),
            None if self.no_expires_at => ValueUpdate::Remove,
            None => ValueUpdate::Keep,
        };
        KeyChangeRequest {
            name: self.name.clone(),
            scopes,
            expires_at,
        }
    }
}

impl KeySubcommand {
    /// Returns the options of the command.
    pub(in crate::admin) const fn options(&self) -> &AdminCommandOptions {
        match self {
            Self::Issue(command) => command.options(),
            Self::List { options, .. } => options,
            Self::Change(command) => &command.options,
            Self::Rotate(command) => command.options(),
            Self::Revoke(command) => &command.options,
        }
    }
}

/// Returns the secret of a key with advice, or the reason why it is not shown.
fn secret_text(key: &KeyView, is_replayed: bool) -> String {
    match &key.secret {
        Some(secret) => {
            format!(
                "Store the key now; the key is not shown again:\n{}",
                secret.reveal()
            )
        }
        None if is_replayed => {
            "Its secret was shown once and is not stored; if nobody has it, issue another key and revoke this one."
                .to_owned()
        }
        None => "Its secret is the one that you have made.".to_owned(),
    }
}

fn expiry_text(key: &KeyView) -> String {
    match key.expires_at {
        Some(at) => format!(" and expires at {}", timestamp::format(at)),
        None => String::new(),
    }
}

fn table(keys: &[KeyView]) -> String {
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
        let (key_id, scopes) = (key.id.to_string(), key.scopes.join(" "));
        lines.push(format!(
            "{key_id:<30}  {:<8}  {expires:<24}  {revoked:<24}  {used:<24}  {} ({scopes})",
            key.prefix, key.name
        ));
    }
    lines.join("\n")
}

pub(super) fn parse_scope(name: &str) -> Result<Scope, String> {
    let known = || Scope::ALL.map(Scope::name).join(", ");
    Scope::of_name(name).ok_or_else(|| format!("no such scope; give one of: {}", known()))
}

pub(in crate::admin) fn parse_instant(text: &str) -> Result<OffsetDateTime, String> {
    timestamp::parse(text).ok_or_else(|| "give an instant such as 2027-01-31T00:00:00Z".to_owned())
}
