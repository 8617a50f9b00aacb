//! `account create`.

use clap::Subcommand;
use linkledger_core::{
    clock::{Clock, new_uuid},
    event_store::accounts,
    id::AccountId,
};
use serde::Serialize;
use sqlx::PgPool;

use super::{Options, parse_text, print};

/// What may be done with accounts.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create an account without credits and keys.
    Create {
        /// What people call it.
        #[arg(long, value_parser = parse_text)]
        name: String,
        #[command(flatten)]
        options: Options,
    },
}

/// An account that was created.
#[derive(Debug, Clone, Serialize)]
pub struct CreatedAccount {
    /// Its id, for the other commands.
    pub account_id: AccountId,
    /// What people call it.
    pub name: String,
}

pub(super) async fn run(command: Command, clock: &dyn Clock) -> anyhow::Result<()> {
    match command {
        Command::Create { name, options } => {
            let account = create(&options.pool().await?, clock, &name).await?;
            let text = format!("Created account {} ({}).", account.account_id, account.name);
            print(&options, &account, &text)
        }
    }
}

/// Creates an account.
///
/// # Errors
/// When the database does not answer.
pub async fn create(
    pool: &PgPool,
    clock: &dyn Clock,
    name: &str,
) -> anyhow::Result<CreatedAccount> {
    let now = clock.now();
    let account_id = AccountId::from_uuid(new_uuid(now));
    accounts::create(pool, account_id, name, now).await?;
    Ok(CreatedAccount {
        account_id,
        name: name.to_owned(),
    })
}
