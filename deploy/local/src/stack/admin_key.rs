//! Admin key of the local stack: one per database and data folder, which stays the same.

use anyhow::Context as _;
use linkledger_command_api::admin::admin_key::{self, IssueAdminKey};
use linkledger_core::{
    api_key::{AdminKey, AdminScope},
    clock::Clock,
};
use linkledger_event_store::admin_keys;
use sqlx::PgPool;

use crate::data_folder::DataFolder;

/// Name of the key, and of the operator who issues it.
const NAME: &str = "local stack";
/// Name of the file in the data folder that holds the key.
const FILE: &str = "admin_key";

/// Returns an admin key with all scopes. Issues the key if the database does not have it.
pub(super) async fn admin_key(
    folder: &DataFolder,
    pool: &PgPool,
    clock: &dyn Clock,
) -> anyhow::Result<AdminKey> {
    // The file is written first: the database keeps only a hash.
    let text = folder.read_or_make(FILE, || AdminKey::generate().reveal().to_owned())?;
    let secret = AdminKey::parse(&text).with_context(|| {
        let path = folder.path(FILE);
        format!(
            "{} does not hold an admin key; remove the file, and the stack makes a new admin key",
            path.display()
        )
    })?;
    if admin_keys::find(pool, &secret).await?.is_none() {
        let wanted = IssueAdminKey {
            name: NAME.to_owned(),
            scopes: AdminScope::ALL.to_vec(),
            expires_at: None,
        };
        admin_key::issue(pool, clock, &wanted, &secret, NAME).await?;
    }
    Ok(secret)
}
