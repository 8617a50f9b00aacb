-- Where accounts, shards, relay and projections stand behind all links. $1 links of each account.
WITH settled AS (
    UPDATE event_store.accounts SET version = version + $1, balance = balance - $1
    RETURNING account_id, shard, balance, version
), ends AS MATERIALIZED (
    SELECT shard, count(*) * (3 + 2 * $1::bigint) AS position FROM settled GROUP BY shard
), moved_heads AS (
    UPDATE event_store.log_shards AS l SET head = ends.position FROM ends WHERE l.shard = ends.shard
), moved_cursors AS (
    UPDATE event_store.relay_cursors AS r SET position = ends.position
    FROM ends WHERE r.shard = ends.shard
), moved_checkpoints AS (
    UPDATE read_model.checkpoints AS c SET position = ends.position
    FROM ends WHERE c.shard = ends.shard
)
UPDATE read_model.credit_balances AS b SET balance = settled.balance, version = settled.version
FROM settled WHERE b.account_id = settled.account_id
