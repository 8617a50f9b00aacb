-- The log is append-only for everybody, its owner included. The GRANTs of `deploy/postgres/roles.sql`
-- say the same for each role; this holds where somebody connects as the owner.
CREATE FUNCTION event_store.forbid_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'events are append-only: % is not allowed', TG_OP
        USING ERRCODE = 'restrict_violation';
END
$$;

-- Row triggers of a partitioned table are cloned to its partitions.
CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE ON event_store.events
    FOR EACH ROW EXECUTE FUNCTION event_store.forbid_change();

-- Statement triggers are not.
CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON event_store.events
    FOR EACH STATEMENT EXECUTE FUNCTION event_store.forbid_change();

DO $$
BEGIN
    FOR shard IN 0..15 LOOP
        EXECUTE format(
            'CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON event_store.events_%s
                 FOR EACH STATEMENT EXECUTE FUNCTION event_store.forbid_change()',
            to_char(shard, 'FM00'));
    END LOOP;
END
$$;
