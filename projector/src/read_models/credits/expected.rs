//! Rows that the log expects in `read_model.credit_entries` and `read_model.credit_balances`.

use crate::read_models::description::{APPLIED_UP_TO, FIRST_WAITING, NOT_SKIPPED};

/// Condition on the event `e`: the event is one of the ledger.
pub(super) const IS_CREDIT_EVENT: &str = "e.type IN (
    'CreditsGranted', 'CreditsAdjusted', 'CreditsCharged', 'CreditsRefunded', 'CreditsRevoked'
)";

/// Returns the expression of the UUID of an id: three letters, `_`, and 26 digits of base32, whose 130
/// bits begin with two zeros.
fn uuid_of(id: &str) -> String {
    format!(
        "(
            SELECT (lpad(to_hex(substr(bits, 3, 64)::bit(64)::bigint), 16, '0')
                    || lpad(to_hex(substr(bits, 67)::bit(64)::bigint), 16, '0'))::uuid
            FROM (
                SELECT string_agg((strpos('0123456789abcdefghjkmnpqrstvwxyz', digit) - 1)::bit(5)::text,
                                  '' ORDER BY nth) AS bits
                FROM string_to_table(substr({id}, 5), NULL) WITH ORDINALITY AS digits (digit, nth)
            ) AS suffix
        )"
    )
}

/// Returns the common table expression `happened`: the applied ones of the compared credit events.
fn happened(events: &str) -> String {
    format!(
        "happened AS MATERIALIZED (
            SELECT e.*, {APPLIED_UP_TO} AS applied_up_to
            FROM {events}
            {FIRST_WAITING}
            WHERE {IS_CREDIT_EVENT}
              AND e.position <= {APPLIED_UP_TO} AND {NOT_SKIPPED}
        )"
    )
}

/// Returns the expected rows of `credit_entries`. The link of a charge is created by the event right
/// before the charge; the payload, which the projection reads, says the same.
pub(super) fn entries(events: &str) -> String {
    let happened = happened(events);
    let [refunded_link, refunded_entry] =
        ["h.payload->>'link_id'", "h.payload->>'refunds'"].map(uuid_of);
    format!(
        "{happened}, expected AS MATERIALIZED (
            SELECT h.account_id, h.event_id AS row_id, true AS is_expected, h.version,
                   h.event_id AS entry_id,
                   CASE h.type WHEN 'CreditsGranted' THEN 'grant'
                               WHEN 'CreditsAdjusted' THEN 'adjustment'
                               WHEN 'CreditsCharged' THEN 'charge'
                               WHEN 'CreditsRefunded' THEN 'refund'
                               WHEN 'CreditsRevoked' THEN 'revocation' END AS type,
                   CASE WHEN h.type IN ('CreditsCharged', 'CreditsRevoked')
                        THEN -(h.payload->>'amount')::bigint
                        ELSE (h.payload->>'amount')::bigint END AS amount,
                   (h.payload->>'balance_after')::bigint AS balance_after,
                   CASE h.type WHEN 'CreditsCharged' THEN (
                       SELECT stream_id FROM event_store.events
                       WHERE shard = $6 AND position = h.position - 1
                   ) WHEN 'CreditsRefunded' THEN {refunded_link} END AS link_id,
                   CASE WHEN h.type IN ('CreditsGranted', 'CreditsAdjusted')
                        THEN h.payload->>'description' END AS description,
                   CASE h.type WHEN 'CreditsRefunded' THEN {refunded_entry} END AS refunds,
                   h.recorded_at AS created_at, h.applied_up_to
            FROM happened AS h
        )"
    )
}

/// Returns the expected rows of `credit_balances`: the last credit event of an account holds its
/// balance.
pub(super) fn balances(events: &str) -> String {
    let happened = happened(events);
    format!(
        "{happened}, latest AS MATERIALIZED (
            SELECT DISTINCT ON (account_id) account_id, version, payload, applied_up_to
            FROM happened
            ORDER BY account_id, version DESC
        ), expected AS MATERIALIZED (
            SELECT l.account_id, NULL::uuid AS row_id, true AS is_expected,
                   (l.payload->>'balance_after')::bigint AS balance, l.version, l.applied_up_to
            FROM latest AS l
            LEFT JOIN LATERAL (
                SELECT e.position FROM event_store.events AS e
                WHERE e.shard = $6 AND e.stream_id = l.account_id AND e.version > l.version
                  AND {IS_CREDIT_EVENT} AND {NOT_SKIPPED}
                ORDER BY e.version
                LIMIT 1
            ) AS next ON true
            WHERE next.position IS NULL OR next.position > l.applied_up_to
        )"
    )
}

/// Returns the query of the positions of the row's event and of the account's last credit event: the
/// projection of an entry writes the balance too, which the last event determines.
pub(super) fn entry_and_last_event() -> String {
    format!(
        "SELECT e.position FROM event_store.events AS e
         WHERE e.shard = $6 AND e.stream_id = wrong.account_id AND e.version = wrong.version
         UNION
         SELECT last.position FROM (
             SELECT e.position FROM event_store.events AS e
             WHERE e.shard = $6 AND e.stream_id = wrong.account_id AND {IS_CREDIT_EVENT}
               AND e.version < first_waiting.version
               AND e.position <= wrong.applied_up_to AND {NOT_SKIPPED}
             ORDER BY e.version DESC
             LIMIT 1
         ) AS last"
    )
}
