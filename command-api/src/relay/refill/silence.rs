//! Waits until no process can publish any more, before a refill.

use std::time::{Duration, Instant};

use anyhow::bail;
use linkledger_core::{event_store::log::PerShard, timestamp};
use sqlx::PgPool;

use crate::relay::{
    cursor,
    producers::{self, RegisteredProducer},
};

/// Time in which relays close their producers after publishing was paused.
const SILENCE_WAIT: Duration = Duration::from_secs(15);
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Checks that no process of `ended` has the lease: such a process is alive.
///
/// # Errors
/// Returns an error if a process has the lease, or the database fails.
pub(super) async fn check_ended(pool: &PgPool, ended: &[String]) -> anyhow::Result<()> {
    let cursors = cursor::read(pool).await?;
    let leased = cursors.iter().filter(|cursor| cursor.lease_s.is_some());
    let mut owners = leased.filter_map(|cursor| cursor.owner.as_ref());
    let running = owners.find(|owner| ended.contains(owner));
    if let Some(owner) = running {
        bail!(
            "{owner} has not ended: it had the lease within the last three seconds; nothing was \
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
pub(super) async fn wait(pool: &PgPool, ended: &[String]) -> anyhow::Result<PerShard<i64>> {
    let begun = Instant::now();
    loop {
        let registered = producers::list(pool, ended).await?;
        let cursors = cursor::read(pool).await?;
        let leased = cursors.iter().find(|cursor| cursor.lease_s.is_some());
        if registered.is_empty() && leased.is_none() {
            return Ok(cursors.map(|cursor| cursor.lease_epoch));
        }
        if begun.elapsed() >= SILENCE_WAIT {
            if let Some(producer) = registered
                .iter()
                .min_by_key(|producer| producer.settles_at.is_some())
            {
                bail!("{}", still_publishing(producer));
            }
            let owner = leased.and_then(|cursor| cursor.owner.as_deref());
            bail!(
                "{} keeps the lease although publishing is paused: stop it, then refill",
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
