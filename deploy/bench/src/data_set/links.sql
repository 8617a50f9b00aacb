-- The links of some rounds, with their charges and with what the read tables show of them. In each
-- round every account creates one, a millisecond after the round before.
-- $1 account ids, $2 the same in text, $3 shards, $4 and $5 first and last round, $6 credits at the
-- beginning, $7 the instant of round 0.
--
-- An id is a UUIDv7 with the milliseconds of its round and, for the rest, the bits of its account:
-- so its text is known from ten digits and the end of the account's. A slug is the number of the
-- link, scattered over 32 bits without meeting another.
WITH account AS MATERIALIZED (
    SELECT a.*, count(*) OVER () AS accounts, count(*) OVER (PARTITION BY shard) AS neighbours,
           row_number() OVER (PARTITION BY shard ORDER BY number) AS place
    FROM unnest($1::uuid[], $2::text[], $3::smallint[])
        WITH ORDINALITY AS a (account_id, account_text, shard, number)
), instant AS MATERIALIZED (
    SELECT i.*, $7::timestamptz + i.round * interval '1 ms' AS created_at,
           lpad(to_hex(milliseconds), 12, '0') AS hex,
           (
               SELECT string_agg(
                   substr('0123456789abcdefghjkmnpqrstvwxyz',
                          (milliseconds >> 5 * digit & 31)::int + 1, 1),
                   '' ORDER BY digit DESC
               )
               FROM generate_series(0, 9) AS digit
           ) AS text
    FROM (
        SELECT round, (extract(epoch FROM $7::timestamptz) * 1000)::bigint + round AS milliseconds
        FROM generate_series($4::bigint, $5::bigint) AS round
    ) AS i
), link AS MATERIALIZED (
    SELECT a.account_id, a.account_text, a.shard, i.created_at, i.round, n.number,
           -- Behind the accounts of the shard with three events each, two events for each link.
           3 * a.neighbours + 2 * (i.round * a.neighbours + a.place - 1) + 1 AS position,
           (left(i.hex, 8) || right(i.hex, 4) || substr(a.account_id::text, 14))::uuid AS link_id,
           'lnk_' || i.text || right(a.account_text, 16) AS link_text,
           lpad(to_hex(n.number * 2654435761 & 4294967295), 8, '0') AS slug,
           'https://www.example.com/some/path/' || n.number || '?campaign=spring'
               AS destination_url,
           gen_random_uuid() AS created_id, gen_random_uuid() AS charged_id
    FROM instant AS i
    CROSS JOIN account AS a
    CROSS JOIN LATERAL (SELECT i.round * a.accounts + a.number AS number) AS n
    ORDER BY i.round, a.number
), inserted_slugs AS (
    INSERT INTO event_store.slugs (slug_key, slug, shard, link_id)
    SELECT slug, slug, shard, link_id FROM link
), inserted_links AS (
    INSERT INTO read_model.links
        (generation, account_id, link_id, slug, destination_url, version, created_at)
    SELECT 1, account_id, link_id, slug, destination_url, 1, created_at FROM link
), inserted_redirects AS (
    INSERT INTO read_model.redirects
        (generation, slug_key, link_id, account_id, destination_url)
    SELECT 1, slug, link_id, account_id, destination_url FROM link
), inserted_entries AS (
    INSERT INTO read_model.credit_entries
        (generation, account_id, version, entry_id, type, amount, balance_after, link_id,
         created_at)
    SELECT 1, account_id, round + 4, charged_id, 'charge', -1, $6 - round - 1, link_id, created_at
    FROM link
)
INSERT INTO event_store.events
    (shard, position, stream_id, version, account_id, event_id, type, schema_version, payload,
     metadata, recorded_at, idempotency_key, fingerprint)
SELECT link.shard, link.position + event.nth, event.stream_id, event.version, link.account_id,
       event.event_id, event.type, 1, event.payload::json,
       '{"actor":"key_01h455vb4pex5vsknk084sn02q","request_id":"req_01h455vb4pex5vsknk084sn02q","renderer":1}',
       link.created_at, event.key, event.fingerprint
FROM link
CROSS JOIN LATERAL (VALUES
    (0, link.link_id, 1::bigint, link.created_id, 'LinkCreated',
     format('{"link_id":"%s","account_id":"%s","slug":"%s","short_url":"https://sho.rt/%3$s","destination_url":"%s"}',
            link.link_text, link.account_text, link.slug, link.destination_url),
     'create:' || gen_random_uuid(), sha256(int8send(link.number))),
    (1, link.account_id, link.round + 4, link.charged_id, 'CreditsCharged',
     format('{"account_id":"%s","amount":1,"balance_after":%s,"link_id":"%s","key_id":"key_01h455vb4pex5vsknk084sn02q","reason":"link_created"}',
            link.account_text, $6 - link.round - 1, link.link_text),
     NULL, NULL)
) AS event (nth, stream_id, version, event_id, type, payload, key, fingerprint)
