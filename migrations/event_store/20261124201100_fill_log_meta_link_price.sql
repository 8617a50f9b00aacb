-- Until a command-api of this release starts, the price of a link is that of the newest charge among the last 1,000
-- events of each shard. Locks one row, which only a new epoch waits for.
UPDATE event_store.log_meta
SET link_price = charge.amount
FROM (
    SELECT (last.payload ->> 'amount')::bigint AS amount
    FROM event_store.log_shards AS s
    CROSS JOIN LATERAL (
        SELECT payload, recorded_at
        FROM event_store.events
        WHERE shard = s.shard AND position > s.head - 1000 AND type = 'CreditsCharged'
        ORDER BY position DESC
        LIMIT 1
    ) AS last
    ORDER BY last.recorded_at DESC
    LIMIT 1
) AS charge;
