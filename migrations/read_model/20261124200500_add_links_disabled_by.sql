-- Role that a link is disabled by, for its owner; null if the link is not disabled.
-- Takes ACCESS EXCLUSIVE on links for a moment (no rewrite: the column is nullable). While it waits for a long reader,
-- every list queues behind it: rather than that it gives up, and `migrate` is to be run again. The release before
-- reads and writes rows without the column.
SET LOCAL lock_timeout = '2s';
ALTER TABLE read_model.links ADD COLUMN disabled_by text;
