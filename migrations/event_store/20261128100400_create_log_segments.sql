-- Sealed segments of the log: a hash of every byte of some thousand events and of the segment before, which reveals a
-- change of the past (docs/sealed-segments.md).
-- No foreign key: a reference to log_shards would lock the counter of the shard with each segment.
CREATE TABLE event_store.log_segments (
    shard smallint NOT NULL CONSTRAINT log_segments_shard_range CHECK (shard BETWEEN 0 AND 15),
    -- Place among the segments of the shard, from 1, without gaps.
    number bigint NOT NULL CONSTRAINT log_segments_number_positive CHECK (number > 0),
    first_position bigint NOT NULL,
    last_position bigint NOT NULL,
    -- Of the log when the segment was sealed; part of the hashed bytes.
    epoch integer NOT NULL,
    sha256 bytea NOT NULL CONSTRAINT log_segments_sha256_length CHECK (octet_length(sha256) = 32),
    CONSTRAINT log_segments_pkey PRIMARY KEY (shard, number),
    CONSTRAINT log_segments_positions CHECK (first_position BETWEEN 1 AND last_position)
);

CREATE TRIGGER log_segments_append_only BEFORE UPDATE OR DELETE ON event_store.log_segments
    FOR EACH ROW EXECUTE FUNCTION event_store.forbid_change();
CREATE TRIGGER log_segments_no_truncate BEFORE TRUNCATE ON event_store.log_segments
    FOR EACH STATEMENT EXECUTE FUNCTION event_store.forbid_change();
