//! Rows that the log expects in `read_model.redirects` and `read_model.stopped_accounts`.

use crate::read_models::{
    description::{APPLIED_UP_TO, FIRST_WAITING, NOT_SKIPPED},
    links::expected::link_states,
};

/// Returns the expected rows of `redirects`: a deleted link keeps its slug.
pub(super) fn redirects(events: &str) -> String {
    let link_states = link_states(events);
    format!(
        r#"{link_states}, expected AS MATERIALIZED (
            SELECT lower(slug COLLATE "C") AS slug_key, account_id, link_id AS row_id,
                   true AS is_expected, link_id, destination_url,
                   CASE WHEN is_deleted THEN 'deleted' WHEN disabled_by IS NULL THEN 'active'
                        ELSE 'disabled' END AS state,
                   expires_at, expired_url, position
            FROM link_states
        )"#
    )
}

/// Condition on the event `e`: the event changes the status of its account.
pub(super) const IS_STATUS_EVENT: &str = "e.type IN ('AccountSuspended', 'AccountResumed')";

/// Returns the expected rows of `stopped_accounts`, from the last status event of each account.
pub(super) fn stopped_accounts(events: &str) -> String {
    // The payload is searched as text: a waiting event may be no JSON object.
    format!(
        r#"happened AS MATERIALIZED (
            SELECT DISTINCT ON (e.account_id) e.account_id, e.position,
                   e.type = 'AccountSuspended'
                       AND e.payload::text ~ '"stop_redirects"\s*:\s*true' AS stops,
                   {APPLIED_UP_TO} AS applied_up_to
            FROM {events}
            {FIRST_WAITING}
            WHERE {IS_STATUS_EVENT}
              AND e.position <= {APPLIED_UP_TO} AND {NOT_SKIPPED}
            ORDER BY e.account_id, e.position DESC
        ), expected AS MATERIALIZED (
            SELECT h.account_id, NULL::uuid AS row_id, h.stops AS is_expected, h.position
            FROM happened AS h
            LEFT JOIN LATERAL (
                SELECT e.position FROM event_store.events AS e
                WHERE e.shard = $6 AND e.account_id = h.account_id AND e.position > h.position
                  AND {IS_STATUS_EVENT} AND {NOT_SKIPPED}
                ORDER BY e.position
                LIMIT 1
            ) AS next ON true
            WHERE next.position IS NULL OR next.position > h.applied_up_to
        )"#
    )
}
