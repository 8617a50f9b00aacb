//! States of links as the log has them, for the expected rows of `read_model.links` and
//! `read_model.redirects`.
//!
//! The metadata of the last event of a link holds the state of the link after the event, written by
//! the command side; the projections read payloads instead. Where an operator has skipped an event
//! of the account, the payloads of the remaining events say what is left.

use crate::read_models::description::{APPLIED_UP_TO, FIRST_WAITING, NOT_SKIPPED};

/// Names of the details, in payloads and in states.
const DETAILS: [&str; 5] = ["title", "external_id", "tags", "expires_at", "expired_url"];

/// Returns common table expressions that end with `link_states`: the state of each link whose last
/// applied event is in the bucket. Its column `created` is the payload of the link's `LinkCreated`,
/// `details` an object with the details, or NULL if the link never had any.
pub(crate) fn link_states() -> String {
    let details = left_over_details();
    format!(
        "happened AS MATERIALIZED (
            SELECT DISTINCT ON (e.stream_id) e.*, {APPLIED_UP_TO} AS applied_up_to
            FROM event_store.events AS e
            {FIRST_WAITING}
            WHERE e.shard = $7 AND e.position BETWEEN $9 AND $10 AND e.stream_id <> e.account_id
              AND e.position <= {APPLIED_UP_TO} AND {NOT_SKIPPED}
            ORDER BY e.stream_id, e.version DESC
        ), latest AS MATERIALIZED (
            SELECT h.*, EXISTS (
                SELECT FROM skipped AS s WHERE s.account_id = h.account_id
            ) AS is_incomplete
            FROM happened AS h
            LEFT JOIN LATERAL (
                SELECT e.position FROM event_store.events AS e
                WHERE e.shard = $7 AND e.stream_id = h.stream_id AND e.version > h.version
                  AND {NOT_SKIPPED}
                ORDER BY e.version
                LIMIT 1
            ) AS next ON true
            WHERE next.position IS NULL OR next.position > h.applied_up_to
        ), states AS MATERIALIZED (
            SELECT l.account_id, l.stream_id AS link_id, l.version, first.created,
                   first.created_at,
                   CASE WHEN l.version = 1 THEN l.payload->>'destination_url'
                        WHEN l.is_incomplete THEN left_over.destination_url
                        ELSE l.metadata#>>'{{link,destination_url}}'
                   END AS destination_url,
                   l.type = 'LinkDeleted' AS is_deleted,
                   CASE WHEN l.version = 1 THEN NULL
                        WHEN l.is_incomplete THEN left_over.disabled_by
                        WHEN (l.metadata#>>'{{link,disabled}}')::boolean THEN 'operator'
                        WHEN (l.metadata#>>'{{link,disabled_by_owner}}')::boolean THEN 'owner'
                   END AS disabled_by,
                   CASE WHEN l.version = 1 THEN l.payload
                        WHEN l.is_incomplete THEN left_over.details
                        ELSE l.metadata#>'{{link,details}}'
                   END AS details
            FROM latest AS l
            CROSS JOIN LATERAL (
                SELECT l.payload AS created, l.recorded_at AS created_at
                WHERE l.version = 1
                UNION ALL
                SELECT e.payload, e.recorded_at
                FROM event_store.events AS e
                WHERE e.shard = $7 AND e.stream_id = l.stream_id AND e.version = 1
                  AND l.version > 1 AND {NOT_SKIPPED}
            ) AS first
            LEFT JOIN LATERAL (
                SELECT (array_agg(e.payload->>'destination_url' ORDER BY e.version DESC)
                            FILTER (WHERE e.type IN ('LinkCreated', 'LinkDestinationChanged'))
                       )[1] AS destination_url,
                       {LEFT_OVER_DISABLED_BY} AS disabled_by,
                       json_build_object({details}) AS details
                FROM event_store.events AS e
                WHERE e.shard = $7 AND e.stream_id = l.stream_id AND e.version <= l.version
                  AND {NOT_SKIPPED}
            ) AS left_over ON l.is_incomplete
        ), link_states AS MATERIALIZED (
            SELECT states.*,
                   CASE WHEN is_deleted THEN 'deleted' WHEN disabled_by IS NULL THEN 'active'
                        ELSE 'disabled' END AS state,
                   (details->>'expires_at')::timestamptz AS expires_at,
                   details->>'expired_url' AS expired_url
            FROM states
        )"
    )
}

/// Role that the link is disabled by after its events `e`.
const LEFT_OVER_DISABLED_BY: &str = "(
    array_agg(e.payload->>'disabled_by' ORDER BY e.version DESC)
        FILTER (WHERE e.type IN ('LinkDisabled', 'LinkEnabled'))
)[1]";

/// Returns names and values of the details that the events `e` of a link come to.
fn left_over_details() -> String {
    let detail = |name: &str| {
        format!(
            "'{name}', (
                array_agg(CASE e.type WHEN 'LinkCreated' THEN e.payload->'{name}'
                                      ELSE e.payload#>'{{changes,{name},to}}'
                          END ORDER BY e.version DESC)
                    FILTER (WHERE e.type = 'LinkCreated'
                               OR e.type = 'LinkDetailsChanged'
                                  AND e.payload#>'{{changes,{name}}}' IS NOT NULL)
            )[1]"
        )
    };
    DETAILS.map(detail).join(", ")
}

/// Returns the query of the positions of a link's events up to the expected version.
pub(crate) fn events_of_link() -> String {
    format!(
        "SELECT e.position FROM event_store.events AS e
         WHERE e.shard = $7 AND e.stream_id = wrong.row_id AND e.version <= wrong.version
           AND {NOT_SKIPPED}"
    )
}
