-- Accounts with a key and one grant of credits each, and what the read tables show of them.
-- $1 account ids, $2 the same in text, $3 shards, $4 ids of keys, $5 secrets, $6 their hashes,
-- $7 scopes, $8 credits, $9 when, $10 ids of keys in text.
WITH account AS MATERIALIZED (
    SELECT a.*, 'bench ' || number AS name, gen_random_uuid() AS granted_id,
           -- Three events for each account.
           3 * (row_number() OVER (PARTITION BY shard ORDER BY number) - 1) AS position,
           to_char($9::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS instant
    FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::uuid[], $5::text[], $6::bytea[],
                $10::text[])
        WITH ORDINALITY AS a (account_id, text, shard, key_id, secret, sha256, key_text, number)
), inserted_accounts AS (
    INSERT INTO event_store.accounts (account_id, shard, name, balance, version, created_at)
    SELECT account_id, shard, name, $8, 3, $9 FROM account
), inserted_keys AS (
    -- A secret is stored nowhere else: as the name of its key it lasts as long as the data set.
    INSERT INTO event_store.api_keys
        (key_id, account_id, sha256, prefix, name, scopes, created_at)
    SELECT key_id, account_id, sha256, left(secret, 8), secret, $7::text[], $9 FROM account
), inserted_events AS (
    INSERT INTO event_store.events
        (shard, position, stream_id, version, account_id, event_id, type, schema_version, payload,
         metadata, recorded_at)
    SELECT account.shard, account.position + event.version, account.account_id, event.version,
           account.account_id, event.event_id, event.type, 1, event.payload::json,
           event.metadata::json, $9
    FROM account
    CROSS JOIN LATERAL (VALUES
        (1::bigint, gen_random_uuid(), 'AccountCreated',
         format('{"account_id":"%s","name":"%s"}', account.text, account.name),
         format('{"actor":"operator","operator":"bench","account":{"name":"%s","state":"active","balance":0,"created_at":"%s"}}',
                account.name, account.instant)),
        (2, gen_random_uuid(), 'ApiKeyIssued',
         format('{"account_id":"%s","key_id":"%s","name":"%s","scopes":%s}',
                account.text, account.key_text, account.secret, array_to_json($7::text[])),
         '{"actor":"operator","operator":"bench"}'),
        (3, account.granted_id, 'CreditsGranted',
         format('{"account_id":"%s","amount":%s,"balance_after":%2$s,"reason":"bench"}',
                account.text, $8::bigint),
         '{"actor":"operator","operator":"bench"}')
    ) AS event (version, event_id, type, payload, metadata)
), inserted_balances AS (
    INSERT INTO read_model.credit_balances (generation, account_id, balance, version)
    SELECT 1, account_id, $8, 3 FROM account
)
INSERT INTO read_model.credit_entries
    (generation, account_id, version, entry_id, type, amount, balance_after, created_at)
SELECT 1, account_id, 3, granted_id, 'grant', $8, $8, $9 FROM account
