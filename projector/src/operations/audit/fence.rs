//! What a command may do only while it holds its lease, in the transaction that does it.

use std::future::Future;

use anyhow::{Context as _, bail};
use sqlx::PgConnection;

use super::{LeaseLost, table};

tokio::task_local! {
    /// The rows of the command that the task works for.
    static HELD: Vec<i64>;
}

/// Does the work of the command that has these rows.
pub(super) async fn run_under<T>(ids: &[i64], work: impl Future<Output = T>) -> T {
    HELD.scope(ids.to_vec(), work).await
}

/// Makes sure that the command which this task works for holds its lease, and that nobody takes it
/// before the end of the transaction. Work that no command has begun has nothing to hold.
///
/// # Errors
/// [`LeaseLost`]; or when the database does not answer.
pub async fn ensure_held_in_tx(tx: &mut PgConnection) -> anyhow::Result<()> {
    let Ok(ids) = HELD.try_with(Clone::clone) else {
        return Ok(());
    };
    let is_held = table::lock_held_in_tx(tx, &ids)
        .await
        .context("can't read the lease of the command")?;
    if !is_held {
        bail!(LeaseLost);
    }
    Ok(())
}
