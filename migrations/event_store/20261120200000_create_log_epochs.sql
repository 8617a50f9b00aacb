-- When, by whom and why the epoch of the log was raised, and where the log ended then. The first
-- epoch has no row. A new table: nothing is locked. The release before does not know it.
CREATE TABLE event_store.log_epochs (
    epoch integer NOT NULL,
    former_epoch integer NOT NULL,
    raised_at timestamptz NOT NULL DEFAULT now(),
    raised_by text NOT NULL,
    reason text NOT NULL,
    -- The head of each shard, from the first.
    heads bigint[] NOT NULL,
    CONSTRAINT log_epochs_pkey PRIMARY KEY (epoch),
    CONSTRAINT log_epochs_raised CHECK (epoch > former_epoch)
);

CREATE TRIGGER log_epochs_append_only BEFORE UPDATE OR DELETE ON event_store.log_epochs
    FOR EACH ROW EXECUTE FUNCTION event_store.forbid_change();

CREATE TRIGGER log_epochs_no_truncate BEFORE TRUNCATE ON event_store.log_epochs
    FOR EACH STATEMENT EXECUTE FUNCTION event_store.forbid_change();
