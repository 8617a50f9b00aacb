-- The number of a generation is given out once, also when the generation is dropped: redirect caches
-- and the records of operators tell generations apart by it. A new table, and a function that keeps
-- it: locks nothing that requests use. The release before gives out the number again of what it has
-- dropped last, and is refused.
CREATE TABLE read_model.generation_numbers (
    projection text NOT NULL REFERENCES read_model.projections (projection),
    -- That has been given out.
    highest integer NOT NULL,
    CONSTRAINT generation_numbers_pkey PRIMARY KEY (projection)
);

INSERT INTO read_model.generation_numbers (projection, highest)
SELECT projection, max(generation)
FROM (
    SELECT projection, generation FROM read_model.generations
    UNION ALL
    SELECT projection, generation FROM read_model.verifications
) AS known
GROUP BY projection;

CREATE OR REPLACE FUNCTION read_model.create_generation(
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
    INSERT INTO read_model.generation_numbers AS known (projection, highest)
    VALUES (for_projection, new_generation)
    ON CONFLICT (projection) DO UPDATE SET highest = excluded.highest
    WHERE known.highest < excluded.highest;
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
