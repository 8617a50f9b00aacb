-- The log that the read tables are derived from: `event_store.log_meta.log_id`. NULL until `migrate`
-- has read the id from the log, which may be on another server. A new table: nothing is locked. The
-- release before does not know it.
CREATE TABLE read_model.followed_log (
    -- Exactly one row.
    singleton boolean PRIMARY KEY DEFAULT true CONSTRAINT followed_log_singleton CHECK (singleton),
    log_id uuid
);

INSERT INTO read_model.followed_log (log_id) VALUES (NULL);
