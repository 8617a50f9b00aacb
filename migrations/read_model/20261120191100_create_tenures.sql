-- What the projectors report of themselves, once a second: who looks after a shard, and how each of
-- its projections gets on there. For operators; nothing is decided by it. No release before uses
-- the table.
CREATE TABLE read_model.tenures (
    projection text NOT NULL,
    shard smallint NOT NULL,
    -- The process, by the name that its operator gave it or that of its machine.
    owner text NOT NULL,
    -- Its release.
    version text NOT NULL,
    -- When it began to look after the shard.
    since timestamptz NOT NULL,
    -- When it last said so. Older than some seconds: nobody looks after the shard.
    seen_at timestamptz NOT NULL,
    -- Events that it applied between the last two times that it said so.
    events_per_second double precision NOT NULL,
    -- The last failure, whoever met with it; it stays when it has passed.
    last_error text
        CONSTRAINT tenures_last_error_short CHECK (char_length(last_error) <= 1000),
    last_error_at timestamptz,
    CONSTRAINT tenures_pkey PRIMARY KEY (projection, shard),
    CONSTRAINT tenures_last_error_dated CHECK ((last_error IS NULL) = (last_error_at IS NULL))
)
WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
