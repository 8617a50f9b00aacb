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
    -- 'create:<uuid>' or 'grant:<key>', on the one event of an effect that carries its key.
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

CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE ON event_store.events
    FOR EACH ROW EXECUTE FUNCTION event_store.forbid_change();
CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON event_store.events
    FOR EACH STATEMENT EXECUTE FUNCTION event_store.forbid_change();
