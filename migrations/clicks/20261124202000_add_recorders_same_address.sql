-- True while the last 1,000 clicks of the recorder have one client address, so that `query-api doctor` can warn.
-- Takes ACCESS EXCLUSIVE on a small table for a moment (no rewrite). The release before does not know the column.
SET LOCAL lock_timeout = '2s';
ALTER TABLE clicks.recorders ADD COLUMN same_address boolean NOT NULL DEFAULT false;
