-- Objects for the scripts in this folder: the accounts by number, and functions for values that an application
-- makes for each create. The planner inlines the functions.
CREATE SCHEMA bench;

CREATE TABLE bench.accounts (
    number integer PRIMARY KEY,
    account_id uuid NOT NULL,
    text text NOT NULL
);

-- A UUIDv7 with the time of the transaction.
CREATE FUNCTION bench.link_id() RETURNS uuid LANGUAGE sql AS $$
    SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0')
        || '7' || right(gen_random_uuid()::text, 21))::uuid
$$;

-- A text as wide as an id.
CREATE FUNCTION bench.link_text(link_id uuid) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT 'lnk_' || left(replace(link_id::text, '-', ''), 26)
$$;

-- Eight random letters and digits.
CREATE FUNCTION bench.slug() RETURNS text LANGUAGE sql AS $$
    SELECT translate(lower(left(encode(uuid_send(gen_random_uuid()), 'base64'), 8)), '+/', '23')
$$;

CREATE FUNCTION bench.link_created(link text, account text, slug text, number integer)
RETURNS json LANGUAGE sql IMMUTABLE AS $$
    SELECT ('{"link_id":"' || link || '","account_id":"' || account || '","slug":"' || slug
        || '","short_url":"http://127.0.0.1:40001/' || slug
        || '","destination_url":"https://example.com/some/path?n=' || number::text || '"}')::json
$$;

CREATE FUNCTION bench.credits_charged(link text, account text, balance bigint)
RETURNS json LANGUAGE sql IMMUTABLE AS $$
    SELECT ('{"account_id":"' || account || '","amount":1,"balance_after":' || balance::text
        || ',"link_id":"' || link || '","key_id":"key_01h455vb4pex5vsknk084sn02q","reason":"link_created"}')::json
$$;

CREATE FUNCTION bench.metadata_of_link_created() RETURNS json LANGUAGE sql IMMUTABLE AS $$
    SELECT '{"actor":"key_01h455vb4pex5vsknk084sn02q","request_id":"req_01h455vb4pex5vsknk08","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","renderer":1}'::json
$$;

CREATE FUNCTION bench.metadata_of_credits_charged() RETURNS json LANGUAGE sql IMMUTABLE AS $$
    SELECT '{"actor":"key_01h455vb4pex5vsknk084sn02q","request_id":"req_01h455vb4pex5vsknk08","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}'::json
$$;
