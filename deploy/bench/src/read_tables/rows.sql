-- The rows of all read models of a log of grants and creates: one INSERT … SELECT for each table.
-- The search path decides the schema of the tables.
INSERT INTO links (generation, account_id, link_id, slug, destination_url, version, created_at)
SELECT 1, account_id, stream_id, payload->>'slug', payload->>'destination_url', version, recorded_at
FROM event_store.events
WHERE type = 'LinkCreated';

INSERT INTO redirects (generation, slug_key, link_id, account_id, destination_url, state)
SELECT 1, lower(payload->>'slug'), stream_id, account_id, payload->>'destination_url', 'active'
FROM event_store.events
WHERE type = 'LinkCreated';

-- A link and its charge are neighbours in the log; joining them is cheaper than parsing the id in the payload.
INSERT INTO credit_entries (generation, account_id, version, entry_id, type, amount, balance_after,
                            link_id, created_at)
SELECT 1, account_id, version, event_id,
       CASE type WHEN 'CreditsCharged' THEN 'charge' ELSE 'grant' END,
       CASE type WHEN 'CreditsCharged' THEN -1 ELSE 1 END * (payload->>'amount')::bigint,
       (payload->>'balance_after')::bigint,
       CASE type WHEN 'CreditsCharged' THEN stream_before END,
       recorded_at
FROM (
    SELECT *, lag(stream_id) OVER (PARTITION BY shard ORDER BY position) AS stream_before
    FROM event_store.events
) AS event
WHERE type IN ('CreditsCharged', 'CreditsGranted');

INSERT INTO credit_balances (generation, account_id, balance, version)
SELECT DISTINCT ON (account_id) 1, account_id, balance_after, version
FROM credit_entries
ORDER BY account_id, version DESC;
