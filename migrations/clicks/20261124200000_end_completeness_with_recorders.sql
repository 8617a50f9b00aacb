-- While no recorder lives, nothing is known of the clicks since the last sign of one: figures are complete until
-- then at most, and 1970-01-01 if there never was a recorder. Clicks may be switched off everywhere.
CREATE OR REPLACE FUNCTION clicks.complete_until(of_counting text)
RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN EXISTS (
        SELECT FROM clicks.positions AS position
        WHERE position.counting = of_counting AND position.read_to_end_at IS NULL
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

-- Lag of the figures of a counting, in seconds: age of complete_until; 0 once all clicks of recorders that are gone
-- are counted, and no recorder lives. A counting that has never read every partition to its end lags since the first
-- recorder.
CREATE OR REPLACE FUNCTION clicks.lag_seconds(of_counting text)
RETURNS double precision
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE
        WHEN complete.until >= recorded.until THEN 0
        WHEN complete.until > 'epoch' THEN extract(epoch FROM now() - complete.until)
        ELSE greatest(extract(epoch FROM now() - recorded.since), 0)
    END::double precision
    FROM (SELECT clicks.complete_until(of_counting) AS until) AS complete
    CROSS JOIN (
        SELECT CASE WHEN bool_or(every.ended_at IS NULL AND every.seen_at > now() - interval '60 s') THEN now()
                    ELSE coalesce(max(greatest(every.seen_at, every.ended_at)), 'epoch') END AS until,
               min(every.started_at) AS since
        FROM clicks.recorders AS every
    ) AS recorded
$$;
