-- One counter row per shard. An append advances it and holds it to commit: positions have no gaps
-- and become visible in order, so `position > $1 ORDER BY position` can skip nothing.
CREATE TABLE event_store.log_shards (
    shard smallint PRIMARY KEY CONSTRAINT log_shards_shard_range CHECK (shard BETWEEN 0 AND 15),
    head bigint NOT NULL DEFAULT 0 CONSTRAINT log_shards_head_not_negative CHECK (head >= 0)
)
-- Room for HOT updates: these rows change with every batch.
WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

INSERT INTO event_store.log_shards (shard) SELECT generate_series(0, 15);
