-- A note is of one run of a process: one that is started under the name of another, or of its own
-- former run, leaves the other's note alone.
-- Takes ACCESS EXCLUSIVE on a table of a few rows for a moment. No release before uses the table.
SET LOCAL lock_timeout = '2s';
ALTER TABLE event_store.relay_producers
    -- Drawn at each start.
    ADD COLUMN process_id uuid NOT NULL DEFAULT gen_random_uuid(),
    DROP CONSTRAINT relay_producers_pkey,
    ADD PRIMARY KEY (owner, process_id);
