-- Instant before which every click is in the figures of a counting, except lost clicks. A recorder that lives
-- counts up to its last heartbeat whose sequences are all counted. A recorder that has ended or is dead counts
-- as long as a partition may still have records of it that are not counted. Before the counting has read every
-- partition to its end for the first time, nothing is complete: 1970-01-01.
CREATE FUNCTION clicks.complete_until(of_counting text)
RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN EXISTS (
        SELECT FROM clicks.positions AS position
        WHERE position.counting = of_counting AND position.read_to_end_at IS NULL
    ) THEN 'epoch' ELSE least(now(), min(counted.until)) END
    FROM clicks.recorders AS recorder
    CROSS JOIN LATERAL (
        SELECT coalesce(max(heartbeat.recorded_until), recorder.started_at) AS until
        FROM clicks.heartbeats AS heartbeat
        WHERE heartbeat.recorder_id = recorder.recorder_id
          AND NOT EXISTS (
              SELECT FROM unnest(heartbeat.sequences) WITH ORDINALITY AS recorded (sequence, number)
              LEFT JOIN clicks.sequences AS known
                ON known.counting = of_counting AND known.partition = recorded.number - 1
               AND known.recorder_id = recorder.recorder_id
              WHERE recorded.sequence > coalesce(known.sequence, 0)
          )
    ) AS counted
    WHERE (recorder.ended_at IS NULL AND recorder.seen_at > now() - interval '60 s')
       OR EXISTS (
           SELECT FROM clicks.positions AS position
           WHERE position.counting = of_counting
             AND position.read_to_end_at
                 <= CASE WHEN recorder.ended_at IS NULL THEN recorder.seen_at + interval '60 s'
                         ELSE greatest(recorder.seen_at, recorder.ended_at) END
       )
$$;
REVOKE ALL ON FUNCTION clicks.complete_until(text) FROM PUBLIC;

-- Lag of the figures of a counting, in seconds: age of complete_until. A counting that has never read every
-- partition to its end lags since the first recorder; without a recorder there are no clicks to count.
CREATE FUNCTION clicks.lag_seconds(of_counting text)
RETURNS double precision
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT greatest(extract(epoch FROM now() - CASE
        WHEN complete.until > 'epoch' THEN complete.until
        ELSE coalesce((SELECT min(recorder.started_at) FROM clicks.recorders AS recorder), now())
    END), 0)::double precision
    FROM (SELECT clicks.complete_until(of_counting) AS until) AS complete
$$;
REVOKE ALL ON FUNCTION clicks.lag_seconds(text) FROM PUBLIC;
