//! Checks of problems that build up slowly: sessions, autovacuum, old snapshots, replication slots,
//! clocks.

use std::time::{Duration, Instant};

use sqlx::PgPool;
use time::OffsetDateTime;

use super::{
    Finding, Severity,
    snapshot::{self, AGE_MAX_S, HeldSnapshots},
};
use linkledger_core::clock::{Clock as _, SystemClock};

/// Difference of the clocks from which on `doctor` warns: ages and times of links are wrong by as much.
const SKEW_WARNED: Duration = Duration::from_secs(1);
/// Difference of the clocks that `doctor` refuses: links expire, and keys end, visibly at the wrong time.
const SKEW_REFUSED: Duration = Duration::from_secs(30);
/// Number of sessions that must stay free for other processes.
const SPARE_SESSIONS: i64 = 5;

/// Runs all checks of upkeep.
///
/// # Errors
/// Returns an error if the server does not answer.
pub async fn look(pool: &PgPool, connections_max: u32) -> sqlx::Result<Vec<Finding>> {
    let mut findings = vec![
        clock(pool).await?,
        sessions(pool, connections_max).await?,
        autovacuum(pool).await?,
        of_snapshots(&snapshot::read(pool).await?),
    ];
    findings.extend(slots(pool).await?);
    findings.push(Finding::new(
        "disk",
        Severity::Unseen,
        "this process writes no files, and the disks of Postgres and Kafka are not visible from here",
        "watch the free space of both there",
    ));
    Ok(findings)
}

async fn clock(pool: &PgPool) -> sqlx::Result<Finding> {
    let asked = Instant::now();
    let server: OffsetDateTime = sqlx::query_scalar("SELECT clock_timestamp()")
        .fetch_one(pool)
        .await?;
    let answered = SystemClock.now();
    // The server read its clock at some moment between question and answer.
    let uncertain = asked.elapsed();
    let skew = (answered - server).unsigned_abs().saturating_sub(uncertain);
    Ok(of_skew(skew))
}

fn of_skew(skew: Duration) -> Finding {
    let is = format!("differs from Postgres's by {} ms", skew.as_millis());
    let remedy = "run NTP on both machines";
    if skew > SKEW_REFUSED {
        Finding::error("clock", is, remedy)
    } else if skew > SKEW_WARNED {
        Finding::new("clock", Severity::Warning, is, remedy)
    } else {
        Finding::ok("clock", is)
    }
}

async fn sessions(pool: &PgPool, connections_max: u32) -> sqlx::Result<Finding> {
    let (allowed, taken): (i64, i64) = sqlx::query_as(
        "SELECT current_setting('max_connections')::bigint
                - current_setting('superuser_reserved_connections')::bigint AS allowed,
                (SELECT coalesce(sum(numbackends), 0)::bigint FROM pg_stat_database) AS taken",
    )
    .fetch_one(pool)
    .await?;
    let own = i64::from(connections_max);
    let is = format!("{taken} of {allowed} in use; a process like this one takes up to {own}");
    let remedy = "raise max_connections, or run fewer processes";
    Ok(if own > allowed {
        Finding::error("sessions", is, remedy)
    } else if taken + own + SPARE_SESSIONS > allowed {
        Finding::new("sessions", Severity::Warning, is, remedy)
    } else {
        Finding::ok("sessions", is)
    })
}

async fn autovacuum(pool: &PgPool) -> sqlx::Result<Finding> {
    let check = "autovacuum";
    let is_on: bool = sqlx::query_scalar(
        "SELECT current_setting('autovacuum')::bool AND current_setting('track_counts')::bool",
    )
    .fetch_one(pool)
    .await?;
    if !is_on {
        let remedy = "ALTER SYSTEM SET autovacuum = on, and track_counts: appends get slow within \
                      minutes";
        return Ok(Finding::error(check, "off", remedy));
    }
    let without: Vec<String> = sqlx::query_scalar(
        "SELECT oid::regclass::text FROM pg_class
         WHERE relnamespace IN (SELECT oid FROM pg_namespace
                                WHERE nspname IN ('event_store', 'read_model'))
           AND reloptions && ARRAY['autovacuum_enabled=false', 'autovacuum_enabled=off']
         ORDER BY 1",
    )
    .fetch_all(pool)
    .await?;
    let Some(first) = without.first() else {
        return Ok(Finding::ok(check, "on, for every table"));
    };
    let remedy = format!("ALTER TABLE {first} RESET (autovacuum_enabled)");
    let is = format!("off for {}", without.join(", "));
    Ok(Finding::error(check, is, remedy))
}

fn of_snapshots(snapshots: &HeldSnapshots) -> Finding {
    let check = "oldest snapshot";
    let Some(oldest) = &snapshots.oldest else {
        return if snapshots.is_complete {
            Finding::ok(check, "none is held")
        } else {
            let is = "none held by this role; sessions of other roles are not visible";
            let remedy = "GRANT pg_read_all_stats to this role";
            Finding::new(check, Severity::Unseen, is, remedy)
        };
    };
    let holder = oldest.pid.map_or_else(
        || "a prepared transaction".to_owned(),
        |pid| format!("process {pid}"),
    );
    let is = format!(
        "held for {:.0} s by {holder} ({}, {})",
        oldest.age_seconds, oldest.user, oldest.application_name
    );
    if oldest.age_seconds > AGE_MAX_S {
        let remedy = "end it (pg_terminate_backend, ROLLBACK PREPARED): appends get slower as long \
                      as it lasts";
        Finding::new(check, Severity::Warning, is, remedy)
    } else {
        Finding::ok(check, is)
    }
}

async fn slots(pool: &PgPool) -> sqlx::Result<Vec<Finding>> {
    let check = "replication slots";
    let slots: Vec<(String, bool, Option<i64>)> = sqlx::query_as(
        "SELECT slot_name::text AS name, active,
                (pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn()
                                      ELSE pg_current_wal_lsn() END,
                                 restart_lsn) / 1048576)::bigint AS held_mib
         FROM pg_replication_slots ORDER BY 3 DESC NULLS LAST, 1",
    )
    .fetch_all(pool)
    .await?;
    if slots.is_empty() {
        return Ok(vec![Finding::ok(check, "there are none")]);
    }
    let findings = slots.into_iter().map(|(name, is_active, held_mib)| {
        let is = format!("{name} holds {} MiB of WAL", held_mib.unwrap_or(0));
        if is_active {
            return Finding::ok(check, is);
        }
        let is = format!("{is}, and has no reader");
        let remedy = format!(
            "start its reader, or SELECT pg_drop_replication_slot('{name}'): the disk fills"
        );
        Finding::new(check, Severity::Warning, is, remedy)
    });
    Ok(findings.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_skew_is_warned_of_then_refused() {
        for (milliseconds, verdict) in [
            (0, Severity::Ok),
            (1_000, Severity::Ok),
            (1_001, Severity::Warning),
            (30_000, Severity::Warning),
            (30_001, Severity::Error),
            (7_200_000, Severity::Error),
        ] {
            let finding = of_skew(Duration::from_millis(milliseconds));
            assert_eq!(finding.verdict, verdict, "{milliseconds} ms");
        }
    }
}
