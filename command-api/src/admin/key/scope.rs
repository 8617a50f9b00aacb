//! `key scope add`.

use anyhow::{Context as _, bail};
use clap::Subcommand;
use linkledger_core::{
    api_key::Scope,
    clock::Clock,
    event_store::api_keys::{self, ListedKey},
    id::KeyId,
};
use serde::Serialize;
use sqlx::PgPool;
use time::OffsetDateTime;

use super::parse_scope;
use crate::admin::{AdminCommandOptions, print};

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

/// Key with its scopes.
#[derive(Serialize)]
struct ScopedKey {
    key_id: KeyId,
    scopes: Vec<String>,
    added: Vec<&'static str>,
}

pub(super) async fn run(command: KeyScopeSubcommand, clock: &dyn Clock) -> anyhow::Result<()> {
    let KeyScopeSubcommand::Add {
        key,
        scopes,
        options,
    } = command;
    let scoped = add(&options.pool().await?, key, &scopes, clock.now()).await?;
    let text = match scoped.added.join(" ") {
        added if added.is_empty() => format!("{key} has these scopes already."),
        added => format!("Added {added} to {key}; every process knows the scopes within 5 s."),
    };
    print(options.json, &scoped, &text)
}

async fn add(
    pool: &PgPool,
    key_id: KeyId,
    scopes: &[Scope],
    now: OffsetDateTime,
) -> anyhow::Result<ScopedKey> {
    let key = api_keys::get(pool, key_id).await?;
    let key = key.with_context(|| format!("there is no key {key_id}"))?;
    check_valid(&key, now)?;
    let after = api_keys::add_scopes(pool, key_id, scopes, now).await;
    let after = after.context("cannot store the scopes; retry the command")?;
    let names = Scope::ALL.map(Scope::as_str);
    let is_added = |name: &&str| {
        let is_wanted = scopes.iter().any(|scope| scope.as_str() == *name);
        is_wanted && !key.scopes.iter().any(|had| had == name)
    };
    Ok(ScopedKey {
        key_id,
        scopes: after.with_context(|| format!("key {key_id} was revoked at this moment"))?,
        added: names.into_iter().filter(is_added).collect(),
    })
}

fn check_valid(key: &ListedKey, now: OffsetDateTime) -> anyhow::Result<()> {
    let key_id = key.key_id;
    if key.revoked_at.is_some_and(|at| at <= now) {
        bail!("key {key_id} is revoked; issue a new key instead");
    }
    if key.expires_at.is_some_and(|at| at <= now) {
        bail!("key {key_id} has expired; issue a new key instead");
    }
    Ok(())
}
