//! What the log wants in `read_model.links` and `read_model.redirects`.
//!
//! The last event of a link tells in its metadata, which the deciding side wrote, what the link is
//! after it; the projections read payloads instead. Where an operator has had an event of the
//! account skipped, the payloads of the others say what is left.

use anyhow::Context as _;

use crate::read_models::{
    comparison::{Comparison, compare},
    snapshot::{Bucket, Snapshot},
};

/// Of the links whose last event that counts is in the bucket: `wanted (account_id, link_id, slug,
/// destination_url, state, version, created_at)`.
macro_rules! wanted_links {
    ($finish:ident, $snapshot:expr, $bucket:expr, $compared:literal) => {
        $finish!(
            "happened AS MATERIALIZED (
                SELECT DISTINCT ON (e.stream_id) e.*
                FROM (
                    SELECT *, least($6, (
                        SELECT position - 1 FROM read_model.parked_events AS w
                        WHERE w.account_id = e.account_id AND w.projection = $1
                          AND w.generation = $2
                        ORDER BY position
                        LIMIT 1
                    )) AS applied_up_to
                    FROM event_store.events AS e
                    WHERE shard = $3 AND position BETWEEN $4 AND $5 AND stream_id <> account_id
                ) AS e
                WHERE e.position <= e.applied_up_to AND NOT EXISTS (
                    SELECT FROM read_model.skipped_events AS s
                    WHERE s.projection = $1 AND s.shard = $3 AND s.position = e.position
                      AND s.event_id = e.event_id
                )
                ORDER BY e.stream_id, e.version DESC
            ), latest AS MATERIALIZED (
                SELECT h.*, EXISTS (
                    SELECT FROM read_model.skipped_events AS s
                    WHERE s.account_id = h.account_id AND s.projection = $1
                ) AS is_incomplete
                FROM happened AS h
                LEFT JOIN LATERAL (
                    SELECT e.position FROM event_store.events AS e
                    WHERE e.shard = $3 AND e.stream_id = h.stream_id AND e.version > h.version
                      AND NOT EXISTS (
                          SELECT FROM read_model.skipped_events AS s
                          WHERE s.projection = $1 AND s.shard = $3 AND s.position = e.position
                            AND s.event_id = e.event_id
                      )
                    ORDER BY e.version
                    LIMIT 1
                ) AS next ON true
                WHERE next.position IS NULL OR next.position > h.applied_up_to
            ), wanted AS MATERIALIZED (
                SELECT l.account_id, l.stream_id AS link_id, l.version, first.slug,
                       first.created_at,
                       CASE WHEN l.version = 1 THEN l.payload->>'destination_url'
                            WHEN l.is_incomplete THEN left_over.destination_url
                            ELSE l.metadata#>>'{link,destination_url}'
                       END AS destination_url,
                       CASE WHEN l.type = 'LinkDeleted' THEN 'deleted'
                            WHEN l.version > 1 AND NOT l.is_incomplete
                                 AND (l.metadata#>>'{link,disabled}')::boolean THEN 'disabled'
                            WHEN l.is_incomplete AND left_over.is_disabled THEN 'disabled'
                            ELSE 'active'
                       END AS state
                FROM latest AS l
                CROSS JOIN LATERAL (
                    SELECT l.payload->>'slug' AS slug, l.recorded_at AS created_at
                    WHERE l.version = 1
                    UNION ALL
                    SELECT e.payload->>'slug', e.recorded_at
                    FROM event_store.events AS e
                    WHERE e.shard = $3 AND e.stream_id = l.stream_id AND e.version = 1
                      AND l.version > 1 AND NOT EXISTS (
                          SELECT FROM read_model.skipped_events AS s
                          WHERE s.projection = $1 AND s.shard = $3 AND s.position = e.position
                            AND s.event_id = e.event_id
                      )
                ) AS first
                LEFT JOIN LATERAL (
                    SELECT (array_agg(e.payload->>'destination_url' ORDER BY e.version DESC)
                                FILTER (WHERE e.type IN ('LinkCreated', 'LinkDestinationChanged'))
                           )[1] AS destination_url,
                           (array_agg(e.type = 'LinkDisabled' ORDER BY e.version DESC)
                                FILTER (WHERE e.type IN ('LinkDisabled', 'LinkEnabled'))
                           )[1] AS is_disabled
                    FROM event_store.events AS e
                    WHERE e.shard = $3 AND e.stream_id = l.stream_id AND e.version <= l.version
                      AND NOT EXISTS (
                          SELECT FROM read_model.skipped_events AS s
                          WHERE s.projection = $1 AND s.shard = $3 AND s.position = e.position
                            AND s.event_id = e.event_id
                      )
                ) AS left_over ON l.is_incomplete
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

/// A deleted link is wanted no more.
macro_rules! links {
    ($finish:ident, $snapshot:expr, $bucket:expr) => {
        wanted_links!(
            $finish,
            $snapshot,
            $bucket,
            "compared AS MATERIALIZED (
                SELECT w.account_id, w.link_id AS row_id, w.slug, w.destination_url, w.version,
                       w.created_at,
                       CASE WHEN w.state <> 'deleted' THEN hash_record_extended(ROW(
                           w.slug, w.destination_url, w.version, w.created_at
                       ), 0) END AS wanted,
                       CASE WHEN r.link_id IS NOT NULL THEN hash_record_extended(ROW(
                           r.slug, r.destination_url, r.version, r.created_at
                       ), 0) END AS found,
                       concat_ws(', ',
                           CASE WHEN r.slug IS DISTINCT FROM w.slug THEN 'slug' END,
                           CASE WHEN r.destination_url IS DISTINCT FROM w.destination_url
                                THEN 'destination_url' END,
                           CASE WHEN r.version IS DISTINCT FROM w.version THEN 'version' END,
                           CASE WHEN r.created_at IS DISTINCT FROM w.created_at
                                THEN 'created_at' END
                       ) AS columns
                FROM wanted AS w
                LEFT JOIN read_model.links AS r
                    ON r.generation = $2 AND r.account_id = w.account_id AND r.link_id = w.link_id
            )"
        )
    };
}

/// A deleted link is remembered by its slug.
macro_rules! redirects {
    ($finish:ident, $snapshot:expr, $bucket:expr) => {
        wanted_links!(
            $finish,
            $snapshot,
            $bucket,
            r#"compared AS MATERIALIZED (
                SELECT w.account_id, w.link_id AS row_id, w.destination_url, w.state,
                       lower(w.slug COLLATE "C") AS slug_folded,
                       hash_record_extended(ROW(
                           w.link_id, w.account_id, w.destination_url, w.state
                       ), 0) AS wanted,
                       CASE WHEN r.link_id IS NOT NULL THEN hash_record_extended(ROW(
                           r.link_id, r.account_id, r.destination_url, r.state
                       ), 0) END AS found,
                       concat_ws(', ',
                           CASE WHEN r.link_id <> w.link_id THEN 'link_id' END,
                           CASE WHEN r.account_id <> w.account_id THEN 'account_id' END,
                           CASE WHEN r.destination_url IS DISTINCT FROM w.destination_url
                                THEN 'destination_url' END,
                           CASE WHEN r.state <> w.state THEN 'state' END
                       ) AS columns
                FROM wanted AS w
                LEFT JOIN read_model.redirects AS r
                    ON r.generation = $2 AND r.slug_folded = lower(w.slug COLLATE "C")
            )"#
        )
    };
}

pub(super) async fn compare_links(
    snapshot: &mut Snapshot,
    bucket: Bucket,
) -> anyhow::Result<Comparison> {
    let rows = links!(compare, snapshot, bucket).fetch_all(&mut *snapshot.tx);
    Ok(rows.await.context("can't compare links")?.into())
}

pub(super) async fn compare_redirects(
    snapshot: &mut Snapshot,
    bucket: Bucket,
) -> anyhow::Result<Comparison> {
    let rows = redirects!(compare, snapshot, bucket).fetch_all(&mut *snapshot.tx);
    Ok(rows.await.context("can't compare redirects")?.into())
}

/// Writes the rows of a bucket that are wrong; how many there were.
pub(super) async fn repair_links(snapshot: &mut Snapshot, bucket: Bucket) -> sqlx::Result<u64> {
    macro_rules! write {
        ($($part:literal)+, $($argument:expr),+) => {
            sqlx::query_scalar!(
                "WITH " $(+ $part)+ + r#", put AS (
                    INSERT INTO read_model.links
                        (generation, account_id, link_id, slug, destination_url, version,
                         created_at)
                    SELECT $2, account_id, row_id, slug, destination_url, version, created_at
                    FROM compared WHERE wanted IS NOT NULL AND wanted IS DISTINCT FROM found
                    ON CONFLICT (generation, account_id, link_id) DO UPDATE
                    SET slug = excluded.slug, destination_url = excluded.destination_url,
                        version = excluded.version, created_at = excluded.created_at
                    RETURNING 1
                ), gone AS (
                    DELETE FROM read_model.links AS r
                    USING compared AS c
                    WHERE c.wanted IS NULL AND c.found IS NOT NULL AND r.generation = $2
                      AND r.account_id = c.account_id AND r.link_id = c.row_id
                    RETURNING 1
                )
                SELECT (SELECT count(*) FROM put) + (SELECT count(*) FROM gone) AS "rows!""#,
                $($argument),+
            )
        };
    }
    let rows = links!(write, snapshot, bucket).fetch_one(&mut *snapshot.tx);
    Ok(rows.await?.unsigned_abs())
}

/// Writes the rows of a bucket that are wrong; their slugs.
pub(super) async fn repair_redirects(
    snapshot: &mut Snapshot,
    bucket: Bucket,
) -> sqlx::Result<Vec<String>> {
    macro_rules! write {
        ($($part:literal)+, $($argument:expr),+) => {
            sqlx::query_scalar!(
                "WITH " $(+ $part)+ + r"
                INSERT INTO read_model.redirects
                    (generation, slug_folded, link_id, account_id, destination_url, state)
                SELECT $2, slug_folded, row_id, account_id, destination_url, state
                FROM compared WHERE wanted IS DISTINCT FROM found
                ORDER BY slug_folded
                ON CONFLICT (generation, slug_folded) DO UPDATE
                SET link_id = excluded.link_id, account_id = excluded.account_id,
                    destination_url = excluded.destination_url, state = excluded.state
                RETURNING slug_folded",
                $($argument),+
            )
        };
    }
    redirects!(write, snapshot, bucket)
        .fetch_all(&mut *snapshot.tx)
        .await
}
