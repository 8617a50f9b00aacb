-- Position of each counting in each partition of the topic of clicks. The position moves in the transaction
-- that writes the counted figures, and only from the value that the writer has read: whoever else counts the
-- same records at the same time fails and changes nothing.
-- Two countings read the topic independently: `totals` (clicks of quarters of hours and of days, visitors of
-- days) and `values` (countries, referrers, browsers, systems, devices), which may lag under load.
CREATE TABLE clicks.positions (
    counting text NOT NULL CHECK (counting IN ('totals', 'values')),
    partition smallint NOT NULL CHECK (partition BETWEEN 0 AND 15),
    -- Offset of the next record; 0 before the first batch.
    next_offset bigint NOT NULL DEFAULT 0 CHECK (next_offset >= 0),
    -- `ce_id` of the record before next_offset. On a topic whose record there has another id, counting begins
    -- at the beginning, and sequences drop repeats. NULL before the first batch.
    last_record_id text,
    -- Instant before which all records in the partition are counted, by the clock of this server.
    read_to_end_at timestamptz,
    -- Instant of the last batch; NULL before the first one.
    counted_at timestamptz,
    -- Since when an operator keeps the counting from moving; NULL: it moves.
    paused_at timestamptz,
    CONSTRAINT positions_pkey PRIMARY KEY (counting, partition)
);

INSERT INTO clicks.positions (counting, partition)
SELECT counting, partition
FROM unnest(ARRAY['totals', 'values']) AS counting, generate_series(0, 15) AS partition;
