-- What the planner wants to know of a generation that was filled at once, one table for each
-- statement: all tables of a large one take longer than a statement may. Locks nothing. It replaces
-- a function that no release has called.
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

REVOKE ALL ON FUNCTION read_model.analyze_table(text, text, integer) FROM PUBLIC;

DROP FUNCTION read_model.analyze_generation(text, integer);
