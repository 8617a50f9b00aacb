-- Recorders of clicks: one for each start of query-api. Every second a recorder writes a heartbeat, with the
-- instant up to which its clicks have sequences, and the last sequence of each partition.
CREATE TABLE clicks.recorders (
    recorder_id uuid NOT NULL,
    -- Before the short host accepts its first request.
    started_at timestamptz NOT NULL,
    -- Instant of the last heartbeat, by the clock of this server. A recorder that is silent for 60 s is dead.
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- End by a shutdown, after the broker has acknowledged every click, by the clock of this server.
    ended_at timestamptz,
    CONSTRAINT recorders_pkey PRIMARY KEY (recorder_id)
);

-- About 100 rows for each recorder: the recorder deletes rows that both countings have passed, and every second one
-- of the older rows when there are more.
CREATE TABLE clicks.heartbeats (
    recorder_id uuid NOT NULL REFERENCES clicks.recorders (recorder_id) ON DELETE CASCADE,
    recorded_until timestamptz NOT NULL,
    -- Of the partitions 0 to 15; 0 for none.
    sequences bigint[] NOT NULL CHECK (cardinality(sequences) = 16),
    CONSTRAINT heartbeats_pkey PRIMARY KEY (recorder_id, recorded_until)
);

-- Highest counted sequence of each recorder in each partition: a record with a sequence up to it is a repeat.
-- Rows stay for 800 days, longer than any usual retention of the topic.
CREATE TABLE clicks.sequences (
    counting text NOT NULL CHECK (counting IN ('totals', 'values')),
    partition smallint NOT NULL CHECK (partition BETWEEN 0 AND 15),
    recorder_id uuid NOT NULL,
    sequence bigint NOT NULL CHECK (sequence > 0),
    -- Sequences that were never found: clicks that are lost.
    missing bigint NOT NULL DEFAULT 0 CHECK (missing >= 0),
    counted_at timestamptz NOT NULL,
    CONSTRAINT sequences_pkey PRIMARY KEY (counting, partition, recorder_id)
);
