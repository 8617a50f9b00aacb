//! Rows that the log expects in `read_model.redirects` and `read_model.stopped_accounts`.

use crate::read_models::{
    description::{NOT_SKIPPED, applied_up_to},
    links::expected::link_states,
};

/// Returns the expected rows of `redirects`: a deleted link keeps its slug.
pub(super) fn redirects() -> String {
    let link_states = link_states();
    format!(
        r#"{link_states}, expected AS MATERIALIZED (
            SELECT lower((created->>'slug') COLLATE "C") AS slug_folded, account_id, link_id AS row_id,
                   true AS is_expected, link_id, destination_url, state, version
            FROM link_states
        )"#
    )
}

/// Returns the expected rows of `stopped_accounts`, from the last status event of each account. A
/// row without such an event is compared in the shard of its account, in shard 0 if there is no
/// such account.
pub(super) fn stopped_accounts() -> String {
    let applied_up_to = applied_up_to("$4");
    // The payload is searched as text: a waiting event may be no JSON object.
    format!(
        r#"latest AS MATERIALIZED (
            SELECT DISTINCT ON (e.account_id) e.account_id, e.position,
                   e.type = 'AccountSuspended'
                       AND e.payload::text ~ '"stop_redirects"\s*:\s*true' AS stops
            FROM unnest($5::bigint[]) AS rare (position)
            CROSS JOIN LATERAL (
                SELECT * FROM event_store.events
                WHERE shard = $3 AND position = rare.position
                LIMIT 1
            ) AS e
            WHERE e.position <= {applied_up_to} AND {NOT_SKIPPED}
            ORDER BY e.account_id, e.position DESC
        ), expected AS MATERIALIZED (
            SELECT account_id, NULL::uuid AS row_id, bool_or(stops) AS is_expected,
                   max(position) AS position
            FROM (
                SELECT account_id, stops, position FROM latest
                UNION ALL
                SELECT s.account_id, false, NULL
                FROM read_model.stopped_accounts AS s
                LEFT JOIN event_store.accounts AS a USING (account_id)
                WHERE s.generation = $2 AND coalesce(a.shard, 0) = $3
            ) AS either
            GROUP BY account_id
        )"#
    )
}

/// Returns the query of the position of the account's last status event.
pub(super) fn status_event() -> String {
    "SELECT wrong.position WHERE wrong.position IS NOT NULL".to_owned()
}
