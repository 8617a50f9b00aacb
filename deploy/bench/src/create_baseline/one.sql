-- One create in a transaction of its own, with the steps of a batch of the service. The accounts take turns, as
-- in the load of the service, so that two clients seldom use the same account.
\set number :turn * :clients + :client_id
\set account_number :number % :accounts
\set turn :turn + 1
BEGIN;
SELECT a.account_id, a.shard, a.balance - 1 AS balance, a.version + 1 AS version,
       b.text AS account, made.link_id, bench.link_text(made.link_id) AS link,
       bench.slug() AS slug, 'create:' || gen_random_uuid() AS key
FROM bench.accounts AS b
JOIN event_store.accounts AS a USING (account_id)
CROSS JOIN (SELECT bench.link_id() AS link_id OFFSET 0) AS made
WHERE b.number = :account_number
FOR NO KEY UPDATE OF a
\gset
SELECT stream_id, position, fingerprint
FROM event_store.events
WHERE shard = :shard AND account_id = :account_id AND idempotency_key = :key;
INSERT INTO event_store.slugs (slug_key, slug, shard, link_id)
VALUES (:slug, :slug, :shard, :link_id)
ON CONFLICT DO NOTHING;
UPDATE event_store.log_shards SET head = head + 2 WHERE shard = :shard RETURNING head
\gset
INSERT INTO event_store.events
    (shard, position, stream_id, version, account_id, event_id, type, schema_version, payload,
     metadata, recorded_at, idempotency_key, fingerprint)
VALUES
    (:shard, :head::bigint - 1, :link_id, 1, :account_id, gen_random_uuid(), 'LinkCreated', 1,
     bench.link_created(:link, :account, :slug, :number), bench.metadata_of_link_created(), now(),
     :key, uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())),
    (:shard, :head, :account_id, :version, :account_id, gen_random_uuid(), 'CreditsCharged', 1,
     bench.credits_charged(:link, :account, :balance), bench.metadata_of_credits_charged(), now(),
     NULL, NULL);
UPDATE event_store.accounts SET balance = :balance, version = :version
WHERE account_id = :account_id;
COMMIT;
