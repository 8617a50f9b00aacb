//! Waits until no process can publish any more, before a refill.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use linkledger_core::timestamp;
use sqlx::PgPool;

use crate::relay::producers::{self, RegisteredProducer};

/// Time in which relays close their producers after publishing was paused.
const SILENCE_WAIT: Duration = Duration::from_secs(15);
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Checks that no process of `ended` has the lease: such a process is alive.
///
/// # Errors
/// Returns an error if a process has the lease, or the database does not answer.
pub(super) async fn check_ended(pool: &PgPool, ended: &[String]) -> anyhow::Result<()> {
    let running = sqlx::query_scalar!(
        r#"SELECT owner AS "owner!" FROM event_store.relay_cursors
           WHERE owner = ANY($1) AND lease_expires_at > now() ORDER BY shard LIMIT 1"#,
        ended
    )
    .fetch_optional(pool)
    .await
    .context("cannot read the lease")?;
    if let Some(owner) = running {
        bail!(
            "{owner} has not ended: it had leases within the last three seconds; nothing was \
             changed. Refill without --ended {owner}, which waits for it"
        );
    }
    Ok(())
}

/// Waits until no process has the lease or a registered producer, except the processes of `ended`.
/// Returns the fencing epoch of each cursor.
///
/// # Errors
/// Returns an error if a process may still publish after [`SILENCE_WAIT`].
pub(super) async fn wait(pool: &PgPool, ended: &[String]) -> anyhow::Result<Vec<i64>> {
    let begun = Instant::now();
    loop {
        let registered = producers::list(pool, ended).await?;
        let leases = sqlx::query!(
            r#"SELECT lease_epoch, owner,
                      coalesce(lease_expires_at > now(), false) AS "is_held!"
               FROM event_store.relay_cursors ORDER BY shard"#
        )
        .fetch_all(pool)
        .await
        .context("cannot read the lease")?;
        let unexpired = leases.iter().find(|lease| lease.is_held);
        if registered.is_empty() && unexpired.is_none() {
            return Ok(leases.iter().map(|lease| lease.lease_epoch).collect());
        }
        if begun.elapsed() >= SILENCE_WAIT {
            if let Some(producer) = registered
                .iter()
                .min_by_key(|producer| producer.settles_at.is_some())
            {
                bail!("{}", still_publishing(producer));
            }
            let owner = unexpired.and_then(|lease| lease.owner.as_deref());
            bail!(
                "{} goes on although publishing is paused: is it of an earlier release? Stop it, \
                 then refill",
                owner.unwrap_or_default()
            );
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

fn still_publishing(producer: &RegisteredProducer) -> String {
    let owner = &producer.owner;
    match producer.settles_at {
        Some(settles_at) => format!(
            "a producer of {owner} has ended, perhaps while requests were unanswered; they may \
             arrive until {}; nothing was changed. Refill then",
            timestamp::format(settles_at)
        ),
        None => format!(
            "{owner} does not say that its producer has ended, and may still publish later events; \
             nothing was changed. If this process is started again, refill five minutes later. \
             Else make sure that it has ended, wait five minutes for its connections, and refill \
             with --ended '{owner}'"
        ),
    }
}
