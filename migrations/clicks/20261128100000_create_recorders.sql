-- Recording of clicks.

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
    -- True while the last 1,000 clicks of the recorder have one client address, so that `query-api doctor` can warn.
    same_address boolean NOT NULL DEFAULT false,
    CONSTRAINT recorders_pkey PRIMARY KEY (recorder_id)
);

-- About 100 rows for each recorder: the recorder deletes rows that the aggregation has passed, and every second one
-- of the older rows when there are more.
CREATE TABLE clicks.heartbeats (
    recorder_id uuid NOT NULL REFERENCES clicks.recorders (recorder_id) ON DELETE CASCADE,
    recorded_until timestamptz NOT NULL,
    -- Of the partitions 0 to 15; 0 for none.
    sequences bigint[] NOT NULL CHECK (cardinality(sequences) = 16),
    CONSTRAINT heartbeats_pkey PRIMARY KEY (recorder_id, recorded_until)
);

-- Random salts of visitors' hashes, one for each UTC day. The projector makes a salt before its day begins and
-- deletes it 48 hours after its day began; recorders only read.
CREATE TABLE clicks.salts (
    day date NOT NULL,
    salt bytea NOT NULL CHECK (octet_length(salt) = 16),
    CONSTRAINT salts_pkey PRIMARY KEY (day)
);
