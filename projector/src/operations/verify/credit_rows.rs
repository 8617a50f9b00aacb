//! What the log wants in `read_model.credit_entries` and `read_model.credit_balances`.

use anyhow::Context as _;

use crate::read_models::{
    comparison::{Comparison, compare},
    snapshot::{Bucket, Snapshot},
};

/// Of the credit events in the bucket that count: `happened`, with `applied_up_to`.
macro_rules! happened {
    ($finish:ident, $snapshot:expr, $bucket:expr, $compared:literal) => {
        $finish!(
            "happened AS MATERIALIZED (
                SELECT e.*
                FROM (
                    SELECT *, least($6, (
                        SELECT position - 1 FROM read_model.parked_events AS w
                        WHERE w.account_id = e.account_id AND w.projection = $1
                          AND w.generation = $2
                        ORDER BY position
                        LIMIT 1
                    )) AS applied_up_to
                    FROM event_store.events AS e
                    WHERE shard = $3 AND position BETWEEN $4 AND $5
                      AND type IN ('CreditsGranted', 'CreditsAdjusted', 'CreditsCharged')
                ) AS e
                WHERE e.position <= e.applied_up_to AND NOT EXISTS (
                    SELECT FROM read_model.skipped_events AS s
                    WHERE s.projection = $1 AND s.shard = $3 AND s.position = e.position
                      AND s.event_id = e.event_id
                )
            ), " $compared,
            $snapshot.target.projection.name(),
            $snapshot.target.generation,
            $snapshot.shard.number(),
            $bucket.first,
            $bucket.last,
            $snapshot.checkpoint
        )
    };
}

/// What a charge is for stands right before it in the log; its payload, by which the projection
/// goes, says the same.
macro_rules! entries {
    ($finish:ident, $snapshot:expr, $bucket:expr) => {
        happened!(
            $finish,
            $snapshot,
            $bucket,
            "wanted AS MATERIALIZED (
                    SELECT h.account_id, h.version, h.event_id AS entry_id,
                           CASE h.type WHEN 'CreditsGranted' THEN 'grant'
                                       WHEN 'CreditsAdjusted' THEN 'adjustment'
                                       WHEN 'CreditsCharged' THEN 'charge' END AS type,
                           CASE h.type WHEN 'CreditsCharged' THEN -(h.payload->>'amount')::bigint
                                       ELSE (h.payload->>'amount')::bigint END AS amount,
                           (h.payload->>'balance_after')::bigint AS balance_after,
                           CASE h.type WHEN 'CreditsCharged' THEN (
                               SELECT stream_id FROM event_store.events
                               WHERE shard = $3 AND position = h.position - 1
                           ) END AS link_id,
                           h.recorded_at AS created_at
                    FROM happened AS h
                ), compared AS MATERIALIZED (
                    SELECT w.*, w.entry_id AS row_id,
                           hash_record_extended(ROW(
                               w.entry_id, w.type, w.amount, w.balance_after, w.link_id, w.created_at
                           ), 0) AS wanted,
                           CASE WHEN r.entry_id IS NOT NULL THEN hash_record_extended(ROW(
                               r.entry_id, r.type, r.amount, r.balance_after, r.link_id, r.created_at
                           ), 0) END AS found,
                           concat_ws(', ',
                               CASE WHEN r.entry_id <> w.entry_id THEN 'entry_id' END,
                               CASE WHEN r.type <> w.type THEN 'type' END,
                               CASE WHEN r.amount IS DISTINCT FROM w.amount THEN 'amount' END,
                               CASE WHEN r.balance_after IS DISTINCT FROM w.balance_after
                                    THEN 'balance_after' END,
                               CASE WHEN r.link_id IS DISTINCT FROM w.link_id THEN 'link_id' END,
                               CASE WHEN r.created_at <> w.created_at THEN 'created_at' END
                           ) AS columns
                    FROM wanted AS w
                    LEFT JOIN read_model.credit_entries AS r
                        ON r.generation = $2 AND r.account_id = w.account_id AND r.version = w.version
                )"
        )
    };
}

