-- The log is append-only for everybody, its owner included. The GRANTs of `deploy/postgres/roles.sql`
-- say the same for each role; this holds where somebody connects as the owner.
CREATE FUNCTION event_store.forbid_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'events are append-only: % is not allowed', TG_OP
        USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE ON event_store.events
    FOR EACH ROW EXECUTE FUNCTION event_store.forbid_change();

CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON event_store.events
    FOR EACH STATEMENT EXECUTE FUNCTION event_store.forbid_change();
