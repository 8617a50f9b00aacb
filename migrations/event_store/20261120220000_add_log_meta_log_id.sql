-- Identity of the log, which read tables on another server remember: the address of another
-- installation is noticed. A restored backup is the same log, and keeps the id. Rewrites one row under
-- ACCESS EXCLUSIVE. The release before does not read the column.
SET LOCAL lock_timeout = '2s';

ALTER TABLE event_store.log_meta ADD COLUMN log_id uuid NOT NULL DEFAULT gen_random_uuid();
