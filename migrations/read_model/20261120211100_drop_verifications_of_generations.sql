-- What a verification has found of a generation goes with the generation. A function is replaced:
-- locks nothing. The release before gains by it.
CREATE OR REPLACE FUNCTION read_model.drop_generation(for_projection text, old_generation integer)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '50ms'
AS $$
DECLARE
    found_phase text;
    partition text;
BEGIN
    -- A swap locks the same rows first: it is seen whole, or waits.
    PERFORM FROM read_model.checkpoints
    WHERE projection = for_projection AND generation = old_generation
    ORDER BY shard FOR UPDATE;
    SELECT phase INTO found_phase FROM read_model.generations
    WHERE projection = for_projection AND generation = old_generation
    FOR UPDATE;
    IF NOT found THEN
        RETURN true;
    END IF;
    IF found_phase <> 'dropping' THEN
        IF found_phase = 'active' OR EXISTS (
            SELECT FROM read_model.projections
            WHERE projection = for_projection AND active_generation = old_generation
        ) OR EXISTS (
            SELECT FROM read_model.checkpoints
            WHERE projection = for_projection AND generation = old_generation AND role = 'live'
        ) THEN
            RAISE EXCEPTION 'generation % of `%` is served', old_generation, for_projection
                USING ERRCODE = 'object_in_use';
        END IF;
        -- A statement that began before a swap may still read what was active then.
        IF EXISTS (
            SELECT FROM read_model.generations
            WHERE projection = for_projection AND generation = old_generation
              AND last_active_at > clock_timestamp() - interval '60 seconds'
        ) THEN
            RAISE EXCEPTION 'generation % of `%` was served a moment ago',
                old_generation, for_projection USING ERRCODE = 'object_in_use';
        END IF;
        UPDATE read_model.generations SET phase = 'dropping'
        WHERE projection = for_projection AND generation = old_generation;
        RETURN false;
    END IF;
    SELECT t.table_name || '_' || old_generation INTO partition
    FROM read_model.projection_tables(for_projection) AS t
    WHERE to_regclass('read_model.' || t.table_name || '_' || old_generation) IS NOT NULL
    LIMIT 1;
    IF found THEN
        EXECUTE format('DROP TABLE read_model.%I', partition);
        RETURN false;
    END IF;
    DELETE FROM read_model.parked_events
    WHERE (shard, position) IN (
        SELECT shard, position FROM read_model.parked_events
        WHERE projection = for_projection AND generation = old_generation
        LIMIT 10000
    ) AND projection = for_projection AND generation = old_generation;
    IF found THEN
        RETURN false;
    END IF;
    DELETE FROM read_model.parked_accounts
    WHERE account_id IN (
        SELECT account_id FROM read_model.parked_accounts
        WHERE projection = for_projection AND generation = old_generation
        LIMIT 10000
    ) AND projection = for_projection AND generation = old_generation;
    IF found THEN
        RETURN false;
    END IF;
    DELETE FROM read_model.verifications
    WHERE projection = for_projection AND generation = old_generation;
    DELETE FROM read_model.checkpoints
    WHERE projection = for_projection AND generation = old_generation;
    DELETE FROM read_model.generations
    WHERE projection = for_projection AND generation = old_generation;
    RETURN true;
END
$$;
