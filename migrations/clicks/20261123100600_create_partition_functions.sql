-- The only DDL on figures: partitions by time, whose drop is the retention. The functions run with the rights
-- of the tables' owner; `deploy/postgres/roles.sql` says who may call them.

-- Tables of figures: time of a partition, and retention in days (NULL: for ever).
CREATE FUNCTION clicks.figure_tables()
RETURNS TABLE (table_name text, is_weekly boolean, days_kept integer)
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    VALUES ('link_quarters', true, 90), ('account_quarters', true, 90),
           ('link_days', false, NULL), ('account_days', false, NULL),
           ('link_values', false, 396), ('account_values', false, 396)
$$;

-- Creates the partitions of all tables that have rows of a UTC day, and returns false if all exist. Tables that
-- do not keep the day any more get no partition. Attaching an empty table takes SHARE UPDATE EXCLUSIVE on the
-- parent: neither readers nor writers wait.
CREATE FUNCTION clicks.create_partitions(of_day date)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '50ms'
SET timezone = 'UTC'
AS $$
DECLARE
    figures record;
    first_day date;
    end_day date;
    partition text;
    has_created boolean := false;
BEGIN
    IF of_day NOT BETWEEN current_date - 800 AND current_date + 62 THEN
        RAISE EXCEPTION 'no partitions for %: more than 800 days ago, or more than 62 days ahead', of_day
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- Two processes may create the same partitions at once.
    PERFORM pg_advisory_xact_lock(hashtext('linkledger clicks partitions'));
    FOR figures IN SELECT * FROM clicks.figure_tables() LOOP
        IF figures.is_weekly THEN
            first_day := date_trunc('week', of_day);
            end_day := first_day + 7;
        ELSE
            first_day := date_trunc('month', of_day);
            end_day := first_day + interval '1 month';
        END IF;
        CONTINUE WHEN end_day <= current_date - figures.days_kept;
        partition := figures.table_name || '_' || to_char(first_day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass('clicks.' || partition) IS NOT NULL;
        EXECUTE format(
            'CREATE TABLE clicks.%I (LIKE clicks.%I INCLUDING ALL)
             WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05,
                   autovacuum_analyze_scale_factor = 0.05,
                   toast.autovacuum_vacuum_scale_factor = 0.05)',
            partition, figures.table_name
        );
        EXECUTE format(
            'ALTER TABLE clicks.%I ATTACH PARTITION clicks.%I FOR VALUES FROM (%L) TO (%L)',
            figures.table_name, partition, first_day, end_day
        );
        has_created := true;
    END LOOP;
    RETURN has_created;
END
$$;
REVOKE ALL ON FUNCTION clicks.create_partitions(date) FROM PUBLIC;

-- Drops one partition whose days are kept no more, and returns its name; NULL if there is none. The drop takes
-- ACCESS EXCLUSIVE on the parent for a moment: one table for each call, and a lock that is not free within 50 ms
-- is left for a later call (55P03).
CREATE FUNCTION clicks.drop_expired_partition()
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '50ms'
SET timezone = 'UTC'
AS $$
DECLARE
    expired text;
BEGIN
    SELECT child.relname INTO expired
    FROM clicks.figure_tables() AS figures
    JOIN pg_inherits AS inherits
      ON inherits.inhparent = to_regclass('clicks.' || figures.table_name)
    JOIN pg_class AS child ON child.oid = inherits.inhrelid
    -- A partition that an operator has made has another name.
    CROSS JOIN LATERAL (
        SELECT CASE WHEN child.relname ~ '_[0-9]{8}$'
                    THEN to_date(right(child.relname, 8), 'YYYYMMDD') END AS first_day
    ) AS of
    WHERE figures.days_kept IS NOT NULL
      AND CASE WHEN figures.is_weekly THEN of.first_day + 7
               ELSE (of.first_day + interval '1 month')::date END <= current_date - figures.days_kept
    ORDER BY of.first_day, child.relname
    LIMIT 1;
    IF expired IS NOT NULL THEN
        EXECUTE format('DROP TABLE clicks.%I', expired);
    END IF;
    RETURN expired;
END
$$;
REVOKE ALL ON FUNCTION clicks.drop_expired_partition() FROM PUBLIC;
