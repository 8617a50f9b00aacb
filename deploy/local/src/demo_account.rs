//! Demo accounts of the local stack: one per database and file of the API key, with an API key that stays the same.

use anyhow::Context as _;
use linkledger_command_api::admin::{
    AdminError, AdminRefusal, Author, Request,
    account::{self, NewAccount},
    credits,
    key::{self, IssueKey, NewSecret},
};
use linkledger_core::{
    api_key::{ApiKey, Scope},
    clock::Clock,
    credits::GrantRequest,
};
use linkledger_event_store::api_keys::{self, StoredKey};
use sqlx::PgPool;

use crate::data_folder::DataFolder;

/// Name under which the stack is recorded as the author of its accounts.
const OPERATOR: &str = "local stack";

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
    account: DemoAccount,
) -> anyhow::Result<ApiKey> {
    let key_file = account.key_file;
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
    let request = Request::new(pool, clock, &Author::Operator(OPERATOR.to_owned()));
    match api_keys::find(pool, &secret).await? {
        Some(key) => complete_scopes(&request, &key).await?,
        None => account.create(&request, &secret).await?,
    }
    Ok(secret)
}

/// Adds the scopes that a key lacks: a release without these scopes has issued the key.
async fn complete_scopes(request: &Request<'_>, key: &StoredKey) -> anyhow::Result<()> {
    match key::add_scopes(request, key.key_id, &Scope::ALL).await {
        // A revoked key stays revoked, and the stack starts nevertheless.
        Ok(_) | Err(AdminError::Refused(AdminRefusal::KeyNotValid { .. })) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl DemoAccount {
    /// Creates the account with its credits and its API key.
    async fn create(self, request: &Request<'_>, secret: &ApiKey) -> anyhow::Result<()> {
        let name = self.name.to_owned();
        let new = NewAccount {
            name: name.clone(),
            external_id: None,
            low_balance_at: None,
        };
        let account = account::create(request, &new).await?.value.id;
        if self.credits > 0 {
            let grant = GrantRequest {
                amount: self.credits,
                reason: name.clone(),
                ..GrantRequest::default()
            };
            credits::grant(request, account, &grant).await?;
        }
        let wanted = IssueKey {
            account,
            scopes: Scope::ALL.to_vec(),
            name,
            expires_at: None,
        };
        key::issue(request, &wanted, &NewSecret::Generated(secret.clone())).await?;
        Ok(())
    }
}
