-- Many creates in one statement, which is one transaction: the same rows, found and written as sets. The
-- accounts take turns, so that each account occurs once in a statement.
\set first :turn * :creates
\set last :first + :creates - 1
\set turn :turn + 1
WITH wanted AS MATERIALIZED (
    SELECT a.account_id, a.shard, a.balance - 1 AS balance, a.version + 1 AS version,
           b.text AS account, n AS number, bench.link_id() AS link_id, bench.slug() AS slug,
           'create:' || gen_random_uuid() AS key
    FROM generate_series(:first::integer, :last) AS n
    JOIN bench.accounts AS b ON b.number = n % :accounts
    JOIN event_store.accounts AS a USING (account_id)
    FOR NO KEY UPDATE OF a
), fresh AS MATERIALIZED (
    SELECT w.*, bench.link_text(link_id) AS link,
           row_number() OVER (PARTITION BY w.shard) AS place
    FROM wanted AS w
    WHERE NOT EXISTS (
        SELECT FROM event_store.events AS e
        WHERE e.shard = w.shard AND e.account_id = w.account_id AND e.idempotency_key = w.key
    )
), reserved AS (
    INSERT INTO event_store.slugs (slug_key, slug, shard, link_id)
    SELECT slug, slug, shard, link_id FROM fresh
    ON CONFLICT DO NOTHING
), advanced AS (
    UPDATE event_store.log_shards AS s
    SET head = s.head + 2 * c.creates
    FROM (SELECT shard, count(*) AS creates FROM fresh GROUP BY shard) AS c
    WHERE s.shard = c.shard
    RETURNING s.shard, s.head - 2 * c.creates AS head
), settled AS (
    UPDATE event_store.accounts AS a
    SET balance = f.balance, version = f.version
    FROM fresh AS f
    WHERE a.account_id = f.account_id
)
INSERT INTO event_store.events
    (shard, position, stream_id, version, account_id, event_id, type, schema_version, payload,
     metadata, recorded_at, idempotency_key, fingerprint)
SELECT f.shard, d.head + 2 * f.place - 1 + e.nth, e.stream_id, e.version, f.account_id,
       gen_random_uuid(), e.type, 1, e.payload, e.metadata, now(), e.key, e.fingerprint
FROM fresh AS f
JOIN advanced AS d USING (shard)
CROSS JOIN LATERAL (VALUES
    (0, f.link_id, 1, 'LinkCreated', bench.link_created(f.link, f.account, f.slug, f.number),
     bench.metadata_of_link_created(), f.key,
     uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())),
    (1, f.account_id, f.version, 'CreditsCharged',
     bench.credits_charged(f.link, f.account, f.balance), bench.metadata_of_credits_charged(),
     NULL, NULL)
) AS e (nth, stream_id, version, type, payload, metadata, key, fingerprint);
