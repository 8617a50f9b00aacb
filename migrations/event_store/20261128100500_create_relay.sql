-- Publishing to Kafka.

-- Position up to which each shard is published, and the process that may publish it: a lease with a fencing number.
CREATE TABLE event_store.relay_cursors (
    shard smallint NOT NULL REFERENCES event_store.log_shards (shard),
    -- Epoch of the log that `position` belongs to.
    epoch integer NOT NULL,
    -- The broker has acknowledged all events up to this position.
    position bigint NOT NULL DEFAULT 0,
    owner text,
    -- Raised when the lease changes hands: an update with an older number fails.
    lease_epoch bigint NOT NULL DEFAULT 0,
    lease_expires_at timestamptz,
    -- Kafka cluster with the records up to `position`; NULL: not known.
    cluster_id text,
    -- Offset of a record at or before `position`; NULL: not known.
    record_offset bigint,
    -- True if the topic was created anew since its last record.
    topic_lost boolean NOT NULL DEFAULT false,
    -- Epoch in which the log was found to end before `position`; NULL: never. A restore, or a failover to a standby
    -- that lagged, has lost events, and their positions go to other events. Nothing is published in this epoch any
    -- more. Stored, because a few commands later the log is as long as before.
    lost_epoch integer,
    -- Reason of the owner to publish nothing.
    refusal text,
    refused_at timestamptz,
    -- Set while an operator has paused publishing.
    paused_at timestamptz,
    paused_by text,
    pause_reason text,
    -- End of the last pause, and the operator who has ended it.
    resumed_at timestamptz,
    resumed_by text,
    CONSTRAINT relay_cursors_pkey PRIMARY KEY (shard)
)
-- Room for HOT updates: these rows change with every commit group.
WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

INSERT INTO event_store.relay_cursors (shard, epoch) SELECT generate_series(0, 15), 1;

-- Processes whose Kafka producer may have records in flight: inserted before the producer is created, deleted once it
-- is closed. A republish waits for them.
CREATE TABLE event_store.relay_producers (
    owner text NOT NULL,
    -- Drawn at each start: a process started under the name of another, or under its own, leaves the row of the other
    -- run alone.
    process_id uuid NOT NULL,
    -- The producer is closed, but some requests were not answered: from this time on none of them can arrive.
    settles_at timestamptz,
    CONSTRAINT relay_producers_pkey PRIMARY KEY (owner, process_id)
);
