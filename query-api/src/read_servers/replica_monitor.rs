//! Checks the replicas once a second: a replica is used while it answers, replays the log of the
//! primary, and does not lag too far behind.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use linkledger_service::metrics::READ_REPLICA_USABLE;
use metrics::gauge;
use sqlx::PgPool;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::Replica;

/// Interval of the checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of the check of one server.
const CHECK_TIME_MAX: Duration = Duration::from_secs(1);
/// Lag above which a replica is skipped: a list may be this old.
const LAG_MAX: Duration = Duration::from_secs(10);
/// Maximum number of remembered positions of the primary's write-ahead log, one for each check.
const WRITTEN_MAX: usize = 60;
/// Age up to which the newest position of the primary counts as its present one.
const CURRENT_FOR: Duration = Duration::from_secs(3);

/// Position in the write-ahead log, in bytes.
type WalPosition = i64;

/// Positions that the primary had written, with the time at which each was read, oldest first.
#[derive(Debug, Default)]
struct WrittenPositions(VecDeque<(Instant, WalPosition)>);

impl WrittenPositions {
    /// Adds a position. A position that falls is one of another timeline, as after a restore: the earlier
    /// positions are forgotten.
    fn add(&mut self, at: Instant, position: WalPosition) {
        if self.0.back().is_some_and(|(_, newest)| *newest > position) {
            self.0.clear();
        }
        if self.0.len() == WRITTEN_MAX {
            self.0.pop_front();
        }
        self.0.push_back((at, position));
    }

    /// Returns the lag of a server that had replayed the log up to `replayed` at `read_at`: the age of the
    /// oldest position beyond it. Without one the age of the newest position, if that one is old: the primary
    /// may have written more since.
    ///
    /// Returns `None` if the primary had written less afterwards: the server has replayed another timeline.
    fn lag(&self, now: Instant, (read_at, replayed): (Instant, WalPosition)) -> Option<Duration> {
        let newest = self.0.back();
        if newest.is_some_and(|(at, written)| *at >= read_at && *written < replayed) {
            return None;
        }
        let beyond = self.0.iter().find(|(_, written)| *written > replayed);
        let newest = newest.filter(|(at, _)| now - *at > CURRENT_FOR);
        let since = beyond.or(newest);
        Some(since.map_or(Duration::ZERO, |(at, _)| now - *at))
    }
}

/// Identifier of the cluster, and name of the database: a replica has the same ones.
type Identity = (i64, String);

/// Checks the replicas.
pub(super) struct ReplicaMonitor {
    primary: PgPool,
    replicas: Arc<[Replica]>,
    written: WrittenPositions,
    identity: Option<Identity>,
}

impl ReplicaMonitor {
    pub(super) fn new(primary: PgPool, replicas: Arc<[Replica]>) -> Self {
        Self {
            primary,
            replicas,
            written: WrittenPositions::default(),
            identity: None,
        }
    }

    /// Checks until the shutdown.
    ///
    /// # Errors
    /// Never returns an error.
    pub(super) async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let mut due = interval(CHECK_INTERVAL);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = due.tick() => {}
                () = shutdown.cancelled() => return Ok(()),
            }
            tokio::select! {
                () = self.check_all() => {}
                () = shutdown.cancelled() => return Ok(()),
            }
        }
    }

    async fn check_all(&mut self) {
        let replicas = Arc::clone(&self.replicas);
        // Read before the primary: a replica of its timeline is then never ahead of its position.
        let read = replicas.iter().map(|replica| async {
            let read_at = Instant::now();
            Ok((read_at, in_time(read_replica(&replica.server.pool)).await?))
        });
        let read = futures::future::join_all(read).await;
        match in_time(read_primary(&self.primary)).await {
            Ok((identity, position)) => {
                self.identity = Some(identity);
                self.written.add(Instant::now(), position);
            }
            Err(error) => tracing::debug!(
                error = format!("{error:#}"),
                "cannot read the position of the primary of the read tables; retrying in 1 s"
            ),
        }
        for (replica, read) in replicas.iter().zip(read) {
            check(replica, read.and_then(|read| self.lag_of(read)));
        }
    }

    fn lag_of(&self, (read_at, replica): (Instant, ReplicaState)) -> anyhow::Result<Duration> {
        let (identity, replayed) = replica;
        let replayed = replayed.context("the server is a primary, not a replica")?;
        ensure!(
            Some(identity) == self.identity,
            "the server is not a replica of the primary of the read tables, or the primary has not \
             answered yet"
        );
        let lag = self.written.lag(Instant::now(), (read_at, replayed));
        lag.context(
            "the replica is ahead of the primary: it has replayed another timeline, as after a restore; \
             make it again from the primary",
        )
    }
}

