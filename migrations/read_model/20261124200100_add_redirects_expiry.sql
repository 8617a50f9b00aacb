-- Expiry of short links, and the destination after it; null where the link has none.
-- Takes ACCESS EXCLUSIVE on redirects for a moment (no rewrite: the columns are nullable). While it
-- waits for a long reader, every redirect queues behind it: rather than that it gives up, and
-- `migrate` is to be run again. The release before reads and writes rows without the columns.
SET LOCAL lock_timeout = '2s';
ALTER TABLE read_model.redirects
    ADD COLUMN expires_at timestamptz,
    ADD COLUMN expired_url text;
