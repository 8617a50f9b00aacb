-- Details of links; null where the link has none.
-- Takes ACCESS EXCLUSIVE on links for a moment (no rewrite: the columns are nullable). While it waits
-- for a long reader, every list queues behind it: rather than that it gives up, and `migrate` is to be
-- run again. The release before reads and writes rows without the columns.
SET LOCAL lock_timeout = '2s';
ALTER TABLE read_model.links
    ADD COLUMN title text,
    ADD COLUMN external_id text,
    -- Sorted, never empty.
    ADD COLUMN tags text[],
    ADD COLUMN expires_at timestamptz,
    ADD COLUMN expired_url text;
