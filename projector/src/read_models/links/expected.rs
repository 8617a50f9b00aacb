//! States of links as the log has them, for the expected rows of `read_model.links`,
//! `read_model.link_tags` and `read_model.redirects`: the state after the last applied event of each link.

use crate::read_models::description::{
    APPLIED_UP_TO, FIRST_WAITING, NOT_SKIPPED, first_waiting_position,
};

/// State of a link after its event `e`, as a JSON object: the payload of a creation, which has the same
/// members but the time, or the state that the command side keeps in the metadata.
const STATE_AFTER: &str =
    "CASE e.type WHEN 'LinkCreated' THEN e.payload ELSE e.metadata->'link' END";

/// Details of a link after its event `e`: members of the payload of a creation, an object of a state.
const DETAILS_AFTER: &str =
    "CASE e.type WHEN 'LinkCreated' THEN e.payload ELSE e.metadata#>'{link,details}' END";

/// Returns common table expressions that end with `link_states`: the state of each link whose last
/// applied event is one of the compared ones.
pub(crate) fn link_states(events: &str) -> String {
    format!(
        "happened AS MATERIALIZED (
            SELECT DISTINCT ON (e.stream_id) e.*, {APPLIED_UP_TO} AS applied_up_to
            FROM {events}
            {FIRST_WAITING}
            WHERE e.stream_id <> e.account_id
              AND e.position <= {APPLIED_UP_TO} AND {NOT_SKIPPED}
            ORDER BY e.stream_id, e.version DESC
        ), latest AS MATERIALIZED (
            SELECT h.*
            FROM happened AS h
            LEFT JOIN LATERAL (
                SELECT e.position FROM event_store.events AS e
                WHERE e.shard = $6 AND e.stream_id = h.stream_id AND e.version > h.version
                  AND {NOT_SKIPPED}
                ORDER BY e.version
                LIMIT 1
            ) AS next ON true
            WHERE next.position IS NULL OR next.position > h.applied_up_to
        ), link_states AS MATERIALIZED (
            SELECT e.account_id, e.stream_id AS link_id, e.version, e.position,
                   link.state->>'slug' AS slug,
                   CASE e.type WHEN 'LinkCreated' THEN e.recorded_at
                               ELSE (link.state->>'created_at')::timestamptz END AS created_at,
                   link.state->>'destination_url' AS destination_url,
                   coalesce((link.state->>'deleted')::boolean, false) AS is_deleted,
                   CASE WHEN (link.state->>'disabled_by_operator')::boolean THEN 'operator'
                        WHEN (link.state->>'disabled_by_owner')::boolean THEN 'owner'
                   END AS disabled_by,
                   link.details->>'title' AS title, link.details->>'external_id' AS external_id,
                   CASE WHEN json_typeof(link.details->'tags') = 'array' THEN ARRAY(
                       SELECT json_array_elements_text(link.details->'tags')
                   ) END AS tags,
                   (link.details->>'expires_at')::timestamptz AS expires_at,
                   link.details->>'expired_url' AS expired_url
            FROM latest AS e
            CROSS JOIN LATERAL (
                SELECT {STATE_AFTER} AS state, {DETAILS_AFTER} AS details
            ) AS link
        )"
    )
}

/// Returns the query of the position of the row's last event.
pub(crate) fn last_event() -> String {
    "SELECT wrong.position WHERE wrong.position IS NOT NULL".to_owned()
}

/// Returns the condition that the event `e` is the last applied one of the link of the row `page`, and
/// leaves the tag of the row to the link.
pub(super) fn leaves_tag() -> String {
    let first_waiting = first_waiting_position("page.account_id");
    format!(
        "e.stream_id = page.link_id AND e.account_id = page.account_id
         AND e.version = (
             SELECT last.version
             FROM event_store.events AS last
             WHERE last.shard = owner.shard AND last.stream_id = page.link_id
               AND last.position <= least(($6::bigint[])[owner.shard + 1], {first_waiting} - 1)
               AND NOT EXISTS (
                   SELECT FROM skipped AS s
                   WHERE s.shard = last.shard AND s.position = last.position
                     AND s.event_id = last.event_id
               )
             ORDER BY last.version DESC
             LIMIT 1
         )
         AND coalesce((({STATE_AFTER})->>'deleted')::boolean, false) = false
         AND page.tag IN (
             SELECT json_array_elements_text(
                 CASE json_typeof(tags) WHEN 'array' THEN tags ELSE '[]' END
             )
             FROM (SELECT ({DETAILS_AFTER})->'tags' AS tags) AS given
         )"
    )
}
