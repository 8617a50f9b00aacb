//! Demo accounts of the local stack: one per database and file of the API key, with an API key that stays the same.

use anyhow::Context as _;
use linkledger_command_api::admin::{
    account,
    credits::{self, CreditsChange, CreditsRequest},
    key::{self, IssueKey},
};
use linkledger_core::{
    api_key::{ApiKey, Scope},
    clock::Clock,
};
use linkledger_event_store::api_keys;
use sqlx::PgPool;

use crate::data_folder::DataFolder;

/// An account for trying out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DemoAccount {
    /// Name of account and API key.
    pub(crate) name: &'static str,
    /// Name of the file in the data folder that holds the API key.
    pub(crate) key_file: &'static str,
    /// Credits of a new account.
    pub(crate) credits: i64,
}

impl DemoAccount {
    /// Returns the account whose API key the client uses.
    pub(crate) const fn of_stack(credits: i64) -> Self {
        Self {
            name: "demo",
            key_file: "demo_key",
            credits,
        }
    }
}

/// Returns the API key of the account. Creates account, credits and API key if the database
/// does not have the key, and adds the scopes that the key lacks.
pub(crate) async fn demo_key(
    folder: &DataFolder,
    pool: &PgPool,
    clock: &dyn Clock,
    DemoAccount {
        name,
        key_file,
        credits,
    }: DemoAccount,
) -> anyhow::Result<ApiKey> {
    // The file is written first: the database keeps only a hash. A crash before `issue` can leave
    // an unused account; the next start creates another.
    let text = folder.read_or_make(key_file, || ApiKey::generate().reveal().to_owned())?;
    let secret = ApiKey::parse(&text).with_context(|| {
        let path = folder.path(key_file);
        format!(
            "{} does not hold an API key; remove the file, and the stack makes a new API key",
            path.display()
        )
    })?;
    if let Some(key) = api_keys::find(pool, &secret).await? {
        // A release that lacked a scope has issued the key without it.
        api_keys::add_scopes(pool, key.key_id, &Scope::ALL, clock.now()).await?;
    } else {
        let account = account::create(pool, clock, name).await?;
        if credits > 0 {
            let request = CreditsRequest {
                amount: credits,
                account,
                reason: name.to_owned(),
                idempotency_key: None,
            };
            credits::change(pool, clock, CreditsChange::Grant, &request).await?;
        }
        let request = IssueKey {
            account,
            scopes: Scope::ALL.to_vec(),
            name: name.to_owned(),
            expires_at: None,
        };
        key::issue(pool, clock, &request, &secret).await?;
    }
    Ok(secret)
}
