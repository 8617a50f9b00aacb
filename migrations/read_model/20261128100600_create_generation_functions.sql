-- The only DDL on read tables: functions create and drop the tables of generations. They run with the rights of the
-- tables' owner; `deploy/postgres/roles.sql` says who may call them.

-- Tables of a projection, and the storage parameters of their partitions.
CREATE FUNCTION read_model.projection_tables(for_projection text)
RETURNS TABLE (table_name text, storage text)
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT t.table_name, t.storage
    FROM (VALUES
        ('links', 'links', ''),
        ('links', 'link_tags', ''),
        ('redirects', 'redirects', ''),
        ('redirects', 'stopped_accounts', ''),
        ('credits', 'credit_balances', 'WITH (fillfactor = 50)'),
        ('credits', 'credit_entries', '')
    ) AS t (projection, table_name, storage)
    WHERE t.projection = for_projection
$$;

-- Creates a generation: empty tables with all their indexes, and checkpoints at the beginning of the log. Each table is
-- created apart and then attached: ATTACH of an empty table takes SHARE UPDATE EXCLUSIVE on the parent, which neither
-- readers nor writers wait for.
CREATE FUNCTION read_model.create_generation(
    for_projection text, new_generation integer, log_epoch integer
)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '50ms'
AS $$
DECLARE
    it record;
    partition text;
BEGIN
    UPDATE read_model.projections SET highest_generation = new_generation
    WHERE projection = for_projection AND highest_generation < new_generation;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the number % was given to a generation of `%` before',
            new_generation, for_projection USING ERRCODE = 'unique_violation';
    END IF;
    INSERT INTO read_model.generations (projection, generation, phase)
    VALUES (for_projection, new_generation, 'loading');
    INSERT INTO read_model.checkpoints (projection, generation, shard, epoch, role)
    SELECT for_projection, new_generation, shard, log_epoch, 'building'
    FROM generate_series(0, 15) AS shard;
    FOR it IN SELECT * FROM read_model.projection_tables(for_projection) LOOP
        partition := it.table_name || '_' || new_generation;
        EXECUTE format(
            'CREATE TABLE read_model.%I (LIKE read_model.%I INCLUDING ALL) %s',
            partition, it.table_name, it.storage
        );
        EXECUTE format(
            'ALTER TABLE read_model.%I ATTACH PARTITION read_model.%I FOR VALUES IN (%s)',
            it.table_name, partition, new_generation
        );
    END LOOP;
END
$$;

-- Analyzes one table of a generation that was filled at once. One table for each call: all tables of a large generation
-- take longer than a statement may.
CREATE FUNCTION read_model.analyze_table(
    for_projection text, of_table text, of_generation integer
)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM read_model.projection_tables(for_projection) WHERE table_name = of_table
    ) THEN
        RAISE EXCEPTION '`%` has no table `%`', for_projection, of_table
            USING ERRCODE = 'undefined_table';
    END IF;
    EXECUTE format('ANALYZE read_model.%I', of_table || '_' || of_generation);
END
$$;

-- Takes one step towards the removal of a generation, and returns true if nothing of it is left. The drop of a
-- partition takes ACCESS EXCLUSIVE on its parent, behind which every reader queues: each step drops one table, and waits
-- for its lock no longer than the timeout. The caller commits each step, and retries if the lock was not free (55P03).
CREATE FUNCTION read_model.drop_generation(for_projection text, old_generation integer)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '50ms'
AS $$
DECLARE
    found_phase text;
    partition text;
BEGIN
    -- A swap locks the same rows first: it is visible as a whole, or waits.
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
        -- A statement that began before a swap may still read the generation that was active then.
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

REVOKE ALL ON FUNCTION
    read_model.projection_tables(text),
    read_model.create_generation(text, integer, integer),
    read_model.analyze_table(text, text, integer),
    read_model.drop_generation(text, integer)
    FROM PUBLIC;
