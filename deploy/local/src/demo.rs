//! The demo account of the stack: one per database, with an API key that stays the same.

use anyhow::Context as _;
use linkledger_command_api::admin::{
    account,
    credits::{self, CreditsSubject, GrantRequest},
    key::{self, IssueKey},
};
use linkledger_core::{
    api_key::{ApiKey, Scope},
    clock::Clock,
    event_store::api_keys,
};
use sqlx::PgPool;

use crate::data_folder::DataFolder;

/// Name of the file in the data folder that holds the API key of the demo account.
const KEY_FILE: &str = "demo_key";

/// Returns the API key of the demo account. Creates account, credits and API key if the database
/// does not have the key, and adds the scopes that the key lacks.
pub(crate) async fn demo_key(
    folder: &DataFolder,
    pool: &PgPool,
    clock: &dyn Clock,
    demo_credits: i64,
) -> anyhow::Result<ApiKey> {
    // The file is written first: the database keeps only a hash. A crash before `issue` can leave
    // an unused account; the next start creates another.
    let text = folder.read_or_make(KEY_FILE, || ApiKey::generate().reveal().to_owned())?;
    let secret = ApiKey::parse(&text).with_context(|| {
        let path = folder.path(KEY_FILE);
        format!(
            "{} does not hold an API key; remove the file, and the stack makes a new API key",
            path.display()
        )
    })?;
    if let Some(key) = api_keys::find(pool, &secret).await? {
        // An earlier release issued the key with the scopes of its time.
        api_keys::add_scopes(pool, key.key_id, &Scope::ALL, clock.now()).await?;
    } else {
        let account = account::create(pool, clock, "demo").await?.account_id;
        if demo_credits > 0 {
            let grant = GrantRequest {
                amount: demo_credits,
                subject: CreditsSubject {
                    account,
                    reason: "demo".to_owned(),
                    idempotency_key: None,
                },
            };
            credits::grant(pool, clock, &grant).await?;
        }
        let request = IssueKey {
            account,
            scopes: Scope::ALL.to_vec(),
            name: "demo".to_owned(),
            expires_at: None,
        };
        key::issue(pool, clock, &request, &secret).await?;
    }
    Ok(secret)
}
