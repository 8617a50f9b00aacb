//! The baseline of creates: pgbench writes the rows that creates write.
//!
//! Tables, indexes, constraints and session settings are those of the service, and each create
//! takes the same steps with the same order of locks. Nothing is parsed, decided, answered, relayed
//! or projected. Ids and payloads cost as little as possible: an id in a payload only has the right
//! width, so `log verify` does not accept these rows.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use crate::{
    accounts::LoadAccount,
    pgbench::{self, PgbenchScript},
};

/// Number of creates in one statement of [`many_at_once_per_second`]; each create is of another
/// account.
pub const CREATES_AT_ONCE: u32 = 100;

const SETUP: &str = include_str!("create_baseline/setup.sql");
const ONE: &str = include_str!("create_baseline/one.sql");
const MANY: &str = include_str!("create_baseline/many.sql");

/// Measures creates per second, with one create in each transaction.
///
/// # Errors
/// Returns an error if the database was used by this function before, or if pgbench fails.
pub async fn one_by_one_per_second(
    url: &str,
    accounts: &[LoadAccount],
    clients: u32,
    duration: Duration,
) -> anyhow::Result<f64> {
    number(url, accounts).await?;
    let script = PgbenchScript {
        text: ONE,
        clients,
        variables: &[
            ("accounts", i64::try_from(accounts.len())?),
            ("clients", clients.into()),
            ("turn", 0),
        ],
    };
    pgbench::transactions_per_second(url, script, duration).await
}

/// Measures creates per second of one client, with [`CREATES_AT_ONCE`] creates in each statement.
///
/// # Errors
/// Returns an error if there are fewer accounts than that, if the database was used before, or if
/// pgbench fails.
pub async fn many_at_once_per_second(
    url: &str,
    accounts: &[LoadAccount],
    duration: Duration,
) -> anyhow::Result<f64> {
    ensure!(
        accounts.len() >= CREATES_AT_ONCE as usize,
        "a statement creates one link in each of {CREATES_AT_ONCE} accounts; there are {}",
        accounts.len()
    );
    number(url, accounts).await?;
    let script = PgbenchScript {
        text: MANY,
        clients: 1,
        variables: &[
            ("accounts", i64::try_from(accounts.len())?),
            ("creates", CREATES_AT_ONCE.into()),
            ("turn", 0),
        ],
    };
    let statements = pgbench::transactions_per_second(url, script, duration).await?;
    Ok(statements * f64::from(CREATES_AT_ONCE))
}

/// Adds the objects that the scripts need beside the tables of the service, above all accounts by
/// number.
async fn number(url: &str, accounts: &[LoadAccount]) -> anyhow::Result<()> {
    let mut connection = PgConnection::connect(url).await?;
    sqlx::raw_sql(SETUP).execute(&mut connection).await?;
    let ids: Vec<Uuid> = accounts.iter().map(|it| it.account_id.uuid()).collect();
    let texts: Vec<String> = accounts
        .iter()
        .map(|it| it.account_id.to_string())
        .collect();
    sqlx::query(
        "
        INSERT INTO bench.accounts (number, account_id, text)
        SELECT nth - 1, account_id, text
        FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS a (account_id, text, nth)
        ",
    )
    .bind(&ids)
    .bind(&texts)
    .execute(&mut connection)
    .await
    .context("can't number the accounts")?;
    Ok(connection.close().await?)
}