/// A balance is what the last credit event of its account says.
macro_rules! balances {
    ($finish:ident, $snapshot:expr, $bucket:expr) => {
        happened!(
            $finish,
            $snapshot,
            $bucket,
            "latest AS MATERIALIZED (
                    SELECT DISTINCT ON (account_id) account_id, version, payload, applied_up_to
                    FROM happened
                    ORDER BY account_id, version DESC
                ), wanted AS MATERIALIZED (
                    SELECT l.account_id, (l.payload->>'balance_after')::bigint AS balance, l.version
                    FROM latest AS l
                    LEFT JOIN LATERAL (
                        SELECT e.position FROM event_store.events AS e
                        WHERE e.shard = $3 AND e.stream_id = l.account_id AND e.version > l.version
                          AND e.type IN ('CreditsGranted', 'CreditsAdjusted', 'CreditsCharged')
                          AND NOT EXISTS (
                              SELECT FROM read_model.skipped_events AS s
                              WHERE s.projection = $1 AND s.shard = $3 AND s.position = e.position
                                AND s.event_id = e.event_id
                          )
                        ORDER BY e.version
                        LIMIT 1
                    ) AS next ON true
                    WHERE next.position IS NULL OR next.position > l.applied_up_to
                ), compared AS MATERIALIZED (
                    SELECT w.*, NULL::uuid AS row_id,
                           hash_record_extended(ROW(w.balance, w.version), 0) AS wanted,
                           CASE WHEN r.account_id IS NOT NULL THEN
                               hash_record_extended(ROW(r.balance, r.version), 0)
                           END AS found,
                           concat_ws(', ',
                               CASE WHEN r.balance IS DISTINCT FROM w.balance THEN 'balance' END,
                               CASE WHEN r.version IS DISTINCT FROM w.version THEN 'version' END
                           ) AS columns
                    FROM wanted AS w
                    LEFT JOIN read_model.credit_balances AS r
                        ON r.generation = $2 AND r.account_id = w.account_id
                )"
        )
    };
}

pub(super) async fn compare_entries(
    snapshot: &mut Snapshot,
    bucket: Bucket,
) -> anyhow::Result<Comparison> {
    let rows = entries!(compare, snapshot, bucket).fetch_all(&mut *snapshot.tx);
    Ok(rows
        .await
        .context("can't compare entries of ledgers")?
        .into())
}

pub(super) async fn compare_balances(
    snapshot: &mut Snapshot,
    bucket: Bucket,
) -> anyhow::Result<Comparison> {
    let rows = balances!(compare, snapshot, bucket).fetch_all(&mut *snapshot.tx);
    Ok(rows.await.context("can't compare balances")?.into())
}

/// Writes the rows of a bucket that are wrong; how many there were.
pub(super) async fn repair_entries(snapshot: &mut Snapshot, bucket: Bucket) -> sqlx::Result<u64> {
    macro_rules! write {
        ($($part:literal)+, $($argument:expr),+) => {
            sqlx::query!(
                "WITH " $(+ $part)+ + r"
                INSERT INTO read_model.credit_entries
                    (generation, account_id, version, entry_id, type, amount, balance_after,
                     link_id, created_at)
                SELECT $2, account_id, version, entry_id, type, amount, balance_after, link_id,
                       created_at
                FROM compared WHERE wanted IS DISTINCT FROM found
                ORDER BY account_id, version
                ON CONFLICT (generation, account_id, version) DO UPDATE
                SET entry_id = excluded.entry_id, type = excluded.type, amount = excluded.amount,
                    balance_after = excluded.balance_after, link_id = excluded.link_id,
                    created_at = excluded.created_at",
                $($argument),+
            )
        };
    }
    let written = entries!(write, snapshot, bucket).execute(&mut *snapshot.tx);
    Ok(written.await?.rows_affected())
}

/// Writes the rows of a bucket that are wrong; how many there were.
pub(super) async fn repair_balances(snapshot: &mut Snapshot, bucket: Bucket) -> sqlx::Result<u64> {
    macro_rules! write {
        ($($part:literal)+, $($argument:expr),+) => {
            sqlx::query!(
                "WITH " $(+ $part)+ + r"
                INSERT INTO read_model.credit_balances (generation, account_id, balance, version)
                SELECT $2, account_id, balance, version
                FROM compared WHERE wanted IS DISTINCT FROM found
                ORDER BY account_id
                ON CONFLICT (generation, account_id) DO UPDATE
                SET balance = excluded.balance, version = excluded.version",
                $($argument),+
            )
        };
    }
    let written = balances!(write, snapshot, bucket).execute(&mut *snapshot.tx);
    Ok(written.await?.rows_affected())
}
