-- For log.sh: a grant for each account, and :links links with their charges. What an id is in text
-- is computed from that of the account: the ids differ in their last 30 bits only.
CREATE FUNCTION pg_temp.suffix(n bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT string_agg(substr('0123456789abcdefghjkmnpqrstvwxyz', ((n >> 5 * i) & 31)::int + 1, 1), '' ORDER BY i DESC)
    FROM generate_series(0, 5) AS i
$$;
CREATE TEMP TABLE suffixes AS
SELECT n, pg_temp.suffix(n) AS text FROM generate_series(1, :links) AS n;

-- Of each account: where its events begin in its shard, and the bits of its id that links share.
CREATE TEMP TABLE places AS
SELECT a.account_id, a.shard, t.text, t.number,
       (row_number() OVER (PARTITION BY a.shard ORDER BY t.number) - 1) * (2 * :links + 1) AS before,
       substr(a.account_id::text, 1, 28)
           || to_hex(('x' || substr(a.account_id::text, 29, 1))::bit(4)::int & 12) AS uuid_prefix,
       substr(t.text, 5, 20) AS text_prefix
FROM account_texts AS t
JOIN event_store.accounts AS a ON a.name = 'bench ' || t.number;

INSERT INTO event_store.events
SELECT shard, before + 1, account_id, 1, account_id, gen_random_uuid(), 'CreditsGranted', 1,
       json_build_object('account_id', text, 'amount', :links, 'balance_after', :links, 'reason', 'bench'),
       '{"actor":"operator"}', now()
FROM places;

INSERT INTO event_store.events
SELECT p.shard, p.before + 2 * s.n + event.nth, event.stream_id, event.version, p.account_id,
       gen_random_uuid(), event.type, 1, event.payload::json,
       '{"actor":"key_01h455vb4pex5vsknk084sn02q","request_id":"req_01h455vb4pex5vsknk084sn02q","renderer":1}',
       now(), event.key, event.fingerprint
FROM places AS p
CROSS JOIN suffixes AS s
CROSS JOIN LATERAL (
    SELECT (p.uuid_prefix || lpad(to_hex(s.n), 7, '0'))::uuid AS link_id,
           'lnk_' || p.text_prefix || s.text AS link_text,
           'bench-' || p.number || '-' || s.n AS slug
) AS link
CROSS JOIN LATERAL (VALUES
    (0, link.link_id, 1::bigint, 'LinkCreated',
     format('{"link_id":"%s","account_id":"%s","slug":"%s","short_url":"https://sho.rt/%s","destination_url":"https://www.example.com/some/path/%s?campaign=spring"}',
            link.link_text, p.text, link.slug, link.slug, s.n),
     'create:' || gen_random_uuid(), sha256(int8send(s.n))),
    (1, p.account_id, 1 + s.n, 'CreditsCharged',
     format('{"account_id":"%s","amount":1,"balance_after":%s,"link_id":"%s","reason":"link_created"}',
            p.text, :links - s.n, link.link_text),
     NULL, NULL)
) AS event (nth, stream_id, version, type, payload, key, fingerprint);

INSERT INTO event_store.slugs
SELECT 'bench-' || p.number || '-' || s.n, 'bench-' || p.number || '-' || s.n, p.shard,
       (p.uuid_prefix || lpad(to_hex(s.n), 7, '0'))::uuid
FROM places AS p
CROSS JOIN suffixes AS s;

UPDATE event_store.accounts SET version = :links + 1, balance = 0 WHERE name LIKE 'bench %';
UPDATE event_store.log_shards AS l SET head = (SELECT coalesce(max(before + 2 * :links + 1), 0) FROM places WHERE shard = l.shard);
-- As command-api seals them; what is hashed: docs/sealed-segments.md.
DO $$
DECLARE
    place record;
    before bytea;
BEGIN
    FOR place IN
        SELECT shard, number, 10000 * (number - 1) + 1 AS first, 10000 * number AS last
        FROM event_store.log_shards, generate_series(1, head / 10000) AS number
        ORDER BY shard, number
    LOOP
        before := CASE WHEN place.number = 1 THEN decode(repeat('00', 32), 'hex') ELSE before END;
        SELECT sha256(
            convert_to(E'linkledger segment 1\n', 'UTF8') || int4send(1) || int2send(place.shard)
            || int8send(place.number) || int8send(place.first) || int8send(place.last) || before
            || string_agg(int2send(13::smallint) || columns.bytes, ''::bytea ORDER BY e.position)
        ) INTO before
        FROM event_store.events AS e
        CROSS JOIN LATERAL (
            SELECT string_agg(
                coalesce(int4send(length(value)) || value, int4send(-1)), ''::bytea ORDER BY nth
            ) AS bytes
            FROM (VALUES
                (1, int2send(e.shard)), (2, int8send(e.position)), (3, uuid_send(e.stream_id)),
                (4, int8send(e.version)), (5, uuid_send(e.account_id)),
                (6, uuid_send(e.event_id)), (7, textsend(e.type)),
                (8, int2send(e.schema_version)), (9, json_send(e.payload)),
                (10, json_send(e.metadata)), (11, timestamptz_send(e.recorded_at)),
                (12, textsend(e.idempotency_key)), (13, e.fingerprint)
            ) AS v (nth, value)
        ) AS columns
        WHERE e.shard = place.shard AND e.position BETWEEN place.first AND place.last;
        INSERT INTO event_store.log_segments
        VALUES (place.shard, place.number, place.first, place.last, 1, before, now());
    END LOOP;
END
$$;

VACUUM ANALYZE event_store.events, event_store.slugs, event_store.accounts, event_store.log_shards;
