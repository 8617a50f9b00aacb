-- How far each shard is published, and who may publish it (a lease with a fencing epoch).
CREATE TABLE event_store.relay_cursors (
    shard smallint PRIMARY KEY REFERENCES event_store.log_shards (shard),
    -- The epoch of the log that `position` belongs to.
    epoch integer NOT NULL,
    -- Highest position below which everything is acknowledged by the broker.
    position bigint NOT NULL DEFAULT 0,
    owner text,
    -- Raised whenever the lease changes hands; a writer with an older one is a zombie.
    lease_epoch bigint NOT NULL DEFAULT 0,
    lease_expires_at timestamptz
)
WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

INSERT INTO event_store.relay_cursors (shard, epoch) SELECT generate_series(0, 15), 1;
