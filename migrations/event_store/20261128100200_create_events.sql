-- The events. Every unique constraint contains the shard, so that shards can be spread over servers.
CREATE TABLE event_store.events (
    shard smallint NOT NULL,
    -- Place in the shard, from 1, without gaps.
    position bigint NOT NULL,
    -- UUID of the link or the account whose stream this is.
    stream_id uuid NOT NULL,
    -- Place in the stream, from 1, without gaps.
    version bigint NOT NULL,
    account_id uuid NOT NULL,
    event_id uuid NOT NULL,
    type text NOT NULL,
    schema_version smallint NOT NULL,
    -- json, not jsonb: the bytes stay as written.
    payload json NOT NULL,
    metadata json NOT NULL,
    recorded_at timestamptz NOT NULL,
    -- 'create:<uuid>' of links, '<kind>:<key>' of requests of operators: on the one event of an effect that carries
    -- its key.
    idempotency_key text,
    fingerprint bytea,
    CONSTRAINT events_pkey PRIMARY KEY (shard, position),
    CONSTRAINT events_stream_version_unique UNIQUE (shard, stream_id, version),
    CONSTRAINT events_fingerprint_with_key CHECK ((idempotency_key IS NULL) = (fingerprint IS NULL))
);

CREATE UNIQUE INDEX events_idempotency_key_unique
    ON event_store.events (shard, account_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

-- The rare events of an account's status: verification looks for a later one.
CREATE INDEX events_status_idx ON event_store.events (shard, account_id, position)
    WHERE type IN ('AccountSuspended', 'AccountResumed');

-- Changes of links by account, of types of later releases too, for the feed of events: a creation is found by its
-- charge, so no create writes this index.
CREATE INDEX events_link_changes_idx ON event_store.events (shard, account_id, position)
    WHERE stream_id <> account_id AND type <> 'LinkCreated';

-- A charge is given back once, and a grant taken back once. The two cannot meet: ids of entries are ids of events.
CREATE UNIQUE INDEX events_reversal_unique
    ON event_store.events (shard, account_id, (coalesce(payload->>'refunds', payload->>'grant')))
    WHERE type IN ('CreditsRefunded', 'CreditsRevoked');

-- Finds the event of an entry. Ids begin with their time, so they are nearly in the order of the table, and few ranges
-- of 512 pages (4 MB) can have an id. Autovacuum summarizes a range once it is full; a look-up reads each range that is
-- not summarized yet as a whole. An append does not write the index, unless it fills a page of an older range again,
-- which a rolled back append has left.
CREATE INDEX events_event_id_idx ON event_store.events
    USING brin (event_id) WITH (pages_per_range = 512, autosummarize = on);

CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE ON event_store.events
    FOR EACH ROW EXECUTE FUNCTION event_store.forbid_change();
CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON event_store.events
    FOR EACH STATEMENT EXECUTE FUNCTION event_store.forbid_change();
