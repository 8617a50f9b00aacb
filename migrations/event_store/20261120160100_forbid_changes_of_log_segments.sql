-- Sealed segments are append-only for everybody, as the events are. The function names the table
-- that it stands guard over; for events it says what it said before.
CREATE OR REPLACE FUNCTION event_store.forbid_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% are append-only: % is not allowed', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER log_segments_append_only BEFORE UPDATE OR DELETE ON event_store.log_segments
    FOR EACH ROW EXECUTE FUNCTION event_store.forbid_change();

CREATE TRIGGER log_segments_no_truncate BEFORE TRUNCATE ON event_store.log_segments
    FOR EACH STATEMENT EXECUTE FUNCTION event_store.forbid_change();
