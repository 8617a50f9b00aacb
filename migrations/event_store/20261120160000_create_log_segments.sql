-- Sealed segments of the log: a hash of every byte of some thousand events and of the segment
-- before, so that a change of the past does not go unseen. How it is made: docs/sealed-segments.md.
-- A new table without a foreign key: to reference the counters would lock them, here and with each
-- segment. The release before does not know it.
CREATE TABLE event_store.log_segments (
    shard smallint NOT NULL CONSTRAINT log_segments_shard_range CHECK (shard BETWEEN 0 AND 15),
    -- Place among the segments of the shard, from 1, without gaps.
    number bigint NOT NULL CONSTRAINT log_segments_number_positive CHECK (number > 0),
    first_position bigint NOT NULL,
    last_position bigint NOT NULL,
    -- Of the log when the segment was sealed; a part of what is hashed.
    epoch integer NOT NULL,
    sha256 bytea NOT NULL CONSTRAINT log_segments_sha256_length CHECK (octet_length(sha256) = 32),
    sealed_at timestamptz NOT NULL,
    CONSTRAINT log_segments_pkey PRIMARY KEY (shard, number),
    CONSTRAINT log_segments_positions CHECK (first_position BETWEEN 1 AND last_position)
);
