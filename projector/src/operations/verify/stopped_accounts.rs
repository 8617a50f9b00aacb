//! What the log wants in `read_model.stopped_accounts`.
//!
//! The events that stop and release accounts are rare, and far between in the streams of accounts:
//! they are collected on the way through the log, and what they come to is compared at its end. Each
//! is an operator's decision: there are thousands of them at most.

use anyhow::Context as _;
use linkledger_core::shard::Position;
use uuid::Uuid;

use crate::read_models::{
    comparison::{Comparison, compare},
    snapshot::{Bucket, Snapshot},
};

/// Of one shard, in the order of the log; column by column, as `unnest` takes them. They stay in
/// memory: 41 bytes for each time that an operator has suspended or resumed an account.
#[derive(Debug, Default)]
pub(super) struct StatusEvents {
    account_ids: Vec<Uuid>,
    event_ids: Vec<Uuid>,
    positions: Vec<Position>,
    /// Whether the account's links may not be followed afterwards.
    stops: Vec<bool>,
}

/// What the events come to, of those that count, beside what is there. Accounts that there are not
/// belong to the first shard, so that somebody looks at them.
macro_rules! stopped {
    ($finish:ident, $events:expr, $snapshot:expr) => {
        $finish!(
            "latest AS MATERIALIZED (
                SELECT DISTINCT ON (e.account_id) e.account_id, e.stops
                FROM unnest($4::uuid[], $5::uuid[], $6::bigint[], $7::boolean[])
                    AS e (account_id, event_id, position, stops)
                WHERE e.position <= least($8, (
                    SELECT position - 1 FROM read_model.parked_events AS w
                    WHERE w.account_id = e.account_id AND w.projection = $1 AND w.generation = $2
                    ORDER BY position
                    LIMIT 1
                )) AND NOT EXISTS (
                    SELECT FROM read_model.skipped_events AS s
                    WHERE s.projection = $1 AND s.shard = $3 AND s.position = e.position
                      AND s.event_id = e.event_id
                )
                ORDER BY e.account_id, e.position DESC
            ), there AS MATERIALIZED (
                SELECT s.account_id
                FROM read_model.stopped_accounts AS s
                LEFT JOIN event_store.accounts AS a USING (account_id)
                WHERE s.generation = $2 AND coalesce(a.shard, 0) = $3
            ), compared AS MATERIALIZED (
                SELECT coalesce(w.account_id, t.account_id) AS account_id, NULL::uuid AS row_id,
                       CASE WHEN w.account_id IS NOT NULL THEN 1::bigint END AS wanted,
                       CASE WHEN t.account_id IS NOT NULL THEN 1::bigint END AS found,
                       '' AS columns
                FROM (SELECT account_id FROM latest WHERE stops) AS w
                FULL JOIN there AS t ON t.account_id = w.account_id
            )",
            $snapshot.target.projection.name(),
            $snapshot.target.generation,
            $snapshot.shard.number(),
            &$events.account_ids,
            &$events.event_ids,
            &$events.positions,
            &$events.stops,
            $snapshot.checkpoint
        )
    };
}

impl StatusEvents {
    /// Adds those of a bucket, also such as wait: an account may be released before the end.
    pub(super) async fn read(
        &mut self,
        snapshot: &mut Snapshot,
        bucket: Bucket,
    ) -> anyhow::Result<()> {
        // By its text: one that waits may be no object that could be asked for a member.
        let rows = sqlx::query!(
            r#"
            SELECT account_id, event_id, position,
                   type = 'AccountSuspended'
                       AND payload::text ~ '"stop_redirects"\s*:\s*true' AS "stops!"
            FROM event_store.events
            WHERE shard = $1 AND position BETWEEN $2 AND $3
              AND type IN ('AccountSuspended', 'AccountResumed')
            ORDER BY position
            "#,
            snapshot.shard.number(),
            bucket.first,
            bucket.last
        )
        .fetch_all(&mut *snapshot.tx)
        .await
        .context("can't read who was suspended")?;
        for row in rows {
            self.account_ids.push(row.account_id);
            self.event_ids.push(row.event_id);
            self.positions.push(row.position);
            self.stops.push(row.stops);
        }
        Ok(())
    }

    /// Compares all that the shard has; nothing of it may be missing here.
    pub(super) async fn compare(&self, snapshot: &mut Snapshot) -> anyhow::Result<Comparison> {
        let rows = stopped!(compare, self, snapshot).fetch_all(&mut *snapshot.tx);
        Ok(rows.await.context("can't compare stopped accounts")?.into())
    }

    /// Writes the rows of the shard that are wrong; their accounts.
    pub(super) async fn repair(&self, snapshot: &mut Snapshot) -> sqlx::Result<Vec<Uuid>> {
        macro_rules! write {
            ($($part:literal)+, $($argument:expr),+) => {
                sqlx::query_scalar!(
                    "WITH " $(+ $part)+ + r#", put AS (
                        INSERT INTO read_model.stopped_accounts (generation, account_id)
                        SELECT $2, account_id FROM compared WHERE found IS NULL
                        RETURNING account_id
                    ), gone AS (
                        DELETE FROM read_model.stopped_accounts AS r
                        USING compared AS c
                        WHERE c.wanted IS NULL AND r.generation = $2
                          AND r.account_id = c.account_id
                        RETURNING r.account_id
                    )
                    SELECT account_id AS "account_id!" FROM put
                    UNION ALL SELECT account_id FROM gone"#,
                    $($argument),+
                )
            };
        }
        stopped!(write, self, snapshot)
            .fetch_all(&mut *snapshot.tx)
            .await
    }
}