/// Uses or skips a replica, and logs a change.
fn check(replica: &Replica, checked: anyhow::Result<Duration>) {
    let is_usable = checked.as_ref().is_ok_and(|lag| *lag <= LAG_MAX) && !replica.has_just_failed();
    let name = replica.name.clone();
    gauge!(READ_REPLICA_USABLE, "replica" => name.clone()).set(f64::from(u8::from(is_usable)));
    if replica.is_usable.swap(is_usable, Ordering::Relaxed) == is_usable {
        return;
    }
    match checked {
        Ok(_) if is_usable => tracing::info!(replica = name, "reading from the replica"),
        Ok(lag) => tracing::warn!(
            replica = name,
            ?lag,
            "the replica lags too far behind, or its reads fail; skipping the replica"
        ),
        Err(error) => tracing::warn!(
            replica = name,
            error = format!("{error:#}"),
            "cannot read from the replica; skipping the replica"
        ),
    }
}

async fn in_time<T>(check: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let checked = timeout(CHECK_TIME_MAX, check).await;
    checked.unwrap_or_else(|_| Err(anyhow::anyhow!("the server did not answer within 1 s")))
}

async fn read_primary(pool: &PgPool) -> anyhow::Result<(Identity, WalPosition)> {
    let row = sqlx::query!(
        r#"
        SELECT system_identifier AS "identifier!", current_database()::text AS "database!",
               pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint AS "written!"
        FROM pg_control_system()
        "#
    )
    .fetch_one(pool)
    .await?;
    Ok(((row.identifier, row.database), row.written))
}

/// Identity of the cluster, and the replayed position; `None` for a primary.
type ReplicaState = (Identity, Option<WalPosition>);

async fn read_replica(pool: &PgPool) -> anyhow::Result<ReplicaState> {
    let row = sqlx::query!(
        r#"
        SELECT system_identifier AS "identifier!", current_database()::text AS "database!",
               CASE WHEN pg_is_in_recovery()
                    THEN pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint
               END AS replayed
        FROM pg_control_system()
        "#
    )
    .fetch_one(pool)
    .await?;
    Ok(((row.identifier, row.database), row.replayed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_age_of_oldest_position_not_replayed() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut written = WrittenPositions::default();
        assert_eq!(written.lag(start, (start, 0)), Some(Duration::ZERO));
        for (seconds, position) in [(0, 100), (1, 100), (2, 200), (3, 300)] {
            written.add(at(seconds), position);
        }
        for (replayed, seconds) in [(99, 5), (100, 3), (250, 2), (300, 0), (400, 0)] {
            let lag = written.lag(at(5), (at(5), replayed));
            assert_eq!(lag, Some(Duration::from_secs(seconds)), "{replayed}");
        }
        // The primary has not answered for long.
        let lag = written.lag(at(13), (at(13), 300));
        assert_eq!(lag, Some(Duration::from_secs(10)));
    }

    #[test]
    fn replica_ahead_of_later_position_is_of_another_timeline() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut written = WrittenPositions::default();
        written.add(at(0), 300);
        assert_eq!(written.lag(at(0), (at(0), 400)), None);
        // The primary may have written more after its last answer.
        assert_eq!(written.lag(at(1), (at(1), 400)), Some(Duration::ZERO));
        // The primary is restored: the former position must not count as lag.
        written.add(at(5), 200);
        assert_eq!(written.lag(at(5), (at(5), 200)), Some(Duration::ZERO));
        assert_eq!(written.lag(at(5), (at(5), 300)), None);
    }

    #[test]
    fn positions_of_primary_are_bounded() {
        let start = Instant::now();
        let mut written = WrittenPositions::default();
        for position in 1..=1_000 {
            written.add(start, position);
        }
        assert_eq!(written.0.len(), WRITTEN_MAX);
        assert_eq!(written.0.back(), Some(&(start, 1_000)));
    }
}
