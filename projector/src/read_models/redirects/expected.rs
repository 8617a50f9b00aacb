//! Rows that the log expects in `read_model.redirects` and `read_model.stopped_accounts`.

use crate::read_models::{
    description::{APPLIED_UP_TO, FIRST_WAITING, NOT_SKIPPED},
    links::expected::link_states,
};

/// Returns the expected rows of `redirects`: a deleted link keeps its slug.
pub(super) fn redirects() -> String {
    let link_states = link_states();
    format!(
        r#"{link_states}, expected AS MATERIALIZED (
            SELECT lower(slug COLLATE "C") AS slug_folded, account_id, link_id AS row_id,
                   true AS is_expected, link_id, destination_url,
                   CASE WHEN is_deleted THEN 'deleted' WHEN disabled_by IS NULL THEN 'active'
                        ELSE 'disabled' END AS state,
                   expires_at, expired_url, position
            FROM link_states
        )"#
    )
}

/// Returns the expected rows of `stopped_accounts`, from the last status event of each account. A
/// row without such an event is compared in the shard of its account, in shard 0 if there is no
/// such account.
pub(super) fn stopped_accounts() -> String {
    // The payload is searched as text: a waiting event may be no JSON object.
    format!(
        r#"latest AS MATERIALIZED (
            SELECT DISTINCT ON (e.account_id) e.account_id, e.position,
                   e.type = 'AccountSuspended'
                       AND e.payload::text ~ '"stop_redirects"\s*:\s*true' AS stops
            FROM unnest($8::bigint[]) AS rare (position)
            CROSS JOIN LATERAL (
                SELECT * FROM event_store.events
                WHERE shard = $6 AND position = rare.position
                LIMIT 1
            ) AS e
            {FIRST_WAITING}
            WHERE e.position <= {APPLIED_UP_TO} AND {NOT_SKIPPED}
            ORDER BY e.account_id, e.position DESC
        ), expected AS MATERIALIZED (
            SELECT account_id, NULL::uuid AS row_id, bool_or(stops) AS is_expected,
                   max(position) AS position
            FROM (
                SELECT account_id, stops, position FROM latest
                UNION ALL
                SELECT s.account_id, false, NULL
                FROM unnest($9::uuid[]) AS s (account_id)
                LEFT JOIN event_store.accounts AS a USING (account_id)
                WHERE coalesce(a.shard, 0) = $6
            ) AS either
            GROUP BY account_id
        )"#
    )
}
