-- Aggregation of clicks.

-- Position in each partition of the topic of clicks. The position moves in the transaction that writes the counted
-- statistics, and only from the value that the writer has read: whoever else counts the same records at the same time
-- fails and changes nothing.
CREATE TABLE clicks.positions (
    partition smallint NOT NULL CHECK (partition BETWEEN 0 AND 15),
    -- Offset of the next record; 0 before the first batch.
    next_offset bigint NOT NULL DEFAULT 0 CHECK (next_offset >= 0),
    -- `ce_id` of the record before next_offset. On a topic whose record there has another id, the aggregation begins
    -- at the beginning, and sequences drop repeats. NULL before the first batch.
    last_record_id text,
    -- Instant before which all records in the partition are counted, by the clock of this server.
    read_to_end_at timestamptz,
    -- Instant of the last batch; NULL before the first one.
    counted_at timestamptz,
    -- Time since which the aggregation is paused; NULL: not paused.
    paused_at timestamptz,
    CONSTRAINT positions_pkey PRIMARY KEY (partition)
);

INSERT INTO clicks.positions (partition) SELECT generate_series(0, 15);

-- Highest counted sequence of each recorder in each partition: a record with a sequence up to it is a repeat.
-- Rows stay for 800 days, longer than any usual retention of the topic.
CREATE TABLE clicks.sequences (
    partition smallint NOT NULL CHECK (partition BETWEEN 0 AND 15),
    recorder_id uuid NOT NULL,
    sequence bigint NOT NULL CHECK (sequence > 0),
    -- Sequences that were never found: clicks that are lost.
    missing bigint NOT NULL DEFAULT 0 CHECK (missing >= 0),
    counted_at timestamptz NOT NULL,
    CONSTRAINT sequences_pkey PRIMARY KEY (partition, recorder_id)
);

-- Instant before which every click is in the statistics, except lost clicks. A recorder that lives
-- counts up to its last heartbeat whose sequences are all counted. A recorder that has ended or is dead counts
-- as long as a partition may still have records of it that are not counted. Before the aggregation has read every
-- partition to its end for the first time, nothing is complete: 1970-01-01.
-- While no recorder lives, nothing is known of the clicks since the last sign of one: statistics are complete until
-- then at most, and 1970-01-01 if there never was a recorder. Clicks may be switched off everywhere.
CREATE FUNCTION clicks.complete_until()
RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN EXISTS (
        SELECT FROM clicks.positions AS position WHERE position.read_to_end_at IS NULL
    ) THEN 'epoch' ELSE least(now(), min(counted.until), (
        SELECT CASE WHEN bool_or(every.ended_at IS NULL AND every.seen_at > now() - interval '60 s') THEN now()
                    ELSE coalesce(max(greatest(every.seen_at, every.ended_at)), 'epoch') END
        FROM clicks.recorders AS every
    )) END
    FROM clicks.recorders AS recorder
    CROSS JOIN LATERAL (
        SELECT coalesce(max(heartbeat.recorded_until), recorder.started_at) AS until
        FROM clicks.heartbeats AS heartbeat
        WHERE heartbeat.recorder_id = recorder.recorder_id
          AND NOT EXISTS (
              SELECT FROM unnest(heartbeat.sequences) WITH ORDINALITY AS recorded (sequence, number)
              LEFT JOIN clicks.sequences AS known
                ON known.partition = recorded.number - 1 AND known.recorder_id = recorder.recorder_id
              WHERE recorded.sequence > coalesce(known.sequence, 0)
          )
    ) AS counted
    WHERE (recorder.ended_at IS NULL AND recorder.seen_at > now() - interval '60 s')
       OR EXISTS (
           SELECT FROM clicks.positions AS position
           WHERE position.read_to_end_at
                 <= CASE WHEN recorder.ended_at IS NULL THEN recorder.seen_at + interval '60 s'
                         ELSE greatest(recorder.seen_at, recorder.ended_at) END
       )
$$;
REVOKE ALL ON FUNCTION clicks.complete_until() FROM PUBLIC;

-- Lag of the statistics, in seconds: age of complete_until; 0 once all clicks of recorders that are gone
-- are counted, and no recorder lives. An aggregation that has never read every partition to its end lags since the first
-- recorder.
CREATE FUNCTION clicks.lag_seconds()
RETURNS double precision
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE
        WHEN complete.until >= recorded.until THEN 0
        WHEN complete.until > 'epoch' THEN extract(epoch FROM now() - complete.until)
        ELSE greatest(extract(epoch FROM now() - recorded.since), 0)
    END::double precision
    FROM (SELECT clicks.complete_until() AS until) AS complete
    CROSS JOIN (
        SELECT CASE WHEN bool_or(every.ended_at IS NULL AND every.seen_at > now() - interval '60 s') THEN now()
                    ELSE coalesce(max(greatest(every.seen_at, every.ended_at)), 'epoch') END AS until,
               min(every.started_at) AS since
        FROM clicks.recorders AS every
    ) AS recorded
$$;
REVOKE ALL ON FUNCTION clicks.lag_seconds() FROM PUBLIC;
