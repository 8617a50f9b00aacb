-- Accounts with one grant of credits each, a key, and what the read tables show of them.
-- $1 account ids, $2 the same in text, $3 shards, $4 ids of keys, $5 secrets, $6 their hashes,
-- $7 scopes, $8 credits, $9 when.
WITH account AS MATERIALIZED (
    SELECT a.*, row_number() OVER (PARTITION BY shard ORDER BY number) AS position,
           gen_random_uuid() AS event_id
    FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::uuid[], $5::text[], $6::bytea[])
        WITH ORDINALITY AS a (account_id, text, shard, key_id, secret, sha256, number)
), inserted_accounts AS (
    INSERT INTO event_store.accounts (account_id, shard, name, balance, version, created_at)
    SELECT account_id, shard, 'bench ' || number, $8, 1, $9 FROM account
), inserted_keys AS (
    -- A secret is stored nowhere else: as the name of its key it lasts as long as the data set.
    INSERT INTO event_store.api_keys
        (key_id, account_id, sha256, prefix, name, scopes, created_at)
    SELECT key_id, account_id, sha256, left(secret, 8), secret, $7::text[], $9 FROM account
), inserted_events AS (
    INSERT INTO event_store.events
        (shard, position, stream_id, version, account_id, event_id, type, schema_version, payload,
         metadata, recorded_at)
    SELECT shard, position, account_id, 1, account_id, event_id, 'CreditsGranted', 1,
           format('{"account_id":"%s","amount":%s,"balance_after":%2$s,"reason":"bench"}',
                  text, $8::bigint)::json,
           '{"actor":"operator"}', $9
    FROM account
), inserted_balances AS (
    INSERT INTO read_model.credit_balances (generation, account_id, balance, version)
    SELECT 1, account_id, $8, 1 FROM account
)
INSERT INTO read_model.credit_entries
    (generation, account_id, version, entry_id, type, amount, balance_after, created_at)
SELECT 1, account_id, 1, event_id, 'grant', $8, $8, $9 FROM account
