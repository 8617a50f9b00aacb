-- The log as a whole, and the counter of each shard.

CREATE TABLE event_store.log_meta (
    -- Exactly one row.
    singleton boolean NOT NULL DEFAULT true CONSTRAINT log_meta_singleton CHECK (singleton),
    -- Identity of the log, which read tables on another server store: the address of another installation is
    -- noticed. A restored backup is the same log, and keeps the id.
    log_id uuid NOT NULL DEFAULT gen_random_uuid(),
    -- Key of the codes (HMAC-SHA-256) that the relay gives its records and the projector verifies: whoever may write
    -- to the topic only cannot make an event. Drawn by the server, 244 random bits. No other role may read it.
    record_key bytea NOT NULL DEFAULT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))
        CONSTRAINT log_meta_record_key_length CHECK (octet_length(record_key) = 32),
    -- The same of the records of clicks, for query-api, which publishes them, and those who count them.
    click_record_key bytea NOT NULL DEFAULT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))
        CONSTRAINT log_meta_click_record_key_length CHECK (octet_length(click_record_key) = 32),
    -- Raised after a restore that lost events: positions are comparable within one epoch only.
    epoch integer NOT NULL CONSTRAINT log_meta_epoch_positive CHECK (epoch > 0),
    -- Price of a link, in credits: the setting of the command-api that started last, which query-api shows.
    link_price bigint NOT NULL DEFAULT 1 CONSTRAINT log_meta_link_price_not_negative CHECK (link_price >= 0),
    CONSTRAINT log_meta_pkey PRIMARY KEY (singleton)
);

INSERT INTO event_store.log_meta (epoch) VALUES (1);

-- Time, operator and reason of each new epoch, and the heads of the log at that time. The first epoch has no row.
CREATE TABLE event_store.log_epochs (
    epoch integer NOT NULL,
    former_epoch integer NOT NULL,
    raised_at timestamptz NOT NULL DEFAULT now(),
    raised_by text NOT NULL,
    reason text NOT NULL,
    -- Of the shards 0 to 15.
    heads bigint[] NOT NULL,
    CONSTRAINT log_epochs_pkey PRIMARY KEY (epoch),
    CONSTRAINT log_epochs_raised CHECK (epoch > former_epoch)
);

-- An append advances the counter of its shard, and keeps the row locked until it commits: positions have no gaps
-- and become visible in order, so `position > $1 ORDER BY position` skips no event.
CREATE TABLE event_store.log_shards (
    shard smallint NOT NULL CONSTRAINT log_shards_shard_range CHECK (shard BETWEEN 0 AND 15),
    head bigint NOT NULL DEFAULT 0 CONSTRAINT log_shards_head_not_negative CHECK (head >= 0),
    CONSTRAINT log_shards_pkey PRIMARY KEY (shard)
)
-- Room for HOT updates: these rows change with every commit group.
WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

INSERT INTO event_store.log_shards (shard) SELECT generate_series(0, 15);

-- Append-only tables are so for everybody, their owner included: the GRANTs of `deploy/postgres/roles.sql` bind the
-- other roles only.
CREATE FUNCTION event_store.forbid_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% are append-only: % is not allowed', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER log_epochs_append_only BEFORE UPDATE OR DELETE ON event_store.log_epochs
    FOR EACH ROW EXECUTE FUNCTION event_store.forbid_change();
CREATE TRIGGER log_epochs_no_truncate BEFORE TRUNCATE ON event_store.log_epochs
    FOR EACH STATEMENT EXECUTE FUNCTION event_store.forbid_change();
